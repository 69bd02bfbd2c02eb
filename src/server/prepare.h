// From a request's body to what the engine gets: parsed, rendered, tokenized, checked against the model and the
// caller's limits. Takes its time: worker threads.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "server/answer.h"
#include "server/api_keys.h"
#include "server/generation.h"
#include "server/openai_request.h"
#include "server/request_record.h"
#include "server/served_model.h"

namespace dspark {

// Who asks, and what the headers say.
struct Caller {
  const ApiKey* key = nullptr;
  std::string task;         // X-Task
  std::string prompt_type;  // X-Prompt-Type
  std::chrono::system_clock::time_point arrival;
  bool keep_prompts = false;  // for the log: their tokens
  bool keep_text = false;     // and their text
};

struct ServingNames {
  std::vector<std::string> models;  // the names it is served by; the first one is told
  ApiLimits limits;
};

struct PreparedGeneration {
  AnswerOptions answer;
  std::vector<Request> requests;
  RequestRecord record;
};

struct PreparedEmbedding {
  EmbeddingOptions options;
  std::vector<Request> requests;
  RequestRecord record;
};

Parsed<PreparedGeneration> prepare_generation(const ServedModel& model, const ServingNames& names, const Caller& caller,
                                              std::string_view body, bool chat);
Parsed<PreparedEmbedding> prepare_embedding(const ServedModel& model, const ServingNames& names, const Caller& caller,
                                            std::string_view body);

// A text, or a conversation rendered by the model's template.
Result<std::vector<int32_t>> tokens_of(const ServedModel& model, const TokenizeCall& call);

// The small endpoints, whole.
HttpResponse tokenize(const ServedModel& model, const ServingNames& names, std::string_view body);
HttpResponse detokenize(const ServedModel& model, const ServingNames& names, std::string_view body);
HttpResponse apply_template(const ServedModel& model, const ServingNames& names, std::string_view body);

}  // namespace dspark
