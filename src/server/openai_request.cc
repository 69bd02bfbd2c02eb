// See openai_request.h.
#include "server/openai_request.h"

#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include "base/json.h"
#include "base/printable.h"
#include "engine/speculation.h"
#include "server/chat_messages.h"

namespace dspark {
namespace {

using Json = nlohmann::ordered_json;

// The value of a field that check_fields has let through; null where it is absent.
const Json& field(const Json& body, std::string_view name) {
  static const Json kAbsent;
  const auto it = body.find(name);
  return it == body.end() ? kAbsent : *it;
}

template <class T>
T value_or(const Json& body, std::string_view name, T fallback) {
  const Json& value = field(body, name);
  return value.is_null() ? fallback : value.get<T>();
}

std::variant<Json, ApiError> parse_body(std::string_view body, Endpoint endpoint, const ApiLimits& limits,
                                        std::vector<std::string>* ignored) {
  auto parsed = parse_ordered_json(body, "the body",
                                   {.max_bytes = limits.max_body_bytes, .max_depth = 64, .max_values = 4'000'000});
  if (!parsed.ok()) return ApiError{.status = 400, .message = parsed.error().message, .code = "invalid_json"};
  if (!parsed->is_object()) {
    return ApiError{.status = 400,
                    .message = fmt::format("the body is {}, expected a JSON object", shown(*parsed)),
                    .code = "invalid_json"};
  }
  if (auto error = check_fields(*parsed, endpoint, limits.max_choices, ignored)) return *std::move(error);
  return std::move(parsed).value();
}

std::optional<int32_t> as_token(const Json& value, int64_t vocab) {
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned() && value.get<uint64_t>() >= static_cast<uint64_t>(vocab)) return std::nullopt;
  const auto token = value.get<int64_t>();
  if (token < 0 || token >= vocab) return std::nullopt;
  return static_cast<int32_t>(token);
}

std::optional<ApiError> read_tokens(const Json& list, const std::string& path, int64_t vocab,
                                    std::vector<int32_t>* out) {
  out->reserve(list.size());
  for (size_t i = 0; i < list.size(); ++i) {
    const auto token = as_token(list[i], vocab);
    if (!token) {
      return bad_field(fmt::format("{}[{}]", path, i), shown(list[i]), fmt::format("a token from 0 to {}", vocab - 1));
    }
    out->push_back(*token);
  }
  return std::nullopt;
}

// A string, a list of strings, tokens, or a list of lists of tokens.
std::optional<ApiError> read_prompts(const Json& value, const std::string& name, const ApiLimits& limits,
                                     std::vector<PlainPrompt>* out) {
  constexpr std::string_view kExpected = "a string, a list of strings, a list of tokens, or a list of lists of tokens";
  if (value.is_string()) {
    out->emplace_back(value.get<std::string>());
    return std::nullopt;
  }
  if (!value.is_array() || value.empty()) return bad_field(name, value.is_null() ? "nothing" : shown(value), kExpected);
  if (value[0].is_number()) {
    return read_tokens(value, name, limits.vocab, &std::get<1>(out->emplace_back(std::vector<int32_t>())));
  }
  if (value.size() > static_cast<size_t>(limits.max_prompts)) {
    return bad_field(name, shown(value), fmt::format("at most {} prompts", limits.max_prompts));
  }
  for (size_t i = 0; i < value.size(); ++i) {
    const std::string path = fmt::format("{}[{}]", name, i);
    if (value[i].is_string() && value[0].is_string()) {
      out->emplace_back(value[i].get<std::string>());
    } else if (value[i].is_array() && value[0].is_array() && !value[i].empty()) {
      auto& tokens = std::get<1>(out->emplace_back(std::vector<int32_t>()));
      if (auto error = read_tokens(value[i], path, limits.vocab, &tokens)) return error;
    } else {
      const bool known = i > 0 || value[0].is_array();
      return bad_field(path, shown(value[i]),
                       value[0].is_string() ? "a string"
                       : known              ? "a list of tokens"
                                            : "a string, a token or a list of tokens");
    }
  }
  return std::nullopt;
}

std::optional<ApiError> read_bias(const Json& value, int64_t vocab, SamplingParams* out) {
  if (value.is_null()) return std::nullopt;
  for (const auto& [name, bias] : value.items()) {
    int64_t token = -1;
    const auto [end, code] = std::from_chars(name.data(), name.data() + name.size(), token);
    if (code != std::errc() || end != name.data() + name.size() || token < 0 || token >= vocab ||
        std::to_string(token) != name) {
      return bad_field("logit_bias", shown(Json(name)), fmt::format("as keys tokens from 0 to {}", vocab - 1));
    }
    if (!bias.is_number() || !(std::fabs(bias.get<double>()) <= 100)) {
      return bad_field(fmt::format("logit_bias.{}", token), shown(bias), "a number from -100 to 100");
    }
    out->logit_bias.emplace_back(static_cast<int32_t>(token), bias.get<float>());
  }
  return std::nullopt;
}

// Where both names of a field are given, they must agree.
std::optional<ApiError> check_names(const Json& body, const char* name, const char* other) {
  const Json& first = field(body, name);
  const Json& second = field(body, other);
  if (first.is_null() || second.is_null() || first == second) return std::nullopt;
  return bad_field(other, shown(second), fmt::format("the value of {}, which it is another name of", name));
}

std::optional<ApiError> read_seed(const Json& body, std::optional<uint64_t>* out) {
  const Json& first = field(body, "seed");
  const Json& second = field(body, "seq_seed");
  if (auto error = check_names(body, "seed", "seq_seed")) return error;
  const Json& seed = first.is_null() ? second : first;
  if (!seed.is_number_unsigned() && (seed.is_null() || seed.get<int64_t>() == -1)) return std::nullopt;  // -1: any
  *out = seed.get<uint64_t>();
  return std::nullopt;
}

std::optional<ApiError> read_sampling(const Json& body, const ApiLimits& limits, GenerationCall* call) {
  SamplingParams& sampling = call->request.sampling;
  sampling.temperature = value_or(body, "temperature", 1.0);
  sampling.top_p = value_or(body, "top_p", 1.0);
  sampling.top_k = value_or<int64_t>(body, "top_k", 0);
  sampling.min_p = value_or(body, "min_p", 0.0);
  if (auto error = check_names(body, "repetition_penalty", "repeat_penalty")) return error;
  sampling.repetition_penalty = value_or(body, "repetition_penalty", value_or(body, "repeat_penalty", 1.0));
  sampling.repetition_window = value_or<int64_t>(body, "repeat_last_n", -1);
  sampling.presence_penalty = value_or(body, "presence_penalty", 0.0);
  sampling.frequency_penalty = value_or(body, "frequency_penalty", 0.0);
  sampling.min_tokens = value_or<int64_t>(body, "min_tokens", 0);
  sampling.ignore_eos = value_or(body, "ignore_eos", false);
  if (auto error = read_seed(body, &call->seed)) return error;
  if (auto error = read_bias(field(body, "logit_bias"), limits.vocab, &sampling)) return error;
  return read_tokens(field(body, "stop_token_ids"), "stop_token_ids", limits.vocab, &sampling.stop_token_ids);
}

std::optional<ApiError> read_bool(const Json& object, const std::string& parent, std::string_view name, bool* out) {
  const Json& value = field(object, name);
  if (value.is_null()) return std::nullopt;
  if (!value.is_boolean()) return bad_field(fmt::format("{}.{}", parent, name), shown(value), "true or false");
  *out = value;
  return std::nullopt;
}

std::optional<ApiError> read_stream(const Json& body, GenerationCall* call) {
  call->stream = value_or(body, "stream", false);
  const Json& options = field(body, "stream_options");
  if (options.is_null()) return std::nullopt;
  if (!call->stream) return bad_field("stream_options", "an object", "nothing where stream is not true");
  if (auto error = read_bool(options, "stream_options", "include_usage", &call->include_usage)) return error;
  return read_bool(options, "stream_options", "continuous_usage_stats", &call->continuous_usage);
}

// How much may be drafted for the request: it changes how fast tokens come, never which.
std::optional<ApiError> read_speculation(const Json& body, GenerationCall* call) {
  const Json& options = field(body, "speculation");
  if (options.is_null()) return std::nullopt;
  for (const auto& [name, value] : options.items()) {
    const bool known = name == "enabled" || name == "max_tokens" || name == "report";
    if (!known && call->ignored.size() < kMostIgnored) call->ignored.push_back("speculation." + printable(name));
  }
  bool enabled = true;
  if (auto error = read_bool(options, "speculation", "enabled", &enabled)) return error;
  if (auto error = read_bool(options, "speculation", "report", &call->report_drafts)) return error;
  if (const Json& most = field(options, "max_tokens"); !most.is_null()) {
    if (!most.is_number_integer() || most.get<double>() < 0 || most.get<double>() > kMostDrafted) {
      return bad_field("speculation.max_tokens", shown(most), fmt::format("an integer from 0 to {}", kMostDrafted));
    }
    call->request.draft_tokens = most.get<int>();
  }
  if (!enabled) call->request.draft_tokens = 0;
  return std::nullopt;
}

// The fields of serving that generation and embeddings share.
template <class Call>
void read_serving(const Json& body, Call* call) {
  call->model = value_or<std::string>(body, "model", "");
  call->request.cache_salt = value_or<std::string>(body, "cache_salt", "");
  // As in vLLM a lower value goes first; the engine has it the other way round.
  call->request.priority = -value_or(body, "priority", 0);
  if (const Json& timeout = field(body, "timeout"); !timeout.is_null()) call->timeout_s = timeout.get<double>();
}

std::optional<ApiError> read_generation(const Json& body, const ApiLimits& limits, GenerationCall* call) {
  read_serving(body, call);
  if (auto error = read_sampling(body, limits, call)) return error;
  if (auto error = read_stream(body, call)) return error;
  if (auto error = read_speculation(body, call)) return error;
  Request& request = call->request;
  request.choices = value_or(body, "n", 1);
  const Json& stop = field(body, "stop");
  if (stop.is_string()) request.stop = {stop.get<std::string>()};
  if (stop.is_array()) request.stop = stop.get<std::vector<std::string>>();
  request.include_stop_text = value_or(body, "include_stop_str_in_output", false);
  request.max_tokens = value_or(body, "max_tokens", 0);
  if (call->chat) request.max_tokens = value_or(body, "max_completion_tokens", request.max_tokens);
  if (request.max_tokens > 0 && request.sampling.min_tokens > request.max_tokens) {
    return bad_field("min_tokens", std::to_string(request.sampling.min_tokens),
                     fmt::format("at most max_tokens, which is {}", request.max_tokens));
  }
  request.prompt_logprobs = call->prompt_logprobs = value_or(body, "prompt_logprobs", -1);
  if (call->stream && request.prompt_logprobs >= 0) {
    return bad_field("prompt_logprobs", std::to_string(request.prompt_logprobs), "nothing where stream is true");
  }
  call->return_token_ids = value_or(body, "return_token_ids", false);
  call->tokens_as_ids = value_or(body, "return_tokens_as_token_ids", false);
  const Json& metadata = field(body, "metadata");
  const Json& task = metadata.is_object() ? field(metadata, "task") : metadata;
  if (!task.is_null() && !task.is_string()) return bad_field("metadata.task", shown(task), "a string");
  call->task = task.is_null() ? "" : task.get<std::string>();
  return std::nullopt;
}

std::optional<ApiError> read_conversation(const Json& body, ChatPrompt* out) {
  out->messages = field(body, "messages");
  if (out->messages.is_null()) return bad_field("messages", "nothing", "a list of messages");
  if (auto error = normalize_messages(&out->messages)) return error;
  if (const Json& tools = field(body, "tools"); tools.is_array() && !tools.empty()) {
    if (auto error = check_tools(tools)) return error;
    out->tools = tools;
  }
  out->variables = value_or(body, "chat_template_kwargs", Json::object());
  for (const std::string_view name : {"documents", "reasoning_effort"}) {
    if (const Json& value = field(body, name); !value.is_null()) out->variables[std::string(name)] = value;
  }
  out->add_generation_prompt = value_or(body, "add_generation_prompt", true);
  return std::nullopt;
}

std::optional<ApiError> read_tool_choice(const Json& body, GenerationCall* call) {
  call->parallel_tools = value_or(body, "parallel_tool_calls", true);
  call->parse_tools = !call->conversation.tools.is_null();
  const Json& choice = field(body, "tool_choice");
  if (choice.is_null() || choice == "auto") return std::nullopt;
  if (choice == "none") {
    call->parse_tools = false;
    call->conversation.tools = nullptr;
    return std::nullopt;
  }
  return unsupported_field("tool_choice", shown(choice), "\"auto\" or \"none\"", "a call cannot be forced here");
}

std::optional<ApiError> read_chat_logprobs(const Json& body, GenerationCall* call) {
  call->logprobs = value_or(body, "logprobs", false);
  const Json& top = field(body, "top_logprobs");
  if (!call->logprobs && !top.is_null() && top != 0) {
    return bad_field("top_logprobs", shown(top), "nothing where logprobs is not true");
  }
  if (call->logprobs) call->request.sampling.logprobs = value_or(body, "top_logprobs", 0);
  return std::nullopt;
}

}  // namespace

