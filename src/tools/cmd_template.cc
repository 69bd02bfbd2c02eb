// `dspark template`: a conversation as the prompt that its model reads. Main thread.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/printable.h"
#include "engine/model_text.h"
#include "tools/command.h"
#include "tools/io.h"
#include "tools/model_choice.h"

namespace dspark {
namespace {

// The JSON in a file, its keys in order.
Result<nlohmann::ordered_json> read_json(const std::string& path) {
  DSPARK_TRY(const std::string text, read_input(path, kMaxDocumentBytes));
  return parse_ordered_json(text, input_name(path));
}

// The model's own template with the texts of its BOS and EOS in `input`.
Result<ChatTemplate> template_of_model(const std::string& model, ChatInput* input) {
  DSPARK_TRY(const std::string path, local_model(model));
  DSPARK_TRY(const ModelFile file, ModelFile::open(path));
  DSPARK_TRY(const Tokenizer tokenizer, load_tokenizer(file));
  if (tokenizer.bos() >= 0) input->bos_token = tokenizer.piece(tokenizer.bos());
  if (tokenizer.eos() >= 0) input->eos_token = tokenizer.piece(tokenizer.eos());
  return load_chat_template(file);
}

Result<ChatTemplate> choose_template(const Settings& settings, ChatInput* input) {
  if (!settings.is_set<"template">()) return template_of_model(settings.get<"model">(), input);
  if (settings.is_set<"model">()) {
    DSPARK_TRY([[maybe_unused]] const ChatTemplate replaced, template_of_model(settings.get<"model">(), input));
  }
  DSPARK_TRY(const std::string source, read_input(settings.get<"template">(), kMaxDocumentBytes));
  return ChatTemplate::parse(source);
}

}  // namespace

Result<ExitCode> cmd_template(const Invocation& call) {
  const Settings& settings = call.settings;
  ChatInput input;
  DSPARK_TRY(nlohmann::ordered_json messages, read_json(settings.get<"messages">()));
  if (messages.is_object()) {
    if (messages.contains("tools")) input.tools = messages["tools"];
    nlohmann::ordered_json list = messages.contains("messages") ? messages["messages"] : nlohmann::ordered_json();
    messages = std::move(list);
  }
  if (!messages.is_array()) {
    return make_error(ErrorCode::kInvalidArgument,
                      "--messages {}: expected a list of messages, or an object with the key 'messages'",
                      quote(settings.get<"messages">()));
  }
  if (settings.is_set<"tools">()) {
    DSPARK_TRY(input.tools, read_json(settings.get<"tools">()));
  }
  input.add_generation_prompt = settings.get<"generation-prompt">();
  DSPARK_TRY(const ChatTemplate chat_template, choose_template(settings, &input));
  DSPARK_TRY(input.messages, adapt_content(messages, chat_template.content_style()));
  DSPARK_TRY(const std::string prompt, chat_template.render(input));
  DSPARK_RETURN_IF_ERROR(settings.get<"json">() ? write_json({{"prompt", prompt}}) : write_output(prompt));
  return ExitCode::kOk;
}

}  // namespace dspark
