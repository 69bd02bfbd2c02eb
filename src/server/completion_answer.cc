// Answers of /v1/completions: text_completion. See answer.h.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "server/answer.h"
#include "text/utf8.h"

namespace dspark {
namespace {

using Json = nlohmann::ordered_json;

int characters(std::string_view text) {
  int count = 0;
  for (const char c : text) count += (static_cast<uint8_t>(c) & 0xC0) != 0x80;
  return count;
}

// The four lists of a completion's logprobs.
struct LogprobLists {
  Json offsets = Json::array();
  Json values = Json::array();
  Json tokens = Json::array();
  Json top = Json::array();

  Json json() const {
    return {{"text_offset", offsets}, {"token_logprobs", values}, {"tokens", tokens}, {"top_logprobs", top}};
  }
};

class CompletionAnswer final : public Answer {
 public:
  CompletionAnswer(AnswerOptions options, const Tokenizer& tokenizer) : Answer(std::move(options), tokenizer) {
    choices_.resize(options_.prompts.size() * static_cast<size_t>(options_.choices));
  }

  std::string all_text() const override {
    std::string out;
    for (const Choice& choice : choices_) out += choice.text;
    return out;
  }

 private:
  struct Choice {
    std::string text;
    int offset = 0;  // characters of the tokens so far
    LogprobLists logprobs;
    std::vector<int32_t> tokens;
    std::vector<bool> drafted;
    bool begun = false;  // a chunk has gone out
    Json prompt_logprobs;
    std::string finish;
    Json stop_reason;
  };

  std::string_view object_name() const override { return "text_completion"; }

  void prompt_ready(int prompt, std::span<const PromptLogprob> logprobs) override {
    const AnswerPrompt& from = options_.prompts[static_cast<size_t>(prompt)];
    for (int i = index_of(prompt, 0); i < index_of(prompt + 1, 0); ++i) {
      Choice& choice = choices_[static_cast<size_t>(i)];
      if (options_.prompt_logprobs >= 0) choice.prompt_logprobs = prompt_logprobs_json(prompt, logprobs);
      if (!options_.echo) continue;
      LogprobLists lists;
      if (options_.logprobs) {
        for (size_t k = 0; k < from.tokens.size(); ++k) {
          const PromptLogprob* known = k > 0 && k - 1 < logprobs.size() ? &logprobs[k - 1] : nullptr;
          add_logprob(choice, &lists, from.tokens[k], known != nullptr ? &known->logprob : nullptr,
                      known != nullptr ? likeliest(known->top) : std::span<const LogprobEntry>());
        }
      }
      if (options_.stream) {
        send(i, from.text, options_.logprobs ? lists.json() : Json(), std::nullopt, "null", "");
      } else {
        choice.text = from.text;
        choice.logprobs = std::move(lists);
      }
    }
  }

  void add_token(int index, const AnswerToken& token) override {
    Choice& choice = choices_[static_cast<size_t>(index)];
    choice.tokens.push_back(token.token);
    choice.drafted.push_back(token.drafted);
    LogprobLists now;
    LogprobLists* lists = options_.stream ? &now : &choice.logprobs;
    if (options_.logprobs) add_logprob(choice, lists, token.token, &token.logprob, token.top);
    choice.text += token.text;
    if (options_.stream) send(index, token.text, options_.logprobs ? now.json() : Json(), token.token, "null", "");
  }

  void end_choice(int index, const ChoiceEnd& end) override {
    Choice& choice = choices_[static_cast<size_t>(index)];
    choice.text += end.text;
    choice.finish = finish_reason_name(end.reason);
    choice.stop_reason = stop_reason(end);
    if (!options_.stream) return;
    const std::string more =
        fmt::format(",\"stop_reason\":{},\"seed\":{}", dump_json(choice.stop_reason), seed_of(index));
    send(index, end.text, nullptr, std::nullopt, fmt::format("\"{}\"", choice.finish), more);
  }

  // The engine computes as many as `prompt_logprobs` asks for, where that is more.
  std::span<const LogprobEntry> likeliest(std::span<const LogprobEntry> top) const {
    return top.first(std::min(top.size(), static_cast<size_t>(options_.top_logprobs)));
  }

  // `logprob` is null for a prompt's first token.
  void add_logprob(Choice& choice, LogprobLists* lists, int32_t token, const float* logprob,
                   std::span<const LogprobEntry> top) const {
    const std::string text = token_text(token);
    lists->offsets.push_back(choice.offset);
    lists->tokens.push_back(text);
    choice.offset += characters(options_.tokens_as_ids ? replace_invalid_utf8(tokenizer_.piece(token)) : text);
    if (logprob == nullptr) {
      lists->values.push_back(nullptr);
      lists->top.push_back(nullptr);
      return;
    }
    lists->values.push_back(finite_logprob(*logprob));
    Json entry = Json::object();
    for (const LogprobEntry& likely : top) entry[token_text(likely.token)] = finite_logprob(likely.logprob);
    if (!top.empty()) entry[text] = finite_logprob(*logprob);  // the token itself, likely or not
    lists->top.push_back(std::move(entry));
  }

  void send(int index, std::string_view text, const Json& logprobs, std::optional<int32_t> token,
            std::string_view finish, std::string_view more) {
    Choice& choice = choices_[static_cast<size_t>(index)];
    std::string out = fmt::format("{{\"index\":{},\"text\":", index);
    append_json_string(out, text);
    out += ",\"logprobs\":" + (logprobs.is_null() ? "null" : dump_json(logprobs));
    out.append(",\"finish_reason\":").append(finish);
    if (options_.return_token_ids) {
      out += token ? fmt::format(",\"token_ids\":[{}]", *token) : ",\"token_ids\":[]";
      if (!choice.begun) out += ",\"prompt_token_ids\":" + Json(prompt_of(index).tokens).dump();
    }
    choice.begun = true;
    if (options_.report_drafts && token) out += choice.drafted.back() ? ",\"drafted\":true" : ",\"drafted\":false";
    out.append(more).append("}");
    emit(out, static_cast<int>(choice.tokens.size()));
  }

  Json choice_json(int index) override {
    Choice& choice = choices_[static_cast<size_t>(index)];
    Json out = {{"index", index},
                {"text", choice.text},
                {"logprobs", options_.logprobs ? choice.logprobs.json() : Json()},
                {"finish_reason", choice.finish},
                {"stop_reason", choice.stop_reason},
                {"seed", seed_of(index)}};
    if (options_.prompt_logprobs >= 0) out["prompt_logprobs"] = choice.prompt_logprobs;
    if (options_.report_drafts) out["drafted"] = choice.drafted;
    if (options_.return_token_ids) {
      out["token_ids"] = choice.tokens;
      out["prompt_token_ids"] = prompt_of(index).tokens;
    }
    return out;
  }

  std::vector<Choice> choices_;
};

}  // namespace

std::unique_ptr<Answer> make_completion_answer(AnswerOptions options, const Tokenizer& tokenizer) {
  return std::make_unique<CompletionAnswer>(std::move(options), tokenizer);
}

}  // namespace dspark
