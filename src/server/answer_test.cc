// Tests of answer.h: what OpenAI's and vLLM's clients read in chunks and whole answers.
#include "server/answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "server/serving_standin.h"

namespace dspark {
namespace {

using nlohmann::json;

std::vector<json> chunks(const std::string& text) {
  std::vector<json> out;
  size_t at = 0;
  while (at < text.size()) {
    const size_t end = text.find("\n\n", at);
    const std::string event = text.substr(at, end - at);
    EXPECT_EQ(event.substr(0, 6), "data: ");
    if (event != "data: [DONE]") out.push_back(json::parse(event.substr(6)));
    at = end + 2;
  }
  return out;
}

AnswerOptions options(bool chat, bool stream) {
  AnswerOptions out;
  out.chat = chat;
  out.stream = stream;
  out.id = chat ? "chatcmpl-1" : "cmpl-1";
  out.model = "m";
  out.fingerprint = "fp";
  out.seeds = {11, 12};
  out.prompts = {{.tokens = {40, 41}, .text = "IJ"}};
  return out;
}

// The answer gets `texts` as one token each.
void play(Answer* answer, const std::vector<std::string>& texts, ChoiceEnd end = {}) {
  answer->on_prompt(0, {.prompt_tokens = 2, .cached_tokens = 1}, {});
  int32_t token = 50;
  for (const std::string& text : texts)
    answer->on_token(0, {.token = token++, .text = text, .logprob = -0.5f, .top = {{7, -0.1f}}});
  answer->on_choice_end(0, end);
}

TEST(Answer, ThinkingAndToolCallsStreamAsTheyAreWhole) {
  const std::vector<std::string> texts = {"<think>",
                                          "\nhm",
                                          " hm\n",
                                          "</think>",
                                          "\n\n",
                                          "Sure",
                                          ".\n<tool_call>",
                                          "{\"name\": \"f\",",
                                          " \"arguments\": {\"a\"",
                                          ": 1}}",
                                          "</tool_call>"};
  AnswerOptions whole_options = options(true, false);
  whole_options.tools = ToolFormat::kHermes;
  AnswerOptions stream_options = whole_options;
  stream_options.stream = true;
  const auto whole = make_answer(whole_options, standin_tokenizer());
  const auto stream = make_answer(stream_options, standin_tokenizer());
  play(whole.get(), texts);
  play(stream.get(), texts);
  const json choice = json::parse(whole->whole())["choices"][0];
  EXPECT_EQ(choice["message"]["content"], "Sure.\n");
  EXPECT_EQ(choice["message"]["reasoning_content"], "hm hm");
  EXPECT_EQ(choice["message"]["reasoning"], "hm hm");
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  ASSERT_EQ(choice["message"]["tool_calls"].size(), 1u);
  EXPECT_EQ(choice["message"]["tool_calls"][0]["function"], json({{"name", "f"}, {"arguments", "{\"a\": 1}"}}));

  std::string content, reasoning, arguments, name, finish;
  const auto events = chunks(stream->take_stream());
  EXPECT_EQ(events.size(), texts.size() + 2);  // one a token, the role, the end
  for (const json& event : events) {
    const json& delta = event["choices"][0]["delta"];
    content += delta.value("content", "");
    reasoning += delta.value("reasoning_content", "");
    for (const json& call : delta.value("tool_calls", json::array())) {
      EXPECT_EQ(call["index"], 0);
      arguments += call["function"].value("arguments", "");
      name += call["function"].value("name", "");
    }
    if (event["choices"][0]["finish_reason"].is_string()) finish = event["choices"][0]["finish_reason"];
  }
  EXPECT_EQ(content, "Sure.\n");
  EXPECT_EQ(reasoning, "hm hm");
  EXPECT_EQ(name, "f");
  EXPECT_EQ(arguments, "{\"a\": 1}");
  EXPECT_EQ(finish, "tool_calls");
}

TEST(Answer, OnlyCallsHaveNoContent) {
  AnswerOptions o = options(true, false);
  o.tools = ToolFormat::kHermes;
  const auto answer = make_answer(o, standin_tokenizer());
  play(answer.get(), {"<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>"});
  EXPECT_EQ(json::parse(answer->whole())["choices"][0]["message"]["content"], nullptr);
}

TEST(Answer, ChatLogprobs) {
  for (const bool stream : {false, true}) {
    AnswerOptions o = options(true, stream);
    o.logprobs = true;
    const auto answer = make_answer(o, standin_tokenizer());
    play(answer.get(), {"a"});
    const json choice =
        stream ? chunks(answer->take_stream())[1]["choices"][0] : json::parse(answer->whole())["choices"][0];
    const json entry = choice["logprobs"]["content"][0];
    EXPECT_EQ(entry["token"], std::string(standin_tokenizer().piece(50)));
    EXPECT_EQ(entry["bytes"][0], standin_tokenizer().piece(50)[0]);
    EXPECT_EQ(entry["logprob"], -0.5);
    EXPECT_EQ(entry["top_logprobs"].size(), 1u);
  }
}

TEST(Answer, CompletionLogprobsEchoAndOffsets) {
  AnswerOptions o = options(false, false);
  o.logprobs = o.echo = true;
  o.top_logprobs = 1;
  const auto answer = make_answer(o, standin_tokenizer());
  const std::vector<PromptLogprob> prompt = {{-1.5f, {{7, -0.25f}}}};
  answer->on_prompt(0, {}, prompt);
  answer->on_token(0, {.token = 50, .text = "S", .logprob = -INFINITY, .top = {}});
  answer->on_choice_end(0, {.reason = FinishReason::kLength});
  const json choice = json::parse(answer->whole())["choices"][0];
  EXPECT_EQ(choice["text"], "IJS");
  EXPECT_EQ(choice["finish_reason"], "length");
  const json& logprobs = choice["logprobs"];
  EXPECT_EQ(logprobs["token_logprobs"], json({nullptr, -1.5, -9999.0}));
  EXPECT_EQ(logprobs["text_offset"], json({0, 1, 2}));
  EXPECT_EQ(logprobs["top_logprobs"][0], nullptr);
  EXPECT_EQ(logprobs["top_logprobs"][1].size(), 2u);
  EXPECT_EQ(logprobs["tokens"].size(), 3u);
}

TEST(Answer, PromptLogprobsAsInVllm) {
  AnswerOptions o = options(true, false);
  o.prompt_logprobs = 2;
  const auto answer = make_answer(o, standin_tokenizer());
  const std::vector<PromptLogprob> prompt = {{-1.5f, {{7, -0.25f}, {41, -1.5f}}}};
  answer->on_prompt(0, {}, prompt);
  answer->on_choice_end(0, {});
  const json list = json::parse(answer->whole())["prompt_logprobs"];
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0], nullptr);
  EXPECT_EQ(list[1]["7"]["rank"], 1);
  EXPECT_EQ(list[1]["41"]["rank"], 2);
  EXPECT_EQ(list[1]["41"]["logprob"], -1.5);
}

