// RequestRecord: what is known of a request when it has ended, for metrics and the access log. Plain data.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/request.h"

namespace dspark {

struct RequestRecord {
  std::chrono::system_clock::time_point arrival;
  std::string id;
  std::string_view endpoint;  // "chat", "completions", "embeddings"
  std::string tenant;
  std::string key;  // its name
  std::string bucket;
  bool stream = false;
  int status = 200;
  std::string error = {};  // empty: none
  int choices = 1;
  int max_tokens = 0;
  SamplingParams sampling = {};
  RequestStats stats = {};  // summed over the prompts; times of the slowest
  // Of each choice that came to its end; and "abort", as vLLM calls it, if the engine was kept from ending them.
  std::vector<std::string> finish_reasons;
  double ttft_seconds = -1;  // -1: no token came
  double e2e_seconds = 0;
  std::vector<double> itl_seconds;                 // between tokens of one choice
  std::vector<std::vector<int32_t>> prompts;       // tokens
  std::string prompt_text = {}, answer_text = {};  // only where they are logged
  std::vector<size_t> prompt_bytes = {};           // of each of the prompts in prompt_text
};

}  // namespace dspark
