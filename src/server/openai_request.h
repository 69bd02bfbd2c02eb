// From the body of a request to what is asked: parsed, checked, defaults filled in. No tokenizer and no template in
// here, so that a fuzzer reaches every line. Pure, any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/request.h"
#include "server/api_error.h"
#include "server/request_schema.h"

namespace dspark {

// What a request may ask at most; of the server and of the caller's key.
struct ApiLimits {
  int64_t vocab = std::numeric_limits<int32_t>::max();
  int max_choices = 128;  // answers to one request, over all its prompts
  int max_prompts = 256;  // in one request
  size_t max_body_bytes = 16 << 20;
};

// A conversation for the template.
struct ChatPrompt {
  nlohmann::ordered_json messages;
  nlohmann::ordered_json tools;      // null: none
  nlohmann::ordered_json variables;  // more of the template's, an object
  bool add_generation_prompt = true;
};

// A text, or tokens.
using PlainPrompt = std::variant<std::string, std::vector<int32_t>>;

struct GenerationCall {
  bool chat = false;
  std::string model;
  ChatPrompt conversation;           // chat
  std::vector<PlainPrompt> prompts;  // completions
  bool add_special_tokens = true;    // around the texts among prompts
  bool parse_tools = false;
  bool parallel_tools = true;
  bool include_reasoning = true;

  // Everything but prompt, tenant and what the headers say. max_tokens is 0 where none was given.
  Request request;
  std::optional<uint64_t> seed;
  std::string task;  // metadata.task
  std::optional<double> timeout_s;

  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;
  bool logprobs = false;
  int prompt_logprobs = -1;  // in a list of their own; an echo may make the engine compute more of them
  bool echo = false;
  bool only_echo = false;  // max_tokens 0: nothing of the answer itself is wanted
  bool return_token_ids = false;
  bool report_drafts = false;
  bool tokens_as_ids = false;  // "token_id:17" for texts in logprobs
  std::vector<std::string> ignored;
};

struct EmbeddingCall {
  std::string model;
  std::vector<PlainPrompt> inputs;
  Request request;
  bool base64 = false;
  bool normalize = true;
  bool add_special_tokens = true;  // around the texts among inputs
  std::optional<int64_t> dimensions;
  std::optional<double> timeout_s;
  std::vector<std::string> ignored;
};

// /tokenize and /apply-template
struct TokenizeCall {
  std::optional<ChatPrompt> conversation;
  std::string text;
  bool add_special_tokens = true;
  bool return_texts = false;
};

template <class T>
using Parsed = std::variant<T, ApiError>;

Parsed<GenerationCall> parse_chat(std::string_view body, const ApiLimits& limits);
Parsed<GenerationCall> parse_completions(std::string_view body, const ApiLimits& limits);
Parsed<EmbeddingCall> parse_embeddings(std::string_view body, const ApiLimits& limits);
// `endpoint`: kTokenize, or kApplyTemplate, where messages are needed.
Parsed<TokenizeCall> parse_tokenize(std::string_view body, Endpoint endpoint, const ApiLimits& limits);
Parsed<std::vector<int32_t>> parse_detokenize(std::string_view body, const ApiLimits& limits);

}  // namespace dspark
