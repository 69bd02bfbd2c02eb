// See cost_profile.h.
#include "engine/cost_profile.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <utility>

#include "base/cache_dir.h"
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
constexpr int kVersion = 1;  // of the file

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// Any tokens do: the time of a step does not depend on them.
int32_t some_token(const Runner& runner, int i) { return (i * 7919 + 13) % runner.config().vocab; }

class Measurement {
 public:
  Measurement(Runner& runner, Drafter* drafter, double budget_seconds)
      : runner_(runner), drafter_(drafter), sequence_(runner.new_sequence()), budget_ms_(budget_seconds * 1e3) {}

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
    if (drafter_ != nullptr) DSPARK_RETURN_IF_ERROR(time_drafts(&out.terms));
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
    const std::span<const int> layers = drafter_ == nullptr ? std::span<const int>() : drafter_->hidden_layers();
    DSPARK_TRY([[maybe_unused]] const StepOutput output, runner_.compute(rows, layers));
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
  Status time_drafts(CostTerms* terms) {
    constexpr int kMany = 8;
    std::vector<int32_t> tokens;
    for (int i = 0; i < 32; ++i) tokens.push_back(some_token(runner_, i));
    DSPARK_RETURN_IF_ERROR(sequence_.reserve(static_cast<int>(tokens.size())));
    const double one = best_draft_ms(1, tokens), many = best_draft_ms(kMany, tokens);
    const int rows = drafter_->max_tokens();
    terms->draft_row_ms = std::max(many - one, one * 1e-3) / ((kMany - 1) * rows);
    terms->draft_ms = std::max(0.0, one - terms->draft_row_ms * rows);
    return Ok{};
  }

  double best_draft_ms(int drafts, const std::vector<int32_t>& tokens) {
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
                          .max_tokens = drafter_->max_tokens(),
                          .sampler = &each});
    }
    std::vector<DraftRequest*> all;
    for (DraftRequest& request : requests) all.push_back(&request);
    double best = std::numeric_limits<double>::infinity();
    for (int i = 0; i < kRounds; ++i) {
      const auto start = Clock::now();
      drafter_->propose(all);
      best = std::min(best, milliseconds_since(start));
    }
    for (const DraftRequest& request : requests) drafter_->release(request.sequence);
    return best;
  }

  Runner& runner_;
  Drafter* drafter_;
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

Result<CostProfile> measure_costs(Runner& runner, Drafter* drafter, double budget_seconds) {
  return Measurement(runner, drafter, budget_seconds).run();
}

std::string cost_key(Runner& runner, const Sha256Digest* drafter) {
  return fmt::format("{}; model {}; drafter {}; {}; {} threads; KV {}; {} bytes of weights", cpu_name(),
                     to_hex(runner.digest()), drafter == nullptr ? "none" : to_hex(*drafter), isa_name(runner.isa()),
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
  DSPARK_TRY(out.terms.draft_ms, number(json, "draft_ms", path));
  DSPARK_TRY(out.terms.draft_row_ms, number(json, "draft_row_ms", path));
  return out;
}

Status write_costs(const std::string& folder, const std::string& key, const CostProfile& profile) {
  nlohmann::ordered_json json = {{"version", kVersion},
                                 {"for", key},
                                 {"step_ms", nlohmann::ordered_json::object()},
                                 {"context_ms", profile.terms.context_ms},
                                 {"draft_ms", profile.terms.draft_ms},
                                 {"draft_row_ms", profile.terms.draft_row_ms}};
  for (const CostPoint& point : profile.points) json["step_ms"][std::to_string(point.rows)] = point.ms;
  DSPARK_RETURN_IF_ERROR(create_folders(folder));
  return replace_file(path_of(folder, key), json.dump(1) + "\n");
}

}  // namespace dspark
