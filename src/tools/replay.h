// An access log played again: the arrival times, lengths and shared prefixes of its requests, with their text where the
// log has it. Main thread asks, the step thread answers.
#pragma once

#include <string>
#include <vector>

#include "engine/engine.h"
#include "tools/bootstrap.h"

namespace dspark {

struct LoggedRequest {
  double arrival = 0.0;  // seconds since the first
  std::string tenant, bucket;
  std::string text;                          // rendered prompt; empty: the log has none
  std::vector<std::string> blocks;           // hashes of the prompt's whole blocks
  int prompt_tokens = 0, output_tokens = 0;  // those of all choices together
  int choices = 1;
  SamplingParams sampling;
};

struct LoggedTraffic {
  std::vector<LoggedRequest> requests = {};  // by arrival
  bool with_text = false;                    // every one has its text
  int left_out = 0;                          // lines of other kinds, refused or failed requests
  double seconds() const { return requests.empty() ? 0.0 : requests.back().arrival; }
};

// The answers of a log that `dspark serve --access-log` wrote, one for each prompt. kCorrupt names the line, kNotFound
// if none can be played.
Result<LoggedTraffic> read_traffic(const std::string& path);

// The stretch with the most tokens among those of at most `seconds`; longer ones have at most `fewest` requests.
LoggedTraffic busiest(const LoggedTraffic& traffic, double seconds, size_t fewest);

// The prompts as tokens. Without text, of the same lengths, with equal beginnings where the log's blocks are equal.
std::vector<std::vector<int32_t>> traffic_prompts(const Engine& engine, const LoggedTraffic& traffic);

struct Replay {
  Round times;  // by request
  double seconds = 0.0;
  int64_t output_tokens = 0;
};

// Sends each request at its time, with as many tokens of answer as it had, to an engine with an empty cache.
Result<Replay> replay(Engine& engine, const LoggedTraffic& traffic, const std::vector<std::vector<int32_t>>& prompts);

}  // namespace dspark
