// See draft_eval.h.
#include "train/draft_eval.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <unordered_set>

#include "kernels/half.h"
#include "train/features.h"

namespace dspark {
namespace {

constexpr int kFreshGram = 6;

// For each token whether the 6-gram that it ends is the first of its kind. A hash stands for the six tokens.
std::vector<bool> fresh_tokens(std::span<const int32_t> tokens) {
  std::vector<bool> fresh(tokens.size(), true);
  std::unordered_set<uint64_t> seen;
  for (size_t i = kFreshGram - 1; i < tokens.size(); ++i) {
    uint64_t hash = 0x9e3779b97f4a7c15;
    for (size_t j = i + 1 - kFreshGram; j <= i; ++j) {
      hash = (hash ^ static_cast<uint32_t>(tokens[j])) * 0xff51afd7ed558ccd;
      hash ^= hash >> 32;
    }
    fresh[i] = seen.insert(hash).second;
  }
  return fresh;
}

// The sum of min(p, q) at each accepted place and the first that was not.
Status add_ratio(Runner& runner, const WatchedSequence& sequence, DraftQuality* quality) {
  if (sequence.drafts.empty() || sequence.tokens.size() < 2) return Ok{};
  TrainConversation whole;
  whole.tokens = sequence.tokens;
  const int first = sequence.drafts.front().anchor, end = static_cast<int>(sequence.tokens.size());
  whole.answers = {{first, end}};
  DSPARK_TRY(const TargetFeatures target, compute_features(runner, {}, whole));
  for (const WatchedDraft& draft : sequence.drafts) {
    const size_t asked =
        std::min({static_cast<size_t>(draft.accepted) + 1, draft.distributions.size(), draft.verified.size()});
    for (size_t k = 0; k < asked; ++k) {
      const int row = draft.anchor + static_cast<int>(k) - target.first_prediction;
      if (row < 0 || row >= target.positions - target.first_prediction) break;
      std::unordered_map<int32_t, float> mine(draft.distributions[k].begin(), draft.distributions[k].end());
      double agreed = 0.0;
      const size_t at = static_cast<size_t>(row) * kTargetTokens;
      for (size_t i = at; i < at + kTargetTokens && target.tokens[i] >= 0; ++i) {
        const auto found = mine.find(target.tokens[i]);
        if (found == mine.end()) continue;
        agreed += static_cast<double>(std::min(found->second, half_to_float(target.probabilities[i])));
      }
      quality->positions[k].ratio_sum += agreed;
      ++quality->positions[k].ratio_count;
    }
  }
  return Ok{};
}

}  // namespace

void DraftQuality::add(const DraftQuality& other) {
  prompts += other.prompts;
  drafts += other.drafts;
  pace.tokens += other.pace.tokens;
  pace.steps += other.pace.steps;
  fresh.tokens += other.fresh.tokens;
  fresh.steps += other.fresh.steps;
  positions.resize(std::max(positions.size(), other.positions.size()));
  for (size_t k = 0; k < other.positions.size(); ++k) {
    PositionQuality& mine = positions[k];
    const PositionQuality& theirs = other.positions[k];
    mine.reached += theirs.reached;
    mine.accepted += theirs.accepted;
    mine.survival.insert(mine.survival.end(), theirs.survival.begin(), theirs.survival.end());
    mine.ratio_sum += theirs.ratio_sum;
    mine.ratio_count += theirs.ratio_count;
  }
  confidences.insert(confidences.end(), other.confidences.begin(), other.confidences.end());
}

void add_pace(const StreamedAnswer& answer, DraftQuality* quality) {
  ++quality->prompts;
  std::vector<int32_t> all = answer.prompt;
  all.insert(all.end(), answer.tokens.begin(), answer.tokens.end());
  const std::vector<bool> fresh = fresh_tokens(all);
  // A step's tokens: those that were drafted, and one of the target's own behind them, which the end may have cut off.
  for (size_t first = 1; first < answer.tokens.size();) {
    size_t end = first;
    while (end < answer.tokens.size() && answer.drafted[end]) ++end;
    end = std::min(end + 1, answer.tokens.size());
    const auto tokens = static_cast<int64_t>(end - first);
    quality->pace.tokens += tokens;
    ++quality->pace.steps;
    if (fresh[answer.prompt.size() + first]) {
      quality->fresh.tokens += tokens;
      ++quality->fresh.steps;
    }
    first = end;
  }
}

void add_drafts(const WatchedSequence& sequence, DraftQuality* quality) {
  for (const WatchedDraft& draft : sequence.drafts) {
    ++quality->drafts;
    quality->positions.resize(std::max(quality->positions.size(), draft.verified.size()));
    ConfidenceRecord record = {.confidences = {}, .accepted = draft.accepted};
    for (size_t k = 0; k < draft.verified.size(); ++k) {
      PositionQuality& position = quality->positions[k];
      const int place = static_cast<int>(k);
      position.reached += draft.accepted >= place;
      position.accepted += draft.accepted > place;
      position.survival.push_back({static_cast<double>(draft.verified[k].survival), draft.accepted > place});
      if (!std::isnan(draft.verified[k].confidence)) record.confidences.push_back(draft.verified[k].confidence);
    }
    if (!record.confidences.empty()) quality->confidences.push_back(std::move(record));
  }
}

Result<DraftQuality> evaluate_drafts(Engine& engine, std::span<const std::shared_ptr<WatchedDrafter>> watched,
                                     const std::vector<std::vector<int32_t>>& prompts, const EvalOptions& options,
                                     const std::function<bool(int64_t done)>& report) {
  DraftQuality quality;
  RequestStream stream(engine.loop(), options.slots);
  size_t asked = 0, done = 0;
  while (done < prompts.size()) {
    for (; stream.has_room() && asked < prompts.size(); ++asked) {
      Request request;
      request.prompt = prompts[asked];
      request.sampling = options.sampling;
      request.sampling.seed += asked;
      request.max_tokens = options.max_tokens;
      DSPARK_RETURN_IF_ERROR(stream.add(asked, std::move(request)));
    }
    DSPARK_TRY(const std::vector<StreamedAnswer> answers, stream.take());
    for (const StreamedAnswer& answer : answers) add_pace(answer, &quality);
    done += answers.size();
    if (!report(static_cast<int64_t>(done))) return make_error(ErrorCode::kCancelled, "stopped");
  }
  engine.loop().wait_until_idle(std::chrono::hours(1));
  for (const auto& drafter : watched) {
    for (const auto& [id, sequence] : drafter->take()) {
      add_drafts(sequence, &quality);
      if (options.sampling.temperature == 1.0) {
        DSPARK_RETURN_IF_ERROR(add_ratio(engine.runner(), sequence, &quality));
      }
    }
  }
  return quality;
}

}  // namespace dspark
