// See request_schema.h.
#include "server/request_schema.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/printable.h"
#include "engine/sampling_params.h"

namespace dspark {
namespace {

using Json = nlohmann::ordered_json;

template <class... E>
constexpr uint8_t in(E... endpoints) {
  return static_cast<uint8_t>(((1u << static_cast<unsigned>(endpoints)) | ...));
}

constexpr uint8_t kChat = in(Endpoint::kChat);
constexpr uint8_t kCompletions = in(Endpoint::kCompletions);
constexpr uint8_t kBoth = kChat | kCompletions;
constexpr uint8_t kEmbeddings = in(Endpoint::kEmbeddings);
constexpr uint8_t kWork = kBoth | kEmbeddings;  // what the engine computes
constexpr uint8_t kRendered = kChat | in(Endpoint::kTokenize, Endpoint::kApplyTemplate);
constexpr uint8_t kAll = 0xFF;
constexpr double kManyTokens = 1 << 24;
constexpr double kAnySeed = 18446744073709551615.0;

constexpr FieldSpec ignored(std::string_view name, uint8_t where, FieldType type = FieldType::kAny) {
  return {.name = name, .type = type, .where = where, .max = 1 << 16, .use = FieldUse::kIgnored};
}
constexpr FieldSpec refused(std::string_view name, uint8_t where, std::string_view neutral = "null") {
  return {.name = name, .type = FieldType::kAny, .where = where, .use = FieldUse::kRefused, .neutral = neutral};
}

constexpr std::array kFields = std::to_array<FieldSpec>({
    {"model", FieldType::kString, kAll, 0, 1024},

    // What is asked.
    {"messages", FieldType::kArray, kRendered, 1, 100'000},
    {"tools", FieldType::kArray, kRendered, 0, 1024},
    {"tool_choice", FieldType::kAny, kChat},
    {"parallel_tool_calls", FieldType::kBool, kChat},
    {"add_generation_prompt", FieldType::kBool, kRendered},
    {"chat_template_kwargs", FieldType::kObject, kRendered, 0, 64},
    {"documents", FieldType::kArray, kRendered, 0, 10'000},
    {"reasoning_effort", FieldType::kString, kRendered, 0, 64},
    {"prompt", FieldType::kAny, kCompletions | in(Endpoint::kTokenize)},
    {"input", FieldType::kAny, kEmbeddings},
    {"tokens", FieldType::kArray, in(Endpoint::kDetokenize), 0, kManyTokens},
    {"add_special_tokens", FieldType::kBool, kCompletions | kEmbeddings | in(Endpoint::kTokenize)},
    {"return_token_strs", FieldType::kBool, in(Endpoint::kTokenize)},

    // How tokens are drawn.
    {"temperature", FieldType::kNumber, kBoth, 0, kMaxTemperature},
    {"top_p", FieldType::kNumber, kBoth, 0, 1},
    {"top_k", FieldType::kInt, kBoth, -1, kManyTokens},
    {"min_p", FieldType::kNumber, kBoth, 0, 1},
    {"repetition_penalty", FieldType::kNumber, kBoth, 0.01, 100},
    {"repeat_penalty", FieldType::kNumber, kBoth, 0.01, 100},
    {"repeat_last_n", FieldType::kInt, kBoth, -1, kManyTokens},
    {"presence_penalty", FieldType::kNumber, kBoth, -2, 2},
    {"frequency_penalty", FieldType::kNumber, kBoth, -2, 2},
    {"logit_bias", FieldType::kObject, kBoth, 0, 4096},
    {"seed", FieldType::kInt, kBoth, -1, kAnySeed},
    {"seq_seed", FieldType::kInt, kBoth, -1, kAnySeed},
    {"n", FieldType::kInt, kBoth, 1},

    // Where an answer ends.
    {"max_tokens", FieldType::kInt, kChat, 1, kManyTokens},
    {"max_tokens", FieldType::kInt, kCompletions, 0, kManyTokens},
    {"max_completion_tokens", FieldType::kInt, kChat, 1, kManyTokens},
    {"min_tokens", FieldType::kInt, kBoth, 0, kManyTokens},
    {"stop", FieldType::kStrings, kBoth, 0, kMaxStops},
    {"stop_token_ids", FieldType::kArray, kBoth, 0, 256},
    {"include_stop_str_in_output", FieldType::kBool, kBoth},
    {"ignore_eos", FieldType::kBool, kBoth},
    {"timeout", FieldType::kNumber, kWork, 0.001, 86'400},

    // What comes back.
    {"stream", FieldType::kBool, kBoth},
    {"stream_options", FieldType::kObject, kBoth, 0, 16},
    {"logprobs", FieldType::kBool, kChat},
    {"logprobs", FieldType::kInt, kCompletions, 0, kMaxLogprobs},
    {"top_logprobs", FieldType::kInt, kChat, 0, kMaxLogprobs},
    {"prompt_logprobs", FieldType::kInt, kBoth, 0, kMaxLogprobs},
    {"echo", FieldType::kBool, kCompletions},
    {"return_token_ids", FieldType::kBool, kBoth},
    {"return_tokens_as_token_ids", FieldType::kBool, kBoth},
    {"include_reasoning", FieldType::kBool, kChat},
    {"encoding_format", FieldType::kString, kEmbeddings, 0, 16, "float, base64"},
    {"pooling", FieldType::kString, kEmbeddings, 0, 16, "mean, last"},
    {"normalize", FieldType::kBool, kEmbeddings},
    {"dimensions", FieldType::kInt, kEmbeddings, 1, kManyTokens},

    // How the request is served.
    {"metadata", FieldType::kObject, kAll, 0, 64},
    {"cache_salt", FieldType::kString, kWork, 1, 256},
    {"priority", FieldType::kInt, kWork, -1'000'000, 1'000'000},
    {"speculation", FieldType::kObject, kBoth, 0, 16},

    ignored("user", kAll, FieldType::kString),
    ignored("store", kAll, FieldType::kBool),
    ignored("service_tier", kAll, FieldType::kString),
    ignored("safety_identifier", kAll, FieldType::kString),
    ignored("prompt_cache_key", kAll, FieldType::kString),
    ignored("prediction", kChat),
    ignored("spaces_between_special_tokens", kBoth),
    ignored("request_id", kAll, FieldType::kString),

    refused("response_format", kBoth, R"({"type":"text"})"),
    refused("structured_outputs", kBoth),
    refused("guided_json", kBoth),
    refused("guided_regex", kBoth),
    refused("guided_choice", kBoth),
    refused("guided_grammar", kBoth),
    refused("grammar", kBoth),
    refused("json_schema", kBoth),
    refused("functions", kChat),
    refused("function_call", kChat, R"("none")"),
    refused("modalities", kChat, R"(["text"])"),
    refused("audio", kChat),
    refused("web_search_options", kChat),
    refused("verbosity", kChat, R"("medium")"),
    refused("chat_template", kRendered),
    refused("continue_final_message", kRendered, "false"),
    refused("echo", kChat, "false"),
    refused("suffix", kCompletions),
    refused("best_of", kCompletions, "1"),
    refused("use_beam_search", kBoth, "false"),
    refused("length_penalty", kBoth, "1.0"),
    refused("bad_words", kBoth, "[]"),
    refused("allowed_token_ids", kBoth),
    refused("logits_processors", kBoth),
    refused("skip_special_tokens", kBoth, "true"),
    refused("truncate_prompt_tokens", kWork),
    refused("prompt_embeds", kCompletions),
    refused("add_special_tokens", kChat, "false"),
    refused("structural_tag", kBoth),
    refused("thinking_token_budget", kBoth),

    // Of llama-server: what switches a sampler on; its parameters alone change nothing.
    refused("n_predict", kBoth, "-1"),
    refused("n_cmpl", kBoth, "1"),
    refused("n_indent", kBoth, "0"),
    refused("t_max_predict_ms", kBoth, "0"),
    refused("min_keep", kBoth, "0"),
    refused("samplers", kBoth),
    refused("mirostat", kBoth, "0"),
    refused("typical_p", kBoth, "1.0"),
    refused("top_n_sigma", kBoth, "-1.0"),
    refused("xtc_probability", kBoth, "0.0"),
    refused("dry_multiplier", kBoth, "0.0"),
    refused("dynatemp_range", kBoth, "0.0"),
    refused("adaptive_target", kBoth, "-1.0"),
    refused("reasoning_budget_tokens", kChat, "-1"),
    refused("lora", kBoth, "[]"),
});

std::string number_text(double value) {
  if (value == kAnySeed) return "18446744073709551615";  // 2^64 as a double
  return value == std::floor(value) && std::fabs(value) < 1e20 ? fmt::format("{:.0f}", value)
                                                               : fmt::format("{}", value);
}

std::string expected(const FieldSpec& field) {
  const auto bounds = [&](std::string_view what) {
    return fmt::format("{} from {} to {}", what, number_text(field.min), number_text(field.max));
  };
  switch (field.type) {
    case FieldType::kBool:
      return "true or false";
    case FieldType::kInt:
      return bounds("an integer");
    case FieldType::kNumber:
      return bounds("a number");
    case FieldType::kString:
      if (!field.choices.empty()) return fmt::format("one of {}", field.choices);
      return fmt::format("a string of {} to {} bytes", field.min, field.max);
    case FieldType::kStrings:
      return fmt::format("a string or a list of at most {}, each of 1 to {} bytes", field.max, kMaxStopBytes);
    case FieldType::kArray:
      return bounds("a list with a number of elements");
    case FieldType::kObject:
      return fmt::format("an object of at most {} members", field.max);
    case FieldType::kAny:
      break;
  }
  return "something else";
}

// The word `text` in the list "float, base64".
bool is_choice(std::string_view choices, std::string_view text) {
  while (!choices.empty()) {
    const size_t end = std::min(choices.find(", "), choices.size());
    if (choices.substr(0, end) == text) return true;
    choices.remove_prefix(std::min(end + 2, choices.size()));
  }
  return false;
}

bool fits_int(const FieldSpec& field, const Json& value) {
  if (!value.is_number()) return false;
  const double number = value.get<double>();
  if (value.is_number_float() && (number != std::floor(number) || std::fabs(number) > 0x1p53))
    return false;  // 16.0 is 16
  return number >= field.min && number <= field.max;
}

bool fits_stop(const Json& text) {
  return text.is_string() && !text.get_ref<const std::string&>().empty() &&
         text.get_ref<const std::string&>().size() <= kMaxStopBytes;
}

bool fits_strings(const FieldSpec& field, const Json& value) {
  if (!value.is_array()) return fits_stop(value);
  return static_cast<double>(value.size()) <= field.max && std::all_of(value.begin(), value.end(), fits_stop);
}

bool fits(const FieldSpec& field, const Json& value) {
  const auto count = [&] {
    return static_cast<double>(value.size()) >= field.min && static_cast<double>(value.size()) <= field.max;
  };
  switch (field.type) {
    case FieldType::kBool:
      return value.is_boolean();
    case FieldType::kInt:
      return fits_int(field, value);
    case FieldType::kNumber: {
      if (!value.is_number()) return false;
      const double number = value.get<double>();
      return number >= field.min && number <= field.max;  // not of NaN
    }
    case FieldType::kString: {
      if (!value.is_string()) return false;
      const auto& text = value.get_ref<const std::string&>();
      if (!field.choices.empty()) return is_choice(field.choices, text);
      return static_cast<double>(text.size()) >= field.min && static_cast<double>(text.size()) <= field.max;
    }
    case FieldType::kStrings:
      return fits_strings(field, value);
    case FieldType::kArray:
      return value.is_array() && count();
    case FieldType::kObject:
      return value.is_object() && count();
    case FieldType::kAny:
      break;
  }
  return true;
}

// What is wrong with a value that does not fit: of a list of the right size it is one element.
ApiError bad_value(const FieldSpec& field, const Json& value) {
  const auto wrong =
      field.type == FieldType::kStrings && value.is_array() && static_cast<double>(value.size()) <= field.max
          ? std::find_if_not(value.begin(), value.end(), fits_stop)
          : value.end();
  if (wrong == value.end()) return bad_field(field.name, shown(value), expected(field));
  return bad_field(fmt::format("{}[{}]", field.name, wrong - value.begin()), shown(*wrong),
                   fmt::format("a string of 1 to {} bytes", kMaxStopBytes));
}

const FieldSpec* find_field(std::string_view name, Endpoint endpoint) {
  for (const FieldSpec& field : kFields) {
    if (field.name == name && (field.where >> static_cast<unsigned>(endpoint) & 1) != 0) return &field;
  }
  return nullptr;
}

}  // namespace

std::span<const FieldSpec> request_fields() { return kFields; }

std::string shown(const Json& value) {
  if (value.is_object()) return fmt::format("an object of {}", value.size());
  if (value.is_array()) return fmt::format("a list of {}", value.size());
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    return text.size() > 60 ? fmt::format("a string of {} bytes", text.size()) : fmt::format("\"{}\"", printable(text));
  }
  return value.dump();
}

std::optional<ApiError> check_fields(const Json& body, Endpoint endpoint, int max_choices,
                                     std::vector<std::string>* not_used) {
  for (const auto& [name, value] : body.items()) {
    if (value.is_null()) continue;
    const FieldSpec* field = find_field(name, endpoint);
    if (field == nullptr || field->use == FieldUse::kIgnored) {
      if (not_used->size() < kMostIgnored) not_used->push_back(printable(name));
    }
    if (field == nullptr) continue;
    if (name == "n") {
      FieldSpec limited = *field;
      limited.max = max_choices;
      if (!fits(limited, value)) return bad_field(name, shown(value), expected(limited));
    } else if (field->use == FieldUse::kRefused) {
      if (field->neutral == "null" || value != Json::parse(field->neutral)) {
        return unsupported_field(name, shown(value), field->neutral, "anything else is not supported here");
      }
    } else if (!fits(*field, value)) {
      return bad_value(*field, value);
    }
  }
  return std::nullopt;
}

}  // namespace dspark
