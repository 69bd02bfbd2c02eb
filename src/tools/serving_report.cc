// See serving_report.h.
#include "tools/serving_report.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/setting_value.h"
#include "base/sha256.h"
#include "kernels/kv_layout.h"

namespace dspark {
namespace {

constexpr bool kCounter = true;
constexpr bool kGauge = false;

void add_loop(const LoopStats& loop, std::vector<MetricSample>* out) {
  const auto add = [&](const char* name, const char* help, bool counter, double value) {
    out->push_back({name, help, counter, value});
  };
  const auto count = [&](const char* name, const char* help, int64_t value) {
    add(name, help, kCounter, static_cast<double>(value));
  };
  add("vllm:num_requests_running", "Sequences that are being computed", kGauge, loop.running);
  add("vllm:num_requests_waiting", "Requests that have not begun", kGauge, loop.requests_waiting);
  count("vllm:num_preemptions_total", "Sequences that gave their KV back and began again", loop.preemptions);
  count("dspark_steps_total", "Forward passes", loop.steps);
  count("dspark_output_tokens_total", "Tokens of answers, those of unfinished ones included", loop.output_tokens);
  count("dspark_decode_rows_total", "Rows of answers that were computed", loop.decode_rows);
  count("dspark_prompt_rows_total", "Rows of prompts that were computed", loop.prompt_rows);
  const std::pair<const char*, double> phase_totals[] = {{"plan", loop.plan_seconds},
                                                         {"forward", loop.forward_seconds},
                                                         {"draw", loop.draw_seconds},
                                                         {"deliver", loop.deliver_seconds}};
  for (const auto& [phase, seconds] : phase_totals) {
    out->push_back({"dspark_step_seconds_total", "Time of all steps by phase", kCounter, seconds, {{"phase", phase}}});
  }
  for (size_t i = 0; i < loop.phases.size(); ++i) {
    MetricSample sample = {.name = "dspark_step_seconds",
                           .help = "Time of each step by phase",
                           .value = loop.phases[i].seconds,
                           .labels = {{"phase", std::string(kStepPhaseNames[i])}}};
    int64_t steps = 0;
    for (size_t k = 0; k < loop.phases[i].steps.size(); ++k) {
      steps += loop.phases[i].steps[k];
      sample.buckets.emplace_back(k < kStepBounds.size() ? kStepBounds[k] : std::numeric_limits<double>::infinity(),
                                  steps);
    }
    out->push_back(std::move(sample));
  }
  add("dspark_step_budget_rows", "Rows that the newest plan had for prompts", kGauge, loop.prompt_limit);
  add("dspark_step_gap_seconds_total", "Between forward passes, drawing and idle time not counted", kCounter,
      loop.gap_seconds);
  add("dspark_step_expected_seconds_total", "What plans foresaw", kCounter, loop.expected_seconds);
  add("dspark_step_actual_seconds_total", "What the steps of those plans took", kCounter, loop.actual_seconds);
}

void add_speculation(const SpeculationStats& stats, std::vector<MetricSample>* out) {
  const auto count = [&](const char* name, const char* help, int64_t value) {
    out->push_back({name, help, kCounter, static_cast<double>(value)});
  };
  count("dspark_verifications_total", "Drafts of which something was verified", stats.verifications);
  count("dflash_validation_failures_total", "Verifications that accepted nothing", stats.failures);
  count("dspark_draft_pauses_total", "Times that a sequence stopped drafting for a while", stats.pauses);
  count("dspark_broken_drafts_total", "Drafts that held NaN", stats.broken);
  count("dspark_neural_drafts_total", "Drafts of the trained drafter", stats.drafts);
  count("dspark_cost_alarms_total", "Times that steps took twice, or half, of what was foreseen", stats.cost_alarms);
  const std::pair<const char*, double> seconds[] = {{"draft", stats.draft_seconds}, {"plan", stats.plan_seconds}};
  for (const auto& [part, value] : seconds) {
    out->push_back(
        {"dspark_speculation_seconds_total", "Time of drafting and of planning it", kCounter, value, {{"part", part}}});
  }
  // vLLM's names for the same.
  const auto sum = [](const auto& counts) { return std::accumulate(counts.begin(), counts.end(), int64_t{0}); };
  count("vllm:spec_decode_num_drafts_total", "Drafts that were verified", stats.verifications);
  count("vllm:spec_decode_num_draft_tokens_total", "Drafted tokens that were verified", sum(stats.verified));
  count("vllm:spec_decode_num_accepted_tokens_total", "Of those, accepted", sum(stats.accepted));
  // One metric after the other: the samples of a name stand together.
  const auto by_bucket = [&](const char* name, const char* help, auto&& value_of) {
    for (size_t i = 0; i < kTaskBuckets.size(); ++i) {
      out->push_back({name, help, kCounter, value_of(stats.buckets[i]), {{"bucket", std::string(kTaskBuckets[i])}}});
    }
  };
  by_bucket("dspark_draft_tokens_total", "Drafted tokens that were verified, by kind of task",
            [](const BucketStats& b) { return static_cast<double>(b.verified); });
  by_bucket("dspark_survival_predicted_total", "Of those, as many as should have been accepted by their survival",
            [](const BucketStats& b) { return b.foretold; });
  by_bucket("dspark_survival_actual_total", "Of those, accepted",
            [](const BucketStats& b) { return static_cast<double>(b.accepted); });
  const auto by_place = [&](const char* name, const char* help, bool counter, auto&& value_at) {
    for (size_t i = 0; i < stats.survival.size(); ++i) {
      if (stats.verified[i] == 0) continue;
      const double value = value_at(i);
      if (!std::isnan(value)) out->push_back({name, help, counter, value, {{"position", std::to_string(i + 1)}}});
    }
  };
  by_place("dspark_position_verified_total", "Drafted tokens that were verified, by place in the draft", kCounter,
           [&](size_t i) { return static_cast<double>(stats.verified[i]); });
  by_place("dspark_position_accepted_total", "Of those, accepted", kCounter,
           [&](size_t i) { return static_cast<double>(stats.accepted[i]); });
  for (size_t i = 0; i < stats.accepted.size(); ++i) {  // vLLM counts places from 0
    if (stats.verified[i] == 0) continue;
    out->push_back({"vllm:spec_decode_num_accepted_tokens_per_pos_total",
                    "Accepted tokens, by place in the draft",
                    kCounter,
                    static_cast<double>(stats.accepted[i]),
                    {{"position", std::to_string(i)}}});
  }
  by_place("dspark_calibration_error", "Expected calibration error of survival, by place in the draft", kGauge,
           [&](size_t i) { return calibration_error(stats.survival[i]); });
  by_place("dspark_survival_auc", "How well survival tells what is accepted, by place in the draft", kGauge,
           [&](size_t i) { return area_under_curve(stats.survival[i]); });
}

void add_cache(const KvStats& kv, std::vector<MetricSample>* out) {
  const auto add = [&](const char* name, const char* help, bool counter, double value) {
    out->push_back({name, help, counter, value});
  };
  const auto count = [&](const char* name, const char* help, int64_t value) {
    add(name, help, kCounter, static_cast<double>(value));
  };
  add("vllm:kv_cache_usage_perc", "Part of the KV blocks that a new sequence cannot have; 1 is all", kGauge,
      kv.usage_ratio());
  count("vllm:prefix_cache_queries_total", "Prompt tokens that were looked up", kv.counters.prompt_tokens);
  count("vllm:prefix_cache_hits_total", "Prompt tokens that were found", kv.counters.hit_tokens);
  out->push_back({"vllm:cache_config_info",
                  "The KV cache",
                  kGauge,
                  1,
                  {{"block_size", std::to_string(kTilePositions)},
                   {"num_gpu_blocks", std::to_string(kv.capacity_blocks)},
                   {"num_cpu_blocks", std::to_string(kv.capacity_blocks)},
                   {"enable_prefix_caching", "True"}}});
  add("dflash_kv_reuse_rate", "Prompt tokens whose KV was reused, of all", kGauge, kv.reuse_ratio());
  add("dspark_cache_hit_ratio", "Block lookups that hit, of all", kGauge, kv.block_hit_ratio());
  add("dspark_cache_conflict_ratio", "Block lookups that missed what had just been evicted, of all", kGauge,
      kv.conflict_ratio());
  add("dspark_cache_fragmentation_ratio", "Allocated positions that hold nothing, of all", kGauge,
      kv.fragmentation_ratio());
  add("dspark_cache_slack_ratio", "Of the allocated positions, those behind the last token of a block", kGauge,
      kv.slack_ratio());
  add("dspark_cache_scatter_ratio", "Of the allocated positions, those of free blocks between others", kGauge,
      kv.scatter_ratio());
  const std::pair<const char*, int64_t> states[] = {
      {"free", kv.free_blocks}, {"used", kv.used_blocks}, {"cached", kv.cached_blocks}, {"pinned", kv.pinned_blocks}};
  for (const auto& [state, blocks] : states) {
    out->push_back({"dspark_cache_blocks",
                    "KV blocks by what they are; together they are the capacity",
                    kGauge,
                    static_cast<double>(blocks),
                    {{"state", state}}});
  }
  add("dspark_cache_memory_bytes", "Taken from the system for KV blocks so far", kGauge,
      static_cast<double>(kv.memory_bytes));
  count("dspark_cache_evictions_total", "Blocks that were evicted", kv.counters.evictions);
  count("dspark_cache_hash_collisions_total", "Equal digests of different tokens, never served",
        kv.counters.hash_collisions);
  count("dspark_cache_lock_waits_total", "Times that a shard's lock was held by another thread",
        kv.counters.lock_waits);
  add("dspark_cache_lock_wait_seconds_total", "Time waited for shards' locks", kCounter, kv.counters.lock_wait_seconds);
}

void add_defrag(const DefragStats& stats, std::vector<MetricSample>* out) {
  out->push_back(
      {"dspark_cache_defrags_total", "Compactions of the KV cache", kCounter, static_cast<double>(stats.runs)});
  out->push_back(
      {"dspark_cache_defrag_moved_total", "Blocks that they moved", kCounter, static_cast<double>(stats.moved)});
  const std::pair<const char*, double> times[] = {{"before", stats.before}, {"after", stats.after}};
  for (const auto& [when, ratio] : times) {
    out->push_back(
        {"dspark_cache_defrag_ratio", "Fragmentation around the newest one", kGauge, ratio, {{"when", when}}});
  }
}

nlohmann::ordered_json counters_json(const KvCounters& c) {
  return {{"block_lookups", c.block_lookups},
          {"block_hits", c.block_hits},
          {"conflicts", c.conflicts},
          {"prompt_tokens", c.prompt_tokens},
          {"hit_tokens", c.hit_tokens},
          {"copied_tokens", c.copied_tokens},
          {"evictions", c.evictions},
          {"hash_collisions", c.hash_collisions},
          {"duplicates", c.duplicates},
          {"lock_waits", c.lock_waits},
          {"lock_wait_seconds", c.lock_wait_seconds}};
}

}  // namespace

std::vector<MetricSample> engine_metrics(Engine& engine) {
  std::vector<MetricSample> out;
  const LoopStats stats = engine.loop().stats();
  add_loop(stats, &out);
  add_speculation(stats.speculation, &out);
  add_cache(engine.runner().kv().stats(), &out);
  add_defrag(stats.defrag, &out);
  return out;
}

nlohmann::ordered_json cache_report(const KvCache& cache) {
  const Status check = cache.check();
  const KvStats kv = cache.stats();
  nlohmann::ordered_json out = {{"accounting", check.ok() ? "closed" : check.error().message},
                                {"block_tokens", kTilePositions},
                                {"block_bytes", kv.block_bytes},
                                {"memory_bytes", kv.memory_bytes},
                                {"capacity_blocks", kv.capacity_blocks},
                                {"free_blocks", kv.free_blocks},
                                {"used_blocks", kv.used_blocks},
                                {"cached_blocks", kv.cached_blocks},
                                {"pinned_blocks", kv.pinned_blocks},
                                {"sequences", kv.sequences},
                                {"allocated_positions", kv.allocated_positions},
                                {"slack_positions", kv.slack_positions},
                                {"scatter_positions", kv.scatter_positions},
                                {"slack_ratio", kv.slack_ratio()},
                                {"scatter_ratio", kv.scatter_ratio()},
                                {"cache_fragmentation_ratio", kv.fragmentation_ratio()},
                                {"block_hit_ratio", kv.block_hit_ratio()},
                                {"kv_reuse_ratio", kv.reuse_ratio()},
                                {"conflict_ratio", kv.conflict_ratio()},
                                {"usage_ratio", kv.usage_ratio()},
                                {"counters", counters_json(kv.counters)},
                                {"shards", nlohmann::ordered_json::array()}};
  for (const KvShardStats& shard : kv.shards) {
    out["shards"].push_back({{"free_blocks", shard.free_blocks},
                             {"indexed_blocks", shard.indexed_blocks},
                             {"cached_blocks", shard.cached_blocks},
                             {"counters", counters_json(shard.counters)}});
  }
  return out;
}

std::string fingerprint(const Settings& settings, Engine& engine) {
  Sha256 hash;
  hash.add_field("model", engine.runner().digest());
  for (size_t i = 0; i < kSettings.size(); ++i) {
    const SettingSpec& spec = kSettings[i];
    if (!spec.tokens || !spec.commands.has(Command::kServe) || spec.name == "model") continue;
    hash.add_field(spec.name, format_setting(spec, settings.entry(i).value));
  }
  return "fp_" + to_hex(hash.finish()).substr(0, 16);
}

}  // namespace dspark
