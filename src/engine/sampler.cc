// Edits of the logits, then either their argmax or the scan for the best score.
#include "engine/sampler.h"

#include <algorithm>
#include <cmath>

#include "base/exact_math.h"

namespace dspark {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

Error broken_logits(const DrawRow& row, const char* what) {
  return make_error(ErrorCode::kCorrupt,
                    "the logits of position {} hold {}, expected finite numbers: the model's weights are broken "
                    "(`dspark inspect` checks the file)",
                    row.position, what);
}

Error nothing_kept(const DrawRow& row) {
  return make_error(ErrorCode::kInvalidArgument,
                    "position {}: grammar, logit_bias and forbidden tokens leave no token to choose, expected at least "
                    "one; loosen them",
                    row.position);
}

// What a largest logit says of the whole row.
Status check_max(const DrawRow& row, float max) {
  if (max == kInfinity) return broken_logits(row, "infinity");
  if (max == -kInfinity) return nothing_kept(row);
  return Ok{};
}

bool kept(const uint32_t* keep, int32_t token) {
  return keep == nullptr || (keep[token / 32] >> (token % 32) & 1) != 0;
}

void apply_mask(const uint32_t* keep, int64_t vocab, float* logits) {
  for (int64_t begin = 0; begin < vocab; begin += 32) {
    const uint32_t bits = keep[begin / 32];
    if (bits == 0xFFFFFFFFu) continue;
    const int64_t count = std::min<int64_t>(32, vocab - begin);
    for (int64_t i = 0; i < count; ++i) logits[begin + i] = (bits >> i & 1) != 0 ? logits[begin + i] : -kInfinity;
  }
}

bool contains(std::span<const int32_t> ascending, int32_t token) {
  return std::binary_search(ascending.begin(), ascending.end(), token);
}

void sort_unique(std::vector<int32_t>& tokens) {
  std::sort(tokens.begin(), tokens.end());
  tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
}

}  // namespace

Result<Sampler> Sampler::create(const Ops& ops, SamplingParams params, int64_t vocab,
                                std::span<const int32_t> end_tokens) {
  DSPARK_RETURN_IF_ERROR(validate(params, vocab));
  for (const int32_t token : end_tokens) {
    DSPARK_CHECK(token >= 0 && token < vocab, "end token {} outside a vocabulary of {}", token, vocab);
  }
  return Sampler(ops, std::move(params), vocab, end_tokens);
}

Sampler::Sampler(const Ops& ops, SamplingParams params, int64_t vocab, std::span<const int32_t> end_tokens)
    : ops_(&ops), params_(std::move(params)), vocab_(vocab), penalises_(has_penalty(params_)) {
  std::vector<int32_t>& models = params_.ignore_eos ? never_ : ends_;
  models.assign(end_tokens.begin(), end_tokens.end());
  ends_.insert(ends_.end(), params_.stop_token_ids.begin(), params_.stop_token_ids.end());
  not_yet_ = ends_;
  not_yet_.insert(not_yet_.end(), never_.begin(), never_.end());
  sort_unique(ends_);
  sort_unique(never_);
  sort_unique(not_yet_);
}

bool Sampler::ends(int32_t token) const { return contains(ends_, token); }

// Tokens that the row may not give, ascending.
std::span<const int32_t> Sampler::forbidden(const DrawRow& row, const TokenHistory& history) const {
  const int64_t before = history.output_size() + static_cast<int64_t>(row.drafted.size());
  return before < params_.min_tokens ? not_yet_ : never_;
}

float Sampler::penalised(float logit, TokenHistory::Counts counts) const {
  if (counts.in_window > 0) {
    const float factor = static_cast<float>(params_.repetition_penalty);
    logit = logit > 0.0f ? logit / factor : logit * factor;
  }
  if (counts.in_output > 0) {
    logit = logit - static_cast<float>(counts.in_output) * static_cast<float>(params_.frequency_penalty);
    logit = logit - static_cast<float>(params_.presence_penalty);
  }
  return logit;
}

// Penalties, bias, grammar: in this order.
void Sampler::edit(const DrawRow& row, const TokenHistory& history, float* logits) const {
  std::copy_n(row.logits, vocab_, logits);
  if (penalises_) {
    const auto penalise = [&](int32_t token, TokenHistory::Counts counts) {
      if (token >= 0 && token < vocab_) logits[token] = penalised(row.logits[token], counts);
    };
    for (const TokenHistory::Entry& entry : history.entries()) penalise(entry.token, entry.counts);
    // The few tokens whose counts the draft changes.
    for (const int32_t token : row.drafted) penalise(token, history.counts(token, row.drafted));
    for (const int32_t token : history.leaving(static_cast<int64_t>(row.drafted.size()))) {
      penalise(token, history.counts(token, row.drafted));
    }
  }
  for (const auto& [token, bias] : params_.logit_bias) logits[token] = logits[token] + bias;
  if (row.keep != nullptr) apply_mask(row.keep, vocab_, logits);
  for (const int32_t token : forbidden(row, history)) logits[token] = -kInfinity;
}

Result<Survey> Sampler::survey(const DrawRow& row, const float* logits, DrawScratch& scratch) const {
  const int64_t size = survey_size(vocab_);
  scratch.maxima_.ensure(static_cast<size_t>(size));
  const float* maxima = scratch.maxima_.data();
  if (!ops_->survey(logits, vocab_, scratch.maxima_.data())) return broken_logits(row, "NaN");
  const float max = maxima[ops_->argmax(maxima, size)];
  DSPARK_RETURN_IF_ERROR(check_max(row, max));
  return Survey{logits, maxima, vocab_, max};
}

