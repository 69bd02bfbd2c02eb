// See prepare.h.
#include "server/prepare.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/log.h"
#include "base/noise.h"
#include "engine/model_text.h"
#include "server/reasoning.h"
#include "server/task_bucket.h"
#include "text/utf8.h"

namespace dspark {
namespace {

using Json = nlohmann::ordered_json;

ApiLimits limits_of(const ServedModel& model, const ServingNames& names, const ApiKey* key) {
  ApiLimits limits = names.limits;
  limits.vocab = model.vocab;
  if (key != nullptr && key->max_choices > 0) limits.max_choices = std::min(limits.max_choices, key->max_choices);
  return limits;
}

std::optional<ApiError> check_model(const std::string& asked, const ServingNames& names) {
  if (asked.empty() || std::find(names.models.begin(), names.models.end(), asked) != names.models.end()) {
    return std::nullopt;
  }
  return ApiError{
      .status = 404,
      .message = fmt::format("model: found {}, expected {}", shown(Json(asked)), fmt::join(names.models, ", ")),
      .param = "model",
      .code = "model_not_found"};
}

std::optional<ApiError> check_length(const ServedModel& model, const Caller& caller, size_t tokens,
                                     const std::string& field) {
  if (tokens == 0) return bad_field(field, "no token at all", "at least one");
  if (tokens >= static_cast<size_t>(model.context)) {
    return ApiError{.status = 400,
                    .message = fmt::format("This model's maximum context length is {} tokens, of which one is for the "
                                           "answer. However, your {} has {} tokens. Please reduce its length.",
                                           model.context, field, tokens),
                    .param = field,
                    .code = "context_length_exceeded"};
  }
  const int most = caller.key->max_prompt_tokens;
  if (most > 0 && tokens > static_cast<size_t>(most)) {
    return bad_field(field, fmt::format("{} tokens", tokens), fmt::format("at most {} with this key", most));
  }
  return std::nullopt;
}

// Of one of `count` prompts, as errors name it.
std::string name_of(const char* field, size_t index, size_t count) {
  return count == 1 ? field : fmt::format("{}[{}]", field, index);
}

Result<std::string> render(const ServedModel& model, const ChatPrompt& prompt) {
  ChatInput input;
  input.messages = prompt.messages;
  input.tools = prompt.tools;
  input.extra = prompt.variables;
  input.add_generation_prompt = prompt.add_generation_prompt;
  return render_chat(model.chat_template, model.tokenizer, std::move(input));
}

ApiError template_error(const Error& error) {
  ApiError out = api_error(error);
  out.status = 400;
  out.param = "messages";
  out.code = "template_error";
  return out;
}

std::string text_of_content(const Json& content) {
  if (content.is_string()) return content;
  std::string out;
  if (!content.is_array()) return out;
  for (const Json& part : content) out += part.value("text", "");
  return out;
}

// The bucket of a conversation, by its newest user message.
std::string_view bucket_of_messages(const Json& messages) {
  int turns = 0;
  const Json* newest = nullptr;
  for (const Json& message : messages) {
    if (message.value("role", "") != "user") continue;
    ++turns;
    newest = &message;
  }
  return newest == nullptr ? "other" : bucket_of_text(text_of_content(newest->value("content", Json())), turns);
}

std::string_view choose_bucket(const Caller& caller, const std::string& named) {
  return bucket_of_name(named.empty() ? caller.task : named);
}

std::optional<ApiError> read_prompt_type(const Caller& caller, Request* request) {
  if (caller.prompt_type.empty()) return std::nullopt;
  if (caller.prompt_type != "short" && caller.prompt_type != "long") {
    return bad_field("X-Prompt-Type", shown(Json(caller.prompt_type)), "short or long");
  }
  request->pool = caller.prompt_type == "short" ? RequestClass::kShort : RequestClass::kLong;
  return std::nullopt;
}

// What generation and embeddings have in common: whose it is, how soon, and the record.
std::optional<ApiError> fill_in(const Caller& caller, std::optional<double> timeout_s, Request* request,
                                RequestRecord* record) {
  if (auto error = read_prompt_type(caller, request)) return error;
  request->tenant = caller.key->tenant;
  if (timeout_s) {
    const auto age = std::chrono::system_clock::now() - caller.arrival;
    request->deadline =
        std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                               std::chrono::duration<double>(*timeout_s) - age);
  }
  record->arrival = caller.arrival;
  record->tenant = caller.key->tenant;
  record->key = caller.key->name;
  record->bucket = request->bucket;
  return std::nullopt;
}

void log_ignored(const std::vector<std::string>& fields) {
  if (!fields.empty()) log(LogLevel::kInfo, "fields not looked at: {}", fmt::join(fields, ", "));
}

std::vector<int32_t> encode_plain(const ServedModel& model, const PlainPrompt& prompt, bool add_special) {
  if (const auto* tokens = std::get_if<std::vector<int32_t>>(&prompt)) return *tokens;
  return model.tokenizer.encode(std::get<std::string>(prompt),
                                {.add_special = add_special, .threads = model.tokenizer_threads});
}

// The prompts of a call as tokens, and with the text that echo and the log want.
std::optional<ApiError> make_prompts(const ServedModel& model, const Caller& caller, const GenerationCall& call,
                                     PreparedGeneration* out) {
  std::vector<AnswerPrompt>& prompts = out->answer.prompts;
  if (call.chat) {
    auto text = render(model, call.conversation);
    if (!text.ok()) return template_error(text.error());
    AnswerPrompt& prompt = prompts.emplace_back();
    prompt.tokens = encode_rendered(model.tokenizer, *text, model.tokenizer_threads);
    prompt.thinking = call.conversation.add_generation_prompt && ends_in_thinking(*text);
    if (caller.keep_text) out->record.prompt_text = *std::move(text);
    return check_length(model, caller, prompt.tokens.size(), "messages");
  }
  for (const PlainPrompt& from : call.prompts) {
    AnswerPrompt& prompt = prompts.emplace_back();
    prompt.tokens = encode_plain(model, from, call.add_special_tokens);
    const std::string field = name_of("prompt", prompts.size() - 1, call.prompts.size());
    if (auto error = check_length(model, caller, prompt.tokens.size(), field)) return error;
    if (!call.echo && !caller.keep_text) continue;
    const auto* text = std::get_if<std::string>(&from);
    std::string shown_text =
        text != nullptr ? *text : replace_invalid_utf8(model.tokenizer.decode(prompt.tokens, false));
    if (caller.keep_text) {
      out->record.prompt_text += shown_text;
      out->record.prompt_bytes.push_back(shown_text.size());
    }
    if (call.echo) prompt.text = std::move(shown_text);
  }
  return std::nullopt;
}

std::optional<ApiError> limit_answer(const ServedModel& model, const Caller& caller, size_t prompt_tokens,
                                     Request* request) {
  const int most = caller.key->max_tokens;
  if (most > 0 && request->max_tokens > most) {
    return bad_field("max_tokens", std::to_string(request->max_tokens), fmt::format("at most {} with this key", most));
  }
  const int room = model.context - static_cast<int>(prompt_tokens);
  if (request->max_tokens > 0) return std::nullopt;
  request->max_tokens = most > 0 ? std::min(room, most) : room;
  if (request->sampling.min_tokens <= request->max_tokens) return std::nullopt;
  return bad_field("min_tokens", std::to_string(request->sampling.min_tokens),
                   fmt::format("at most {}, for which there is room", request->max_tokens));
}

void describe_answer(const ServedModel& model, const ServingNames& names, const GenerationCall& call,
                     AnswerOptions* answer) {
  answer->chat = call.chat;
  answer->id = fmt::format("{}-{:014x}{:014x}", call.chat ? "chatcmpl" : "cmpl", random_seed(), random_seed());
  answer->model = call.model.empty() ? names.models.front() : call.model;
  answer->fingerprint = model.fingerprint;
  answer->stream = call.stream;
  answer->include_usage = call.include_usage;
  answer->continuous_usage = call.continuous_usage;
  answer->logprobs = call.logprobs;
  answer->top_logprobs = std::max(0, call.request.sampling.logprobs);
  answer->prompt_logprobs = call.prompt_logprobs;
  answer->echo = call.echo;
  answer->only_echo = call.only_echo;
  answer->return_token_ids = call.return_token_ids;
  answer->report_drafts = call.report_drafts;
  answer->tokens_as_ids = call.tokens_as_ids;
  answer->include_reasoning = call.include_reasoning;
  answer->parallel_tools = call.parallel_tools;
  answer->tools = call.parse_tools ? model.tools : ToolFormat::kNone;
  answer->choices = call.request.choices;
  answer->stops = call.request.stop;
}

}  // namespace

