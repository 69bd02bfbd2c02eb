// Chat's answers: chat.completion and chat.completion.chunk. See answer.h.
#include <nlohmann/json.hpp>
#include <utility>

#include "server/answer.h"
#include "server/reasoning.h"

namespace dspark {
namespace {

using Json = nlohmann::ordered_json;

// What a piece of text comes to after thinking and tool calls were taken out.
struct Delta {
  std::string content;
  std::string reasoning;
  std::vector<ToolDelta> calls;
};

class ChatAnswer final : public Answer {
 public:
  ChatAnswer(AnswerOptions options, const Tokenizer& tokenizer) : Answer(std::move(options), tokenizer) {
    for (int i = 0; i < static_cast<int>(options_.prompts.size()) * options_.choices; ++i) {
      Choice& choice = choices_.emplace_back(Choice{ReasoningSplitter(prompt_of(i).thinking)});
      // Behind "chatcmpl-": what makes the answer unique makes its calls unique, too.
      const std::string unique = options_.id.substr(options_.id.find('-') + 1);
      choice.tools = make_tool_parser(options_.tools, fmt::format("call_{}_{}_", unique, i));
    }
  }

  std::string all_text() const override {
    std::string out;
    for (const Choice& choice : choices_) out += choice.content;
    return out;
  }

 private:
  struct Choice {
    ReasoningSplitter splitter;
    std::unique_ptr<ToolParser> tools = nullptr;
    std::string content = {};
    std::string reasoning = {};
    Json calls = Json::array();
    Json logprobs = Json::array();
    std::vector<int32_t> tokens = {};
    std::vector<bool> drafted = {};
    bool called = false;
    std::string finish = {};
    Json stop_reason = {};
  };

  std::string_view object_name() const override { return "chat.completion"; }

  void prompt_ready(int prompt, std::span<const PromptLogprob> logprobs) override {
    if (options_.prompt_logprobs >= 0) prompt_logprobs_ = prompt_logprobs_json(prompt, logprobs);
    if (!options_.stream) return;
    for (int i = 0; i < options_.choices; ++i) {
      const std::string role = fmt::format(
          R"({{"index":{},"delta":{{"role":"assistant","content":""}},"logprobs":null,"finish_reason":null,"seed":{}}})",
          i, seed_of(i));
      const bool with_ids = options_.return_token_ids && i == 0;
      emit(role, 0, with_ids ? ",\"prompt_token_ids\":" + Json(options_.prompts[0].tokens).dump() : std::string());
    }
  }

  void add_token(int index, const AnswerToken& token) override {
    Choice& choice = choices_[static_cast<size_t>(index)];
    choice.tokens.push_back(token.token);
    choice.drafted.push_back(token.drafted);
    const Delta delta = split(choice, token.text);
    if (choice.splitter.inside()) ++usage_.reasoning;
    Json logprob = options_.logprobs ? logprob_json(token) : Json();
    if (options_.stream) {
      send(index, delta, logprob, token.token, "null", "");
    } else if (options_.logprobs) {
      choice.logprobs.push_back(std::move(logprob));
    }
  }

  void end_choice(int index, const ChoiceEnd& end) override {
    Choice& choice = choices_[static_cast<size_t>(index)];
    Delta delta = split(choice, end.text);
    const auto rest = choice.splitter.finish();
    add(choice, rest.reasoning, rest.content, &delta);
    if (choice.tools) add_parts(choice, choice.tools->finish(), &delta);
    choice.finish = finish_reason_name(end.reason);
    if (choice.called && end.reason == FinishReason::kStop) choice.finish = "tool_calls";
    choice.stop_reason = stop_reason(end);
    if (!options_.stream) return;
    const std::string more =
        fmt::format(",\"stop_reason\":{},\"seed\":{}", dump_json(choice.stop_reason), seed_of(index));
    send(index, delta, nullptr, std::nullopt, fmt::format("\"{}\"", choice.finish), more);
  }

  Delta split(Choice& choice, std::string_view text) {
    Delta delta;
    const auto parts = choice.splitter.push(text);
    add(choice, parts.reasoning, parts.content, &delta);
    return delta;
  }

  void add(Choice& choice, const std::string& reasoning, const std::string& content, Delta* delta) {
    if (options_.include_reasoning) delta->reasoning += reasoning;
    choice.reasoning += reasoning;
    if (content.empty()) return;
    add_parts(choice, choice.tools ? choice.tools->push(content) : ToolParts{content, {}}, delta);
  }

  void add_parts(Choice& choice, ToolParts parts, Delta* delta) {
    choice.content += parts.content;
    delta->content += parts.content;
    for (ToolDelta& call : parts.calls) {
      choice.called = true;
      if (call.index > 0 && !options_.parallel_tools) continue;
      if (!call.id.empty()) {
        choice.calls.push_back(
            {{"id", call.id}, {"type", "function"}, {"function", {{"name", call.name}, {"arguments", ""}}}});
      }
      auto& arguments = choice.calls[static_cast<size_t>(call.index)]["function"]["arguments"];
      arguments.get_ref<std::string&>() += call.arguments;
      delta->calls.push_back(std::move(call));
    }
  }

