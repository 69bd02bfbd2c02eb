// See cost_profile.h.
#include "engine/cost_profile.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <utility>

#include "base/cache_dir.h"
#include "base/check.h"
#include "base/cpu.h"
#include "base/json.h"
#include "base/read_file.h"
#include "engine/draft_sampler.h"

namespace dspark {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRows[] = {1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 24, 32, 48, 64, 128, 256, 512};
constexpr int kDecodeRows = 64;  // up to here all rows want logits, beyond only the last: a prompt
constexpr int kContext = 512;    // that the price of a looked-at position is measured with
constexpr int kRounds = 5;
constexpr int64_t kMostBytes = 1 << 20;
constexpr int kVersion = 2;  // of the file

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// Any tokens do: the time of a step does not depend on them.
int32_t some_token(const Runner& runner, int i) { return (i * 7919 + 13) % runner.config().vocab; }

class Measurement {
 public:
  Measurement(Runner& runner, std::span<Drafter* const> drafters, double budget_seconds)
      : runner_(runner), drafters_(drafters), sequence_(runner.new_sequence()), budget_ms_(budget_seconds * 1e3) {
    for (const Drafter* drafter : drafters) {
      if (!drafter->hidden_layers().empty()) hidden_layers_ = drafter->hidden_layers();
    }
  }

  Result<CostProfile> run() {
    CostProfile out;
    const int room =
        static_cast<int>(std::min<int64_t>(runner_.config().context, runner_.kv().capacity_blocks() * kTilePositions));
    for (const int rows : kRows) {
      if (rows > room || !affordable(out.points, rows)) break;
      DSPARK_TRY(const double ms, step_ms(rows));
      out.points.push_back({rows, ms});
    }
    // Round after round, so that a slow moment of the machine meets all sizes.
    for (int round = 1; round < kRounds; ++round) {
      for (CostPoint& point : out.points) {
        if (milliseconds_since(start_) + point.ms > budget_ms_) break;
        DSPARK_TRY(const double ms, step_ms(point.rows));
        point.ms = std::min(point.ms, ms);
      }
    }
    for (size_t i = 0; i < drafters_.size(); ++i) {
      DSPARK_TRY(out.terms.drafts[i], time_drafts(*drafters_[i]));
    }
    if (room > kContext && out.points.back().rows >= kContext) {
      DSPARK_TRY(out.terms.context_ms, time_context(out.points.front().ms));
    }
    return out;
  }

 private:
  // By the steps so far, as if rows cost what they have cost on average.
  bool affordable(std::span<const CostPoint> points, int rows) const {
    if (points.empty()) return true;
    const double ms = points.back().ms * rows / points.back().rows;
    return milliseconds_since(start_) + ms < budget_ms_ / 2;
  }

  Result<double> step_ms(int count) {
    std::vector<RunRow> rows;
    for (int i = 0; i < count; ++i) {
      rows.push_back({&sequence_, some_token(runner_, i), count <= kDecodeRows || i + 1 == count});
    }
    const auto start = Clock::now();
    DSPARK_TRY([[maybe_unused]] const StepOutput output, runner_.compute(rows, hidden_layers_));
    return milliseconds_since(start);
  }

  // A position that a row looks at.
  Result<double> time_context(double without_ms) {
    std::vector<RunRow> rows;
    for (int i = 0; i < kContext; ++i) rows.push_back({&sequence_, some_token(runner_, i), i + 1 == kContext});
    DSPARK_TRY([[maybe_unused]] const StepOutput output, runner_.run(rows));
    double with_ms = std::numeric_limits<double>::infinity();
    for (int i = 0; i < kRounds; ++i) {
      DSPARK_TRY(const double ms, step_ms(1));
      with_ms = std::min(with_ms, ms);
    }
    return std::max(0.0, with_ms - without_ms) / kContext;
  }

  // One draft, and several at once: what drafting costs at all, and each row of it.
  Result<DraftCost> time_drafts(Drafter& drafter) {
    constexpr int kMany = 8;
    std::vector<int32_t> tokens;
    for (int i = 0; i < 32; ++i) tokens.push_back(some_token(runner_, i));
    DSPARK_RETURN_IF_ERROR(sequence_.reserve(static_cast<int>(tokens.size())));
    const double one = best_draft_ms(drafter, 1, tokens), many = best_draft_ms(drafter, kMany, tokens);
    const int rows = drafter.max_tokens();
    DraftCost cost;
    cost.row_ms = std::max(many - one, one * 1e-3) / ((kMany - 1) * rows);
    cost.ms = std::max(0.0, one - cost.row_ms * rows);
    return cost;
  }