Parsed<PreparedGeneration> prepare_generation(const ServedModel& model, const ServingNames& names, const Caller& caller,
                                              std::string_view body, bool chat) {
  const ApiLimits limits = limits_of(model, names, caller.key);
  auto parsed = chat ? parse_chat(body, limits) : parse_completions(body, limits);
  if (auto* error = std::get_if<ApiError>(&parsed)) return std::move(*error);
  GenerationCall& call = std::get<GenerationCall>(parsed);
  log_ignored(call.ignored);
  if (auto error = check_model(call.model, names)) return *std::move(error);

  PreparedGeneration out;
  describe_answer(model, names, call, &out.answer);
  out.answer.created = std::chrono::duration_cast<std::chrono::seconds>(caller.arrival.time_since_epoch()).count();
  if (auto error = make_prompts(model, caller, call, &out)) return *std::move(error);

  Request& request = call.request;
  request.sampling.seed = call.seed ? *call.seed : random_seed();
  if (!call.task.empty() || !caller.task.empty()) {
    request.bucket = choose_bucket(caller, call.task);
  } else if (call.chat) {
    request.bucket = bucket_of_messages(call.conversation.messages);
  } else {
    const auto* text = std::get_if<std::string>(&call.prompts.front());
    request.bucket = text != nullptr ? bucket_of_text(*text, 1) : "other";
  }
  RequestRecord& record = out.record;
  if (auto error = fill_in(caller, call.timeout_s, &request, &record)) return *std::move(error);
  record.id = out.answer.id;
  record.endpoint = chat ? "chat" : "completions";
  record.stream = call.stream;
  record.choices = request.choices;
  record.sampling = request.sampling;
  for (const AnswerPrompt& prompt : out.answer.prompts) {
    Request& one = out.requests.emplace_back(request);
    one.prompt = prompt.tokens;
    if (auto error = limit_answer(model, caller, prompt.tokens.size(), &one)) return *std::move(error);
    record.max_tokens = one.max_tokens;
    if (caller.keep_prompts) record.prompts.push_back(prompt.tokens);
    for (int i = 0; i < request.choices; ++i) {
      out.answer.seeds.push_back(choice_seed(request.sampling.seed, static_cast<uint64_t>(i)));
    }
  }
  return out;
}