// The kept token of the best score, (logit - max) / T + g; of equal scores the lowest id. The scan names the few
// tokens whose noise may lift them above the best so far; their scores are computed in double.
int32_t Sampler::best_score(const DrawRow& row, const Survey& survey, const Cut& cut, DrawScratch& scratch) const {
  constexpr int64_t kFirstChunk = 128, kLargestChunk = 16384;
  // Far above what the scan's float arithmetic may lose.
  constexpr double kMargin = 0x1p-10;
  // bits(float) / 2^23 is 127 above log2, from below; w is at least half / 2^16.
  constexpr double kLogOffset = 143 * 0x1.62e42fefa39efp-1;

  const double t = params_.temperature;
  const NoiseKey key{params_.seed, row.position};
  const auto score = [&](int32_t token) {
    return (static_cast<double>(survey.logits[token]) - static_cast<double>(survey.max)) / t +
           gumbel(noise_word(key, token));
  };
  // Starting with the likeliest token makes the first bound a good one.
  const int64_t group = ops_->argmax(survey.maxima, survey_size(vocab_));
  const int64_t tile = group / 16 * kSurveyTile;
  int32_t best = static_cast<int32_t>(tile + ops_->argmax(survey.logits + tile, std::min(kSurveyTile, vocab_ - tile)));
  double best_score = score(best);

  scratch.candidates_.ensure(kLargestChunk);
  int32_t* candidates = scratch.candidates_.data();
  DrawScan scan{key, survey.logits, survey.maxima, survey.max, inverse_temperature(t), 0.0f, 0.0f};
  int64_t chunk = kFirstChunk;
  for (int64_t begin = 0; begin < vocab_; begin += chunk, chunk = std::min(2 * chunk, kLargestChunk)) {
    const double hopeless = survey.max + (best_score - kMaxGumbel - kMargin) * t;
    scan.floor = std::max(cut.logit, std::nextafter(static_cast<float>(hopeless), -kInfinity));
    scan.limit = static_cast<float>(kLogOffset - best_score + kMargin);
    const int64_t count = ops_->draw_scan(scan, begin, std::min(begin + chunk, vocab_), candidates);
    for (int64_t i = 0; i < count; ++i) {
      const int32_t token = candidates[i];
      if (!cut.keeps(survey.logits[token], token)) continue;
      const double found = score(token);
      if (found > best_score || (found == best_score && token < best)) best_score = found, best = token;
    }
  }
  return best;
}

Result<int32_t> Sampler::choose(const DrawRow& row, const float* logits, DrawScratch& scratch) const {
  if (params_.temperature == 0.0) {
    const int64_t best = ops_->argmax(logits, vocab_);
    if (best < 0) return broken_logits(row, "NaN");
    DSPARK_RETURN_IF_ERROR(check_max(row, logits[best]));
    return static_cast<int32_t>(best);
  }
  DSPARK_TRY(const Survey found, survey(row, logits, scratch));
  return best_score(row, found, scratch.filter_.cut(params_, found), scratch);
}

// Of the raw logits: logit - max - log(sum of e^(logit - max)).
Status Sampler::add_logprobs(const DrawRow& row, int32_t count, DrawScratch& scratch, Draw* draw) const {
  DSPARK_TRY(const Survey raw, survey(row, row.logits, scratch));
  const int64_t sum = ops_->exp_sum(raw.logits, raw.maxima, vocab_, raw.max, 1.0f, -kInfinity);
  const double log_sum = exact_log(static_cast<double>(sum)) - kWeightBits * 0x1.62e42fefa39efp-1;
  const auto logprob = [&](float logit) {
    return static_cast<float>(static_cast<double>(logit) - static_cast<double>(raw.max) - log_sum);
  };
  draw->logprob = logprob(row.logits[draw->token]);
  scratch.top_.clear();
  for (const RankKey key : scratch.filter_.top(raw, count)) {
    scratch.top_.push_back({key_token(key), logprob(key_logit(key))});
  }
  draw->top = scratch.top_;
  return Ok{};
}

Result<int32_t> Sampler::token(const DrawRow& row, const TokenHistory& history, DrawScratch& scratch) const {
  const std::span<const int32_t> out = forbidden(row, history);
  const bool moves = penalises_ || !params_.logit_bias.empty();
  if (!moves && row.keep == nullptr && out.empty()) return choose(row, row.logits, scratch);
  // What is forbidden must not hide broken logits; and where the likeliest token is allowed, it is still that.
  const int64_t likeliest = ops_->argmax(row.logits, vocab_);
  if (likeliest < 0) return broken_logits(row, "NaN");
  DSPARK_RETURN_IF_ERROR(check_max(row, row.logits[likeliest]));
  const int32_t first = static_cast<int32_t>(likeliest);
  if (params_.temperature == 0.0 && !moves && kept(row.keep, first) && !contains(out, first)) return first;
  scratch.logits_.ensure(static_cast<size_t>(vocab_));
  edit(row, history, scratch.logits_.data());
  return choose(row, scratch.logits_.data(), scratch);
}

Result<Draw> Sampler::draw(const DrawRow& row, const TokenHistory& history, DrawScratch& scratch) const {
  Draw out{0, std::numeric_limits<float>::quiet_NaN(), {}};
  DSPARK_TRY(out.token, token(row, history, scratch));
  if (params_.logprobs >= 0) DSPARK_RETURN_IF_ERROR(add_logprobs(row, params_.logprobs, scratch, &out));
  return out;
}

Result<Draw> Sampler::score(const DrawRow& row, int32_t token, int32_t count, DrawScratch& scratch) const {
  Draw out{token, std::numeric_limits<float>::quiet_NaN(), {}};
  DSPARK_RETURN_IF_ERROR(add_logprobs(row, count, scratch, &out));
  return out;
}

}  // namespace dspark