Parsed<GenerationCall> parse_chat(std::string_view text, const ApiLimits& limits) {
  GenerationCall call;
  call.chat = true;
  auto body = parse_body(text, Endpoint::kChat, limits, &call.ignored);
  if (auto* error = std::get_if<ApiError>(&body)) return std::move(*error);
  const Json& json = std::get<Json>(body);
  if (auto error = read_generation(json, limits, &call)) return *std::move(error);
  if (auto error = read_conversation(json, &call.conversation)) return *std::move(error);
  if (auto error = read_tool_choice(json, &call)) return *std::move(error);
  if (auto error = read_chat_logprobs(json, &call)) return *std::move(error);
  call.include_reasoning = value_or(json, "include_reasoning", true);
  return call;
}

Parsed<GenerationCall> parse_completions(std::string_view text, const ApiLimits& limits) {
  GenerationCall call;
  auto body = parse_body(text, Endpoint::kCompletions, limits, &call.ignored);
  if (auto* error = std::get_if<ApiError>(&body)) return std::move(*error);
  const Json& json = std::get<Json>(body);
  if (auto error = read_generation(json, limits, &call)) return *std::move(error);
  if (auto error = read_prompts(field(json, "prompt"), "prompt", limits, &call.prompts)) return *std::move(error);
  if (static_cast<int64_t>(call.prompts.size()) * call.request.choices > limits.max_choices) {
    return bad_field("n", fmt::format("{} for each of {} prompts", call.request.choices, call.prompts.size()),
                     fmt::format("at most {} answers in all", limits.max_choices));
  }
  call.add_special_tokens = value_or(json, "add_special_tokens", true);
  call.echo = value_or(json, "echo", false);
  const Json& max_tokens = field(json, "max_tokens");
  if (max_tokens.is_null())
    call.request.max_tokens = std::max<int>(16, static_cast<int>(call.request.sampling.min_tokens));
  if (max_tokens == 0) {
    if (!call.echo) return bad_field("max_tokens", "0", "an integer from 1; 0 goes with echo only");
    call.only_echo = true;
    call.request.max_tokens = 1;
    call.request.sampling.min_tokens = 0;
  }
  if (const Json& logprobs = field(json, "logprobs"); !logprobs.is_null()) {
    call.logprobs = true;
    call.request.sampling.logprobs = logprobs.get<int>();
    if (call.echo) call.request.prompt_logprobs = std::max(call.request.prompt_logprobs, logprobs.get<int>());
  }
  return call;
}

