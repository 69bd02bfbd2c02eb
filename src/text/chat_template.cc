// See chat_template.h.
#include "text/chat_template.h"

#include <utility>

#include "text/jinja_error.h"
#include "text/jinja_eval.h"
#include "text/jinja_filters.h"
#include "text/jinja_json.h"
#include "text/jinja_parser.h"
#include "text/jinja_scope.h"

namespace dspark {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kChatMl =
    "{%- for message in messages %}"
    "{{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}";

// One render of the probe is a few hundred steps in published templates.
constexpr jinja::Limits kProbeLimits{.max_steps = 1'000'000, .max_text_bytes = 1u << 20, .max_memory_bytes = 16u << 20};

Error located(const jinja::TemplateError& error, int line) {
  return make_error(error.code, "chat template, line {}: {}", error.line > 0 ? error.line : line, error.message);
}

jinja::Interpreter::Context make_context(jinja::Runtime& rt, const ChatInput& input) {
  using jinja::Value;
  jinja::Interpreter::Context context;
  for (const jinja::Native& function : jinja::global_functions()) {
    context[std::string(function.name)] = Value::native(&function);
  }
  context["messages"] = from_json(rt, input.messages);
  context["tools"] = from_json(rt, input.tools);
  context["documents"] = Value::none();
  context["add_generation_prompt"] = Value::boolean(input.add_generation_prompt);
  context["bos_token"] = from_json(rt, input.bos_token);
  context["eos_token"] = from_json(rt, input.eos_token);
  if (input.extra.is_null()) return context;
  if (!input.extra.is_object())
    jinja::fail("extra template variables must be an object, not {}", input.extra.type_name());
  for (const auto& [name, value] : input.extra.items()) context[name] = from_json(rt, value);
  return context;
}

// Renders one user message with this content; whether the text arrives in the prompt as it is.
bool passes_content(const ChatTemplate& chat_template, const ordered_json& content) {
  ChatInput input;
  input.messages.push_back({{"role", "user"}, {"content", content}});
  input.now = [] {
    std::tm first_of_january{};
    first_of_january.tm_mday = 1;
    first_of_january.tm_year = 125;
    return first_of_january;
  };
  const auto prompt = chat_template.render(input, kProbeLimits);
  // Templates that print a list as it is show the names of its parts too.
  return prompt.ok() && prompt->find("probe-5f3a") != std::string::npos &&
         prompt->find("'text'") == std::string::npos && prompt->find("\"text\"") == std::string::npos;
}

// The text of a content part, or null.
const std::string* text_of(const ordered_json& part) {
  if (part.is_string()) return &part.get_ref<const std::string&>();
  if (!part.is_object() || part.value("type", ordered_json("text")) != "text") return nullptr;
  const auto text = part.find("text");
  return text != part.end() && text->is_string() ? &text->get_ref<const std::string&>() : nullptr;
}

Result<std::string> join_text_parts(const ordered_json& parts) {
  std::string joined;
  for (const ordered_json& part : parts) {
    const std::string* text = text_of(part);
    if (text == nullptr) {
      const ordered_json type = part.is_object() ? part.value("type", ordered_json()) : ordered_json(part.type_name());
      return make_error(ErrorCode::kUnsupported,
                        "a content part of type {} cannot be used: the model's chat template takes only text",
                        type.dump(-1, ' ', false, ordered_json::error_handler_t::replace));
    }
    if (&part != &parts.front()) joined += '\n';
    joined += *text;
  }
  return joined;
}

}  // namespace

std::tm local_time_now() {
  const std::time_t seconds = std::time(nullptr);
  std::tm local{};
  localtime_r(&seconds, &local);
  return local;
}

Result<ChatTemplate> ChatTemplate::parse(std::string_view source) {
  auto program = std::make_shared<jinja::Program>();
  try {
    *program = jinja::parse(source);
    jinja::resolve_variables(*program);
  } catch (const jinja::TemplateError& error) {
    return located(error, 1);
  }
  ChatTemplate result(std::move(program));
  const bool text = passes_content(result, "probe-5f3a");
  const bool parts = passes_content(result, ordered_json::array({{{"type", "text"}, {"text", "probe-5f3a"}}}));
  if (parts) result.content_style_ = text ? ContentStyle::kBoth : ContentStyle::kParts;
  return result;
}

ChatTemplate ChatTemplate::chatml() {
  auto result = parse(kChatMl);
  DSPARK_CHECK(result.ok(), "the built-in template: {}", result.error().message);
  result->built_in_ = true;
  return *std::move(result);
}

Result<std::string> ChatTemplate::render(const ChatInput& input, const jinja::Limits& limits) const {
  jinja::Runtime rt(limits, input.now);
  try {
    jinja::Interpreter interpreter(*program_, rt, make_context(rt, input));
    try {
      return interpreter.run();
    } catch (const jinja::TemplateError& error) {
      return located(error, interpreter.line());
    }
  } catch (const jinja::TemplateError& error) {
    return make_error(error.code, "chat template input: {}", error.message);
  }
}

Result<ordered_json> adapt_content(const ordered_json& messages, ContentStyle style) {
  ordered_json adapted = messages;
  if (!adapted.is_array() || style == ContentStyle::kBoth) return adapted;
  for (ordered_json& message : adapted) {
    if (!message.is_object() || !message.contains("content")) continue;
    ordered_json& content = message["content"];
    if (style == ContentStyle::kText && content.is_array()) {
      DSPARK_TRY(content, join_text_parts(content));
    } else if (style == ContentStyle::kParts && content.is_string()) {
      content = ordered_json::array({{{"type", "text"}, {"text", std::move(content)}}});
    }
  }
  return adapted;
}

}  // namespace dspark