  double best_draft_ms(Drafter& drafter, int drafts, const std::vector<int32_t>& tokens) {
    SamplingParams params;
    params.temperature = 0.0;
    const Result<Sampler> sampler = Sampler::create(runner_.ops(), params, runner_.config().vocab, {});
    DSPARK_CHECK(sampler.ok(), "{}", sampler.error().message);
    const TokenHistory history(sampler->params(), tokens);
    std::vector<RequestDraftSampler> samplers(static_cast<size_t>(drafts), {runner_.ops(), *sampler, history});
    std::vector<DraftRequest> requests;
    for (RequestDraftSampler& each : samplers) {
      requests.push_back({.sequence = std::numeric_limits<uint64_t>::max() - requests.size(),
                          .tokens = tokens,
                          .blocks = sequence_.table(),
                          .context_begin = static_cast<int>(tokens.size()) - 1,
                          .max_tokens = drafter.max_tokens(),
                          .sampler = &each});
    }
    std::vector<DraftRequest*> all;
    for (DraftRequest& request : requests) all.push_back(&request);
    double best = std::numeric_limits<double>::infinity();
    for (int i = 0; i < kRounds; ++i) {
      const auto start = Clock::now();
      drafter.propose(all);
      best = std::min(best, milliseconds_since(start));
    }
    for (const DraftRequest& request : requests) drafter.release(request.sequence);
    return best;
  }

  Runner& runner_;
  std::span<Drafter* const> drafters_;
  std::span<const int> hidden_layers_;  // of the one that keeps KV
  SequenceKv sequence_;
  double budget_ms_;
  Clock::time_point start_ = Clock::now();
};

std::string path_of(const std::string& folder, const std::string& key) {
  return fmt::format("{}/{}.json", folder, to_hex(sha256(key)));
}

Result<double> number(const nlohmann::json& json, const char* name, const std::string& path) {
  DSPARK_TRY(const double value, json_require<double>(json, name, path));
  if (value >= 0.0 && std::isfinite(value)) return value;
  return make_error(ErrorCode::kCorrupt, "{}: {} is {}, expected a time", path, name, value);
}

}  // namespace

Result<CostProfile> measure_costs(Runner& runner, std::span<Drafter* const> drafters, double budget_seconds) {
  DSPARK_CHECK(drafters.size() <= kCostlyDrafters, "{} drafters cost time, {} may", drafters.size(), kCostlyDrafters);
  return Measurement(runner, drafters, budget_seconds).run();
}

std::string cost_key(Runner& runner, std::span<const Sha256Digest> drafters) {
  std::string names;
  for (const Sha256Digest& drafter : drafters) names += (names.empty() ? "" : " ") + to_hex(drafter);
  return fmt::format("{}; model {}; drafter {}; {}; {} threads; KV {}; {} bytes of weights", cpu_name(),
                     to_hex(runner.digest()), names.empty() ? "none" : names, isa_name(runner.isa()),
                     runner.pool().size(), dtype_info(runner.kv_type()).name, runner.model().weights().bytes());
}

Result<CostProfile> read_costs(const std::string& folder, const std::string& key) {
  const std::string path = path_of(folder, key);
  DSPARK_TRY(const std::string text, read_file(path, kMostBytes));
  DSPARK_TRY(const nlohmann::json json, parse_json(text, path));
  DSPARK_TRY(const std::string kept_key, json_require<std::string>(json, "for", path));
  DSPARK_TRY(const int version, json_require<int32_t>(json, "version", path));
  if (version != kVersion || kept_key != key) {
    return make_error(ErrorCode::kNotFound, "{}: version {} for '{}', expected {} for '{}'", path, version, kept_key,
                      kVersion, key);
  }
  CostProfile out;
  const auto points = json.find("step_ms");
  if (points == json.end() || !points->is_object()) {
    return make_error(ErrorCode::kCorrupt, "{}: 'step_ms' is missing, expected times by rows", path);
  }
  for (const auto& [rows, ms] : points->items()) {
    if (!ms.is_number()) return make_error(ErrorCode::kCorrupt, "{}: a step that takes {}", path, ms.dump());
    out.points.push_back({std::atoi(rows.c_str()), ms.get<double>()});
  }
  DSPARK_TRY(out.terms.context_ms, number(json, "context_ms", path));
  const auto drafts = json.find("drafts");
  if (drafts == json.end() || !drafts->is_array() || drafts->size() > out.terms.drafts.size()) {
    return make_error(ErrorCode::kCorrupt, "{}: 'drafts' is missing, expected the costs of at most {} drafters", path,
                      out.terms.drafts.size());
  }
  for (size_t i = 0; i < drafts->size(); ++i) {
    DSPARK_TRY(out.terms.drafts[i].ms, number((*drafts)[i], "ms", path));
    DSPARK_TRY(out.terms.drafts[i].row_ms, number((*drafts)[i], "row_ms", path));
  }
  return out;
}

Status write_costs(const std::string& folder, const std::string& key, const CostProfile& profile) {
  nlohmann::ordered_json json = {{"version", kVersion},
                                 {"for", key},
                                 {"step_ms", nlohmann::ordered_json::object()},
                                 {"context_ms", profile.terms.context_ms},
                                 {"drafts", nlohmann::ordered_json::array()}};
  for (const DraftCost& cost : profile.terms.drafts)
    json["drafts"].push_back({{"ms", cost.ms}, {"row_ms", cost.row_ms}});
  for (const CostPoint& point : profile.points) json["step_ms"][std::to_string(point.rows)] = point.ms;
  DSPARK_RETURN_IF_ERROR(create_folders(folder));
  return replace_file(path_of(folder, key), json.dump(1) + "\n");
}

}  // namespace dspark
