// Chat templates: the Jinja text that a model publishes to turn a conversation into its prompt. Renders as
// transformers' apply_chat_template does (docs/chat-templates.md lists what is covered and where it differs). A
// template never changes once it is parsed and can be rendered by many threads at once.
#pragma once

#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "base/result.h"
#include "text/jinja_limits.h"

namespace dspark {

namespace jinja {
struct Program;
}

// The time of day here, as templates that print a date ask for it.
std::tm local_time_now();

// What a template sees. The order of the keys is kept: tojson prints it.
struct ChatInput {
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();
  nlohmann::ordered_json tools;                                     // null: none
  nlohmann::ordered_json extra = nlohmann::ordered_json::object();  // more variables, over those below where equal
  bool add_generation_prompt = true;
  std::string bos_token;
  std::string eos_token;
  std::function<std::tm()> now = local_time_now;  // the clock of strftime_now
};

// How a template reads the content of a message.
enum class ContentStyle {
  kText,   // only text
  kParts,  // only a list of parts: [{"type": "text", "text": ...}]
  kBoth,
};

class ChatTemplate {
 public:
  // Errors: kCorrupt, with line and cause. `source` is UTF-8 of at most jinja::kMaxSourceBytes.
  static Result<ChatTemplate> parse(std::string_view source);

  // The template of models that have none: ChatML.
  static ChatTemplate chatml();
  bool built_in() const { return built_in_; }

  // The prompt, at most limits.max_text_bytes. Errors name the line and the cause: kInvalidArgument where the template
  // refuses the conversation (raise_exception) or uses it wrongly, kExhausted where it runs into a limit.
  Result<std::string> render(const ChatInput& input, const jinja::Limits& limits = {}) const;

  // Found out when the template is parsed, by rendering a message in either form.
  ContentStyle content_style() const { return content_style_; }

 private:
  explicit ChatTemplate(std::shared_ptr<const jinja::Program> program) : program_(std::move(program)) {}

  std::shared_ptr<const jinja::Program> program_;
  ContentStyle content_style_ = ContentStyle::kText;
  bool built_in_ = false;
};

// `messages` with their content in a form that a template of this style reads: text parts become one text, joined by
// newlines, or a text becomes one text part; messages of other kinds stay as they are. Errors: kUnsupported for a part
// that is no text, where the template takes only text.
Result<nlohmann::ordered_json> adapt_content(const nlohmann::ordered_json& messages, ContentStyle style);

}  // namespace dspark