// The engine has computed the larger of the two numbers: each list shows its own.
TEST(Answer, EchoAndPromptLogprobsHaveNumbersOfTheirOwn) {
  const std::vector<PromptLogprob> prompt = {{-1.5f, {{7, -0.25f}, {8, -0.5f}, {9, -0.75f}}}};
  const auto shown = [&](int top, int of_prompt) {
    AnswerOptions o = options(false, false);
    o.logprobs = o.echo = true;
    o.top_logprobs = top;
    o.prompt_logprobs = of_prompt;
    const auto answer = make_answer(o, standin_tokenizer());
    answer->on_prompt(0, {}, prompt);
    answer->on_choice_end(0, {.reason = FinishReason::kLength});
    return json::parse(answer->whole())["choices"][0];
  };
  const json more_of_prompt = shown(1, 3);
  EXPECT_EQ(more_of_prompt["logprobs"]["top_logprobs"][1].size(), 2u);  // and the token itself
  EXPECT_EQ(more_of_prompt["prompt_logprobs"][1].size(), 4u);
  const json more_of_echo = shown(3, 1);
  EXPECT_EQ(more_of_echo["logprobs"]["top_logprobs"][1].size(), 4u);
  EXPECT_EQ(more_of_echo["prompt_logprobs"][1].size(), 2u);
  EXPECT_FALSE(shown(1, -1).contains("prompt_logprobs"));
}

TEST(Answer, TokenIdsOfPromptAndAnswer) {
  AnswerOptions o = options(true, true);
  o.return_token_ids = true;
  const auto chat = make_answer(o, standin_tokenizer());
  play(chat.get(), {"a", "b"});
  const auto events = chunks(chat->take_stream());
  EXPECT_EQ(events[0]["prompt_token_ids"], json({40, 41}));
  EXPECT_EQ(events[1]["choices"][0]["token_ids"], json({50}));
  EXPECT_EQ(events[2]["choices"][0]["token_ids"], json({51}));
  EXPECT_FALSE(events[1].contains("prompt_token_ids"));
  o = options(false, false);
  o.return_token_ids = true;
  const auto completion = make_answer(o, standin_tokenizer());
  play(completion.get(), {"a", "b"});
  const json choice = json::parse(completion->whole())["choices"][0];
  EXPECT_EQ(choice["prompt_token_ids"], json({40, 41}));
  EXPECT_EQ(choice["token_ids"], json({50, 51}));
}

TEST(Answer, UsageWhereItIsAskedFor) {
  AnswerOptions o = options(false, true);
  o.include_usage = o.continuous_usage = true;
  const auto answer = make_answer(o, standin_tokenizer());
  play(answer.get(), {"a", "b"});
  const auto events = chunks(answer->finish_stream());
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[0]["usage"]["completion_tokens"], 1);
  EXPECT_EQ(events[1]["usage"]["completion_tokens"], 2);
  EXPECT_EQ(events[3]["choices"], json::array());
  EXPECT_EQ(events[3]["usage"], json({{"prompt_tokens", 2},
                                      {"completion_tokens", 2},
                                      {"total_tokens", 4},
                                      {"prompt_tokens_details", {{"cached_tokens", 1}}}}));
}

TEST(Answer, SaysWhatStoppedIt) {
  AnswerOptions o = options(true, false);
  o.stops = {"x", "END"};
  const auto by_text = make_answer(o, standin_tokenizer());
  play(by_text.get(), {"a"}, {.text = "tail", .stop_text = 1});
  const json choice = json::parse(by_text->whole())["choices"][0];
  EXPECT_EQ(choice["stop_reason"], "END");
  EXPECT_EQ(choice["finish_reason"], "stop");
  EXPECT_EQ(choice["message"]["content"], "atail");
  const auto by_token = make_answer(o, standin_tokenizer());
  play(by_token.get(), {"a"}, {.stop_token = 9});
  EXPECT_EQ(json::parse(by_token->whole())["choices"][0]["stop_reason"], 9);
}

TEST(Answer, StringsOfAnyBytesAreJson) {
  for (const std::string text : {"a\"b\\c\n\x01", "é🙂", "\xff\xfe"}) {
    std::string out;
    append_json_string(out, text);
    EXPECT_TRUE(json::accept(out)) << out;
  }
}

}  // namespace
}  // namespace dspark
