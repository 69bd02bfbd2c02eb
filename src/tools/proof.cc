// See proof.h.
#include "tools/proof.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/sha256.h"

namespace dspark {
namespace {

constexpr int kBeforeBlockEnd = 8;  // positions that a prompt leaves of its last KV block

uint32_t bits(float x) { return x == x ? std::bit_cast<uint32_t>(x) : 0x7fc00000u; }

std::string token_at(const StreamedAnswer& answer, size_t position) {
  return position < answer.tokens.size() ? fmt::format("token {}", answer.tokens[position]) : "the end";
}

std::string logprob_at(const StreamedAnswer& answer, size_t position) {
  const float logprob = answer.logprobs[position];
  return fmt::format("log-probability {} (bits {:08x})", logprob, bits(logprob));
}

void add_speculation(const ProofScope& scope, std::vector<ProofCase>* cases) {
  const ProofNeeds drafts = {.drafts = true};
  for (int fixed = 1; fixed <= 7; ++fixed) {
    if (scope.quick && fixed != 1 && fixed != 7) continue;
    cases->push_back({.axis = "speculation",
                      .value = fmt::format("fixed:{}", fixed),
                      .change = [=](EngineOptions& o) { o.speculation.fixed = fixed; },
                      .needs = drafts});
  }
  cases->push_back(
      {.axis = "speculation", .value = "planned", .change = [](EngineOptions& o) { o.speculation.fixed = -1; }});
  cases->push_back({.axis = "speculation",
                    .value = "ngram",
                    .change =
                        [](EngineOptions& o) {
                          o.drafter.with = DraftWith::kNgram;
                          o.drafter.file.clear();
                          o.speculation.fixed = 7;
                        },
                    .needs = drafts});
  if (!scope.dspark) return;
  cases->push_back({.axis = "speculation",
                    .value = "dspark",
                    .change =
                        [](EngineOptions& o) {
                          o.drafter.with = DraftWith::kDspark;
                          o.speculation.fixed = 7;
                        },
                    .needs = drafts});
}

}  // namespace

std::vector<ProofCase> proof_cases(const ProofScope& scope) {
  constexpr int kWhole = 65536;  // rows: every prompt in one step
  std::vector<ProofCase> cases;
  if (scope.guesses) add_speculation(scope, &cases);
  for (const int at_once : {1, 8, kMostAtOnce}) {
    cases.push_back({.axis = "batch",
                     .value = std::to_string(at_once),
                     .change =
                         [=](EngineOptions& o) {  // all prompts in one step, so that all decode together
                           o.schedule.max_rows = o.schedule.step_budget = kWhole;
                           o.schedule.max_running = std::max(o.schedule.max_running, at_once);
                         },
                     .at_once = at_once,
                     .needs = {.running = at_once}});
  }
  for (const int chunk : {1, 7, 128, kWhole}) {
    if (scope.quick && chunk != 7 && chunk != kWhole) continue;
    cases.push_back({.axis = "chunk",
                     .value = chunk == kWhole ? "whole" : std::to_string(chunk),
                     .change = [=](auto& o) { o.schedule.max_rows = o.schedule.step_budget = chunk; }});
  }
  for (int threads = 1; threads <= 3; ++threads) {
    cases.push_back({.axis = "threads", .value = std::to_string(threads), .change = [=](EngineOptions& o) {
                       o.runner.threads = threads;
                     }});
  }
  constexpr int kEveryPortable = 16;  // the reference kernels take a hundred times as long
  for (const Isa isa : {Isa::kPortable, Isa::kAvx2, Isa::kAvx512}) {
    if (!isa_supported(isa) || isa == scope.isa) continue;
    cases.push_back({.axis = "isa",
                     .value = isa_name(isa),
                     .change = [=](EngineOptions& o) { o.runner.isa = isa; },
                     .every = isa == Isa::kPortable ? kEveryPortable : 1});
  }
  const auto as_asked = [](EngineOptions&) {};
  cases.push_back({.axis = "cache",
                   .value = "miss",
                   .change = as_asked,
                   .at_once = 1,
                   .cache = CacheUse::kEmpty,
                   .needs = {.misses = true}});
  cases.push_back(
      {.axis = "cache", .value = "hit", .change = as_asked, .cache = CacheUse::kTwice, .needs = {.hits = true}});
  cases.push_back({.axis = "preemption",
                   .value = "crowded",
                   .change = as_asked,
                   .at_once = kMostAtOnce,
                   .crowded = true,
                   .needs = {.preemptions = true}});
  return cases;
}

std::vector<ProofRequest> proof_requests(std::span<const std::vector<int32_t>> prompts, std::span<const int32_t> filler,
                                         int answer_tokens, int context, uint64_t seed) {
  std::vector<ProofRequest> out;
  for (int round = 0; round < 2 || out.size() < kMostAtOnce; ++round) {
    for (size_t i = 0; i < prompts.size(); ++i) {
      ProofRequest each = {.prompt = static_cast<int>(i), .request = {}};
      Request& request = each.request;
      const int length = static_cast<int>(prompts[i].size()) + kBeforeBlockEnd;
      const int missing = (kTilePositions - length % kTilePositions) % kTilePositions;
      if (length + missing + answer_tokens <= context) {
        for (int n = 0; n < missing; ++n) {
          request.prompt.push_back(filler[(i + static_cast<size_t>(n)) % filler.size()]);
        }
      }
      request.prompt.insert(request.prompt.end(), prompts[i].begin(), prompts[i].end());
      request.sampling.temperature = round == 0 ? 0.0 : 1.0;
      request.sampling.seed = seed + out.size();
      request.sampling.logprobs = 0;
      request.sampling.ignore_eos = true;
      request.max_tokens = answer_tokens;
      out.push_back(std::move(each));
    }
  }
  return out;
}

int64_t crowded_blocks(std::span<const ProofRequest> requests) {
  constexpr int64_t kSequences = 3;  // that have room to the end of their answers
  int64_t most = 0;
  for (const ProofRequest& each : requests) {
    const auto positions = static_cast<int64_t>(each.request.prompt.size()) + each.request.max_tokens;
    most = std::max(most, (positions + kTilePositions - 1) / kTilePositions);
  }
  return kSequences * most;
}

std::optional<ProofDifference> first_difference(std::span<const StreamedAnswer> got,
                                                std::span<const StreamedAnswer> expected) {
  for (size_t i = 0; i < expected.size(); ++i) {
    const StreamedAnswer &a = got[i], &b = expected[i];
    const size_t common = std::min(a.tokens.size(), b.tokens.size());
    for (size_t position = 0; position < common; ++position) {
      if (a.tokens[position] != b.tokens[position]) {
        return ProofDifference{i, position, token_at(a, position), token_at(b, position)};
      }
      if (bits(a.logprobs[position]) != bits(b.logprobs[position])) {
        return ProofDifference{i, position, logprob_at(a, position), logprob_at(b, position)};
      }
    }
    if (a.tokens.size() != b.tokens.size()) return ProofDifference{i, common, token_at(a, common), token_at(b, common)};
    if (a.end_token != b.end_token) {
      const auto end = [](const StreamedAnswer& answer) {
        return answer.end_token ? fmt::format("end token {}", *answer.end_token) : std::string("the end by a limit");
      };
      return ProofDifference{i, common, end(a), end(b)};
    }
  }
  return {};
}

std::string answers_digest(std::span<const StreamedAnswer> answers) {
  Sha256 digest;
  const auto add = [&](uint32_t word) { digest.update({reinterpret_cast<const uint8_t*>(&word), sizeof word}); };
  for (const StreamedAnswer& answer : answers) {
    add(static_cast<uint32_t>(answer.tokens.size()));
    for (const int32_t token : answer.tokens) add(static_cast<uint32_t>(token));
    for (const float logprob : answer.logprobs) add(bits(logprob));
  }
  return to_hex(digest.finish());
}

std::string missing_evidence(const ProofNeeds& needs, const LoopStats& stats) {
  if (needs.drafts && stats.drafted == 0) return "no token was guessed";
  if (needs.hits && stats.cached_tokens == 0) return "no prompt was found in the cache";
  if (needs.misses && stats.cached_tokens > 0) {
    return fmt::format("{} tokens of prompts were found in the cache, expected none", stats.cached_tokens);
  }
  if (needs.preemptions && stats.preemptions == 0) return "nothing was preempted";
  if (stats.most_running < needs.running) {
    return fmt::format("at most {} sequences ran at once, expected {}", stats.most_running, needs.running);
  }
  return "";
}

}  // namespace dspark