Parsed<PreparedEmbedding> prepare_embedding(const ServedModel& model, const ServingNames& names, const Caller& caller,
                                            std::string_view body) {
  auto parsed = parse_embeddings(body, limits_of(model, names, caller.key));
  if (auto* error = std::get_if<ApiError>(&parsed)) return std::move(*error);
  EmbeddingCall& call = std::get<EmbeddingCall>(parsed);
  log_ignored(call.ignored);
  if (auto error = check_model(call.model, names)) return *std::move(error);
  if (call.dimensions && *call.dimensions != model.hidden_size) {
    return bad_field("dimensions", std::to_string(*call.dimensions), std::to_string(model.hidden_size));
  }
  PreparedEmbedding out;
  out.options = {.id = fmt::format("embd-{:014x}{:014x}", random_seed(), random_seed()),
                 .model = call.model.empty() ? names.models.front() : call.model,
                 .base64 = call.base64,
                 .normalize = call.normalize,
                 .inputs = call.inputs.size()};
  call.request.bucket = "other";
  RequestRecord& record = out.record;
  if (auto error = fill_in(caller, call.timeout_s, &call.request, &record)) return *std::move(error);
  record.id = out.options.id;
  record.endpoint = "embeddings";
  for (const PlainPrompt& input : call.inputs) {
    Request& one = out.requests.emplace_back(call.request);
    one.prompt = encode_plain(model, input, call.add_special_tokens);
    const std::string field = name_of("input", out.requests.size() - 1, call.inputs.size());
    if (auto error = check_length(model, caller, one.prompt.size(), field)) return *std::move(error);
    if (caller.keep_prompts) record.prompts.push_back(one.prompt);
    const auto* text = std::get_if<std::string>(&input);
    if (caller.keep_text && text != nullptr) record.prompt_text += *text;
  }
  return out;
}

Result<std::vector<int32_t>> tokens_of(const ServedModel& model, const TokenizeCall& call) {
  if (!call.conversation) return encode_plain(model, call.text, call.add_special_tokens);
  DSPARK_TRY(const std::string text, render(model, *call.conversation));
  return encode_rendered(model.tokenizer, text, model.tokenizer_threads);
}

HttpResponse tokenize(const ServedModel& model, const ServingNames& names, std::string_view body) {
  auto parsed = parse_tokenize(body, Endpoint::kTokenize, limits_of(model, names, nullptr));
  if (const auto* error = std::get_if<ApiError>(&parsed)) return error_response(*error);
  const TokenizeCall& call = std::get<TokenizeCall>(parsed);
  const auto tokens = tokens_of(model, call);
  if (!tokens.ok()) return error_response(template_error(tokens.error()));
  Json out = {{"count", tokens->size()}, {"max_model_len", model.context}, {"tokens", *tokens}};
  if (call.return_texts) {
    out["token_strs"] = Json::array();
    for (const int32_t token : *tokens) out["token_strs"].push_back(replace_invalid_utf8(model.tokenizer.piece(token)));
  }
  return {.body = dump_json(out)};
}

HttpResponse detokenize(const ServedModel& model, const ServingNames& names, std::string_view body) {
  const auto parsed = parse_detokenize(body, limits_of(model, names, nullptr));
  if (const auto* error = std::get_if<ApiError>(&parsed)) return error_response(*error);
  const std::string text = model.tokenizer.decode(std::get<std::vector<int32_t>>(parsed), false);
  return {.body = dump_json({{"prompt", replace_invalid_utf8(text)}})};
}

HttpResponse apply_template(const ServedModel& model, const ServingNames& names, std::string_view body) {
  const auto parsed = parse_tokenize(body, Endpoint::kApplyTemplate, limits_of(model, names, nullptr));
  if (const auto* error = std::get_if<ApiError>(&parsed)) return error_response(*error);
  const auto text = render(model, *std::get<TokenizeCall>(parsed).conversation);
  if (!text.ok()) return error_response(template_error(text.error()));
  return {.body = dump_json({{"prompt", *text}})};
}

}  // namespace dspark
