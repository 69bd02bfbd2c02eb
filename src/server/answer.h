// Answer: the engine's events as OpenAI's JSON, streamed or whole, for chat and for completions. Pure but for its own
// state; one per HTTP request, one thread.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "engine/request.h"
#include "server/api_error.h"
#include "server/tool_parser.h"
#include "text/tokenizer.h"

namespace dspark {

// What an answer is about.
struct AnswerPrompt {
  std::vector<int32_t> tokens;
  std::string text;       // for echo
  bool thinking = false;  // its end opened <think>
};

struct AnswerOptions {
  bool chat = false;
  std::string id;  // "chatcmpl-..."
  int64_t created = 0;
  std::string model;
  std::string fingerprint;
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;
  bool logprobs = false;
  int top_logprobs = 0;      // how many beside each token, of an echoed prompt as well
  int prompt_logprobs = -1;  // the same in the list of the prompt's; -1: there is none
  bool echo = false;
  bool only_echo = false;
  bool return_token_ids = false;
  bool report_drafts = false;  // which tokens a drafter had guessed
  bool tokens_as_ids = false;
  bool include_reasoning = true;
  bool parallel_tools = true;
  ToolFormat tools = ToolFormat::kNone;
  int choices = 1;              // of each prompt
  std::vector<uint64_t> seeds;  // of each choice of each prompt, in order
  std::vector<std::string> stops;
  std::vector<AnswerPrompt> prompts;
};

// A token event that owns what it holds.
struct AnswerToken {
  int choice = 0;
  int32_t token = 0;
  std::string text;
  float logprob = 0;
  std::vector<LogprobEntry> top;
  bool drafted = false;
};

class Answer {
 public:
  virtual ~Answer() = default;

  // The events of one prompt's request come in the engine's order; `prompt` is its index.
  void on_prompt(int prompt, const RequestStats& stats, std::span<const PromptLogprob> logprobs);
  void on_token(int prompt, const AnswerToken& token);
  void on_choice_end(int prompt, const ChoiceEnd& end);

  // Streaming: the server-sent events since the last call.
  std::string take_stream();
  // The last events: usage where asked for, and [DONE].
  std::string finish_stream();
  // An error in mid-stream; [DONE] follows it.
  static std::string error_event(const ApiError& error);
  // Not streaming: the response's body, when all has ended.
  std::string whole();

  int output_tokens() const { return usage_.output; }
  // The text of all choices, for the log.
  virtual std::string all_text() const = 0;

 protected:
  struct Usage {
    int prompt = 0, cached = 0, output = 0, reasoning = 0;
  };

  Answer(AnswerOptions options, const Tokenizer& tokenizer);
  virtual std::string_view object_name() const = 0;  // of the whole answer; chunks add to it
  virtual void prompt_ready(int prompt, std::span<const PromptLogprob> logprobs) = 0;
  virtual void add_token(int index, const AnswerToken& token) = 0;
  virtual void end_choice(int index, const ChoiceEnd& end) = 0;
  virtual nlohmann::ordered_json choice_json(int index) = 0;
  virtual void add_top_level(nlohmann::ordered_json*) {}

  // One event: `choice` is the JSON of the one choice in it; `more` are members of the top level, each with a comma in
  // front. `output` counts for continuous usage.
  void emit(std::string_view choice, int output, std::string_view more = {});
  int index_of(int prompt, int choice) const { return prompt * options_.choices + choice; }
  const AnswerPrompt& prompt_of(int index) const {
    return options_.prompts[static_cast<size_t>(index / options_.choices)];
  }
  uint64_t seed_of(int index) const { return options_.seeds[static_cast<size_t>(index)]; }
  // What ended a choice, besides the model's own end tokens: a text, a token, or null.
  nlohmann::ordered_json stop_reason(const ChoiceEnd& end) const;

  std::string token_text(int32_t token) const;  // as logprobs show it
  nlohmann::ordered_json prompt_logprobs_json(int prompt, std::span<const PromptLogprob> logprobs) const;

  AnswerOptions options_;
  const Tokenizer& tokenizer_;
  Usage usage_;

 private:
  nlohmann::ordered_json usage_json(int output) const;
  std::string head_;  // how every chunk begins, up to its choice
  std::string out_;
};

// JSON has no infinity: as in vLLM, the logarithm of nothing is -9999.
double finite_logprob(float logprob);

// For options.chat, or for completions. `tokenizer` must outlive the answer.
std::unique_ptr<Answer> make_answer(AnswerOptions options, const Tokenizer& tokenizer);
std::unique_ptr<Answer> make_chat_answer(AnswerOptions options, const Tokenizer& tokenizer);
std::unique_ptr<Answer> make_completion_answer(AnswerOptions options, const Tokenizer& tokenizer);

}  // namespace dspark
