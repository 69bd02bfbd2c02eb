// See answer.h: what chat and completions share.
#include "server/answer.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "text/utf8.h"

namespace dspark {

using Json = nlohmann::ordered_json;

double finite_logprob(float logprob) { return logprob > -9999.0f ? static_cast<double>(logprob) : -9999.0; }

std::unique_ptr<Answer> make_answer(AnswerOptions options, const Tokenizer& tokenizer) {
  return options.chat ? make_chat_answer(std::move(options), tokenizer)
                      : make_completion_answer(std::move(options), tokenizer);
}

Answer::Answer(AnswerOptions options, const Tokenizer& tokenizer)
    : options_(std::move(options)), tokenizer_(tokenizer) {
  head_ = "data: {\"id\":";
  append_json_string(head_, options_.id);
  head_ += fmt::format(",\"object\":\"{}\",\"created\":{},\"model\":",
                       options_.chat ? "chat.completion.chunk" : "text_completion", options_.created);
  append_json_string(head_, options_.model);
  head_ += ",\"system_fingerprint\":";
  append_json_string(head_, options_.fingerprint);
  head_ += ",\"choices\":[";
  for (const AnswerPrompt& prompt : options_.prompts) usage_.prompt += static_cast<int>(prompt.tokens.size());
}

void Answer::on_prompt(int prompt, const RequestStats& stats, std::span<const PromptLogprob> logprobs) {
  usage_.cached += stats.cached_tokens;
  prompt_ready(prompt, logprobs);
}

void Answer::on_token(int prompt, const AnswerToken& token) {
  if (options_.only_echo) return;
  ++usage_.output;
  add_token(index_of(prompt, token.choice), token);
}

void Answer::on_choice_end(int prompt, const ChoiceEnd& end) {
  ChoiceEnd shown = end;
  if (options_.only_echo) {
    shown.text = {};
    shown.reason = FinishReason::kLength;
  }
  end_choice(index_of(prompt, end.choice), shown);
}

std::string Answer::take_stream() { return std::exchange(out_, {}); }

std::string Answer::finish_stream() {
  std::string out = take_stream();
  if (options_.include_usage) out += head_ + "],\"usage\":" + dump_json(usage_json(usage_.output)) + "}\n\n";
  return out + "data: [DONE]\n\n";
}

std::string Answer::error_event(const ApiError& error) {
  return "data: " + dump_json(error_json(error)) + "\n\ndata: [DONE]\n\n";
}

std::string Answer::whole() {
  Json choices = Json::array();
  for (int i = 0; i < static_cast<int>(options_.prompts.size()) * options_.choices; ++i)
    choices.push_back(choice_json(i));
  Json out = {{"id", options_.id},
              {"object", object_name()},
              {"created", options_.created},
              {"model", options_.model},
              {"system_fingerprint", options_.fingerprint},
              {"choices", std::move(choices)},
              {"usage", usage_json(usage_.output)}};
  add_top_level(&out);
  return dump_json(out);
}

Json Answer::usage_json(int output) const {
  Json out = {{"prompt_tokens", usage_.prompt},
              {"completion_tokens", output},
              {"total_tokens", usage_.prompt + output},
              {"prompt_tokens_details", {{"cached_tokens", usage_.cached}}}};
  if (options_.chat) out["completion_tokens_details"] = {{"reasoning_tokens", usage_.reasoning}};
  return out;
}

void Answer::emit(std::string_view choice, int output, std::string_view more) {
  out_.append(head_).append(choice).append("]").append(more);
  if (options_.continuous_usage) {
    out_.append(",\"usage\":").append(dump_json(usage_json(output)));
  } else if (options_.include_usage) {
    out_.append(",\"usage\":null");
  }
  out_.append("}\n\n");
}

Json Answer::stop_reason(const ChoiceEnd& end) const {
  if (end.stop_text && static_cast<size_t>(*end.stop_text) < options_.stops.size()) {
    return options_.stops[static_cast<size_t>(*end.stop_text)];
  }
  if (end.stop_token) return *end.stop_token;
  return nullptr;
}

std::string Answer::token_text(int32_t token) const {
  if (options_.tokens_as_ids) return fmt::format("token_id:{}", token);
  return token >= 0 && token < tokenizer_.size() ? replace_invalid_utf8(tokenizer_.piece(token)) : std::string();
}

// As vLLM has it: for each token of the prompt an object from ids to what is known of them, null for the first.
Json Answer::prompt_logprobs_json(int prompt, std::span<const PromptLogprob> logprobs) const {
  const auto& tokens = options_.prompts[static_cast<size_t>(prompt)].tokens;
  Json out = Json::array({nullptr});
  for (size_t i = 0; i < logprobs.size() && i + 1 < tokens.size(); ++i) {
    Json entry = Json::object();
    const auto add = [&](int32_t token, float logprob, Json rank) {
      entry[std::to_string(token)] = {
          {"logprob", finite_logprob(logprob)}, {"rank", std::move(rank)}, {"decoded_token", token_text(token)}};
    };
    add(tokens[i + 1], logprobs[i].logprob, nullptr);
    const size_t count = std::min(logprobs[i].top.size(), static_cast<size_t>(options_.prompt_logprobs));
    for (size_t k = 0; k < count; ++k) add(logprobs[i].top[k].token, logprobs[i].top[k].logprob, k + 1);
    out.push_back(std::move(entry));
  }
  return out;
}

}  // namespace dspark
