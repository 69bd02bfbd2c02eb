// What `dspark prove` runs and how it judges: requests, cases, the comparison of answers, and whether a case really
// showed what it is there for. Pure; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/request_stream.h"

namespace dspark {

// How requests find the prefix cache.
enum class CacheUse {
  kAsItComes,
  kEmpty,  // each finds nothing in it
  kTwice,  // all are asked twice, and the second time counts
};

// What must have happened in a case, or it has shown nothing.
struct ProofNeeds {
  bool drafts = false;       // tokens were guessed
  bool hits = false;         // prompts were found in the cache
  bool misses = false;       // none was
  bool preemptions = false;  // somebody gave way
  int running = 0;           // sequences at once
};

// One setting of one axis.
struct ProofCase {
  std::string axis, value;
  std::function<void(EngineOptions&)> change;  // makes it out of what the settings ask for
  int at_once = 8;                             // requests
  int every = 1;                               // only every so-many-th request, where all would take too long
  CacheUse cache = CacheUse::kAsItComes;
  bool crowded = false;  // so little KV memory that sequences must be preempted
  ProofNeeds needs = {};
};

struct ProofScope {
  bool quick = false;    // of each axis only the ends
  bool guesses = true;   // guessing is allowed
  bool dspark = false;   // there is a DSpark drafter
  Isa isa = best_isa();  // that the reference uses
};

inline constexpr int kMostAtOnce = 32;  // of the batch axis

// All of them; each differs from plain decoding, one request at a time, in its own axis and in guessing.
std::vector<ProofCase> proof_cases(const ProofScope& scope);

struct ProofRequest {
  int prompt = 0;  // ordinal, from 0
  Request request;
};

// Every prompt greedy, then every prompt with other seeds, until there are at least kMostAtOnce requests. Their prompts
// are `prompts` with so much of `filler` (not empty) before them that all end shortly before the end of a KV block,
// where the context has room for that: so answers grow into a second block, where memory may be short.
std::vector<ProofRequest> proof_requests(std::span<const std::vector<int32_t>> prompts, std::span<const int32_t> filler,
                                         int answer_tokens, int context, uint64_t seed);

// KV blocks that make the requests preempt each other and still let each end.
int64_t crowded_blocks(std::span<const ProofRequest> requests);

// Where two sets of answers to the same requests part first, by request and then by token.
struct ProofDifference {
  size_t request = 0;
  size_t position = 0;        // in the answer
  std::string got, expected;  // "token 12", "the end", or log-probabilities with their bits
};
std::optional<ProofDifference> first_difference(std::span<const StreamedAnswer> got,
                                                std::span<const StreamedAnswer> expected);

// SHA-256 over the tokens and the bits of the log-probabilities of all answers, 64 hexadecimal digits.
std::string answers_digest(std::span<const StreamedAnswer> answers);

// "" if a case that ended with these counts has shown what it should; else what is missing.
std::string missing_evidence(const ProofNeeds& needs, const LoopStats& stats);

}  // namespace dspark