Parsed<EmbeddingCall> parse_embeddings(std::string_view text, const ApiLimits& limits) {
  EmbeddingCall call;
  auto body = parse_body(text, Endpoint::kEmbeddings, limits, &call.ignored);
  if (auto* error = std::get_if<ApiError>(&body)) return std::move(*error);
  const Json& json = std::get<Json>(body);
  read_serving(json, &call);
  if (auto error = read_prompts(field(json, "input"), "input", limits, &call.inputs)) return *std::move(error);
  call.base64 = value_or<std::string>(json, "encoding_format", "float") == "base64";
  call.normalize = value_or(json, "normalize", true);
  call.add_special_tokens = value_or(json, "add_special_tokens", true);
  if (const Json& dimensions = field(json, "dimensions"); !dimensions.is_null()) call.dimensions = dimensions;
  call.request.work = Work::kEmbed;
  call.request.pooling = value_or<std::string>(json, "pooling", "mean") == "last" ? Pooling::kLast : Pooling::kMean;
  return call;
}

Parsed<TokenizeCall> parse_tokenize(std::string_view text, Endpoint endpoint, const ApiLimits& limits) {
  TokenizeCall call;
  std::vector<std::string> ignored;
  auto body = parse_body(text, endpoint, limits, &ignored);
  if (auto* error = std::get_if<ApiError>(&body)) return std::move(*error);
  const Json& json = std::get<Json>(body);
  if (endpoint == Endpoint::kTokenize) {  // the schema has these nowhere else
    call.add_special_tokens = value_or(json, "add_special_tokens", true);
    call.return_texts = value_or(json, "return_token_strs", false);
  }
  const Json& prompt = field(json, "prompt");
  if (endpoint == Endpoint::kTokenize && !prompt.is_null()) {
    if (!prompt.is_string()) return bad_field("prompt", shown(prompt), "a string");
    call.text = prompt;
    return call;
  }
  if (endpoint == Endpoint::kTokenize && field(json, "messages").is_null()) {
    return bad_field("prompt", "nothing", "a string, or messages instead");
  }
  call.conversation.emplace();
  if (auto error = read_conversation(json, &*call.conversation)) return *std::move(error);
  return call;
}

Parsed<std::vector<int32_t>> parse_detokenize(std::string_view text, const ApiLimits& limits) {
  std::vector<std::string> ignored;
  auto body = parse_body(text, Endpoint::kDetokenize, limits, &ignored);
  if (auto* error = std::get_if<ApiError>(&body)) return std::move(*error);
  const Json& list = field(std::get<Json>(body), "tokens");
  if (list.is_null()) return bad_field("tokens", "nothing", "a list of tokens");
  std::vector<int32_t> tokens;
  if (auto error = read_tokens(list, "tokens", limits.vocab, &tokens)) return *std::move(error);
  return tokens;
}

}  // namespace dspark