  // One chunk. `finish` and what is in `more` are JSON.
  void send(int index, const Delta& delta, const Json& logprob, std::optional<int32_t> token, std::string_view finish,
            std::string_view more) {
    const Choice& choice = choices_[static_cast<size_t>(index)];
    std::string out = fmt::format("{{\"index\":{},\"delta\":{{", index);
    const size_t empty = out.size();
    const auto member = [&](std::string_view name) {
      if (out.size() > empty) out += ',';
      out.append("\"").append(name).append("\":");
    };
    const auto text = [&](std::string_view name, const std::string& value) {
      member(name);
      append_json_string(out, value);
    };
    // A token that shows nothing yet still is a chunk; inside of thinking or a call it has no content at all.
    const bool quiet = choice.splitter.inside() || choice.called || !token;
    if (!delta.content.empty() || (!quiet && delta.reasoning.empty())) text("content", delta.content);
    if (!delta.reasoning.empty()) {
      text("reasoning_content", delta.reasoning);
      text("reasoning", delta.reasoning);
    }
    if (!delta.calls.empty()) {
      member("tool_calls");
      out += calls_json(delta.calls);
    }
    out.append("},\"logprobs\":");
    out += logprob.is_null() ? "null" : dump_json({{"content", Json::array({logprob})}});
    out.append(",\"finish_reason\":").append(finish);
    if (options_.return_token_ids) out += token ? fmt::format(",\"token_ids\":[{}]", *token) : ",\"token_ids\":[]";
    if (options_.report_drafts && token) out += choice.drafted.back() ? ",\"drafted\":true" : ",\"drafted\":false";
    out.append(more).append("}");
    emit(out, static_cast<int>(choice.tokens.size()));
  }

  static std::string calls_json(const std::vector<ToolDelta>& calls) {
    Json out = Json::array();
    for (const ToolDelta& call : calls) {
      Json& entry = out.emplace_back(Json{{"index", call.index}});
      if (!call.id.empty()) {
        entry["id"] = call.id;
        entry["type"] = "function";
        entry["function"]["name"] = call.name;
      }
      entry["function"]["arguments"] = call.arguments;
    }
    return dump_json(out);
  }

  Json logprob_json(const AnswerToken& token) const {
    const auto entry = [&](int32_t id, float logprob) {
      const std::string_view bytes = id >= 0 && id < tokenizer_.size() ? tokenizer_.piece(id) : std::string_view();
      Json list = Json::array();
      for (const char c : bytes) list.push_back(static_cast<uint8_t>(c));
      return Json{{"token", token_text(id)}, {"logprob", finite_logprob(logprob)}, {"bytes", std::move(list)}};
    };
    Json out = entry(token.token, token.logprob);
    out["top_logprobs"] = Json::array();
    for (const LogprobEntry& top : token.top) out["top_logprobs"].push_back(entry(top.token, top.logprob));
    return out;
  }

  Json choice_json(int index) override {
    Choice& choice = choices_[static_cast<size_t>(index)];
    const bool only_calls = !choice.calls.empty() && choice.content.empty();
    Json message = {
        {"role", "assistant"}, {"content", only_calls ? Json() : Json(choice.content)}, {"refusal", nullptr}};
    if (options_.include_reasoning && !choice.reasoning.empty()) {
      message["reasoning_content"] = choice.reasoning;
      message["reasoning"] = choice.reasoning;
    }
    if (!choice.calls.empty()) message["tool_calls"] = choice.calls;
    Json out = {{"index", index},
                {"message", std::move(message)},
                {"logprobs", options_.logprobs ? Json{{"content", choice.logprobs}} : Json()},
                {"finish_reason", choice.finish},
                {"stop_reason", choice.stop_reason},
                {"seed", seed_of(index)}};
    if (options_.return_token_ids) out["token_ids"] = choice.tokens;
    if (options_.report_drafts) out["drafted"] = choice.drafted;
    return out;
  }

  void add_top_level(Json* out) override {
    if (options_.prompt_logprobs >= 0) (*out)["prompt_logprobs"] = prompt_logprobs_;
    if (options_.return_token_ids) (*out)["prompt_token_ids"] = options_.prompts[0].tokens;
  }

  std::vector<Choice> choices_;
  Json prompt_logprobs_;
};

}  // namespace

std::unique_ptr<Answer> make_chat_answer(AnswerOptions options, const Tokenizer& tokenizer) {
  return std::make_unique<ChatAnswer>(std::move(options), tokenizer);
}

}  // namespace dspark
