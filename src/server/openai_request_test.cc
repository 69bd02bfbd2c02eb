// Tests of openai_request.h and the schema behind it: defaults, ranges, and what is said about bad values.
#include "server/openai_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace dspark {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr ApiLimits kLimits{.vocab = 1000, .max_choices = 8, .max_prompts = 4};

json chat(json more = json::object()) {
  json body = {{"messages", {{{"role", "user"}, {"content", "Hi"}}}}};
  body.update(more);
  return body;
}
json completion(json more = json::object()) {
  json body = {{"prompt", "Hi"}};
  body.update(more);
  return body;
}

GenerationCall good(const Parsed<GenerationCall>& parsed) {
  const auto* error = std::get_if<ApiError>(&parsed);
  EXPECT_EQ(error, nullptr) << error->message;
  return error != nullptr ? GenerationCall{} : std::get<GenerationCall>(parsed);
}
ApiError bad(const Parsed<GenerationCall>& parsed) {
  const auto* error = std::get_if<ApiError>(&parsed);
  return error != nullptr ? *error : ApiError{.status = 200, .message = "no error"};
}
GenerationCall good_chat(json more = json::object()) { return good(parse_chat(chat(std::move(more)).dump(), kLimits)); }
ApiError bad_chat(json more) { return bad(parse_chat(chat(std::move(more)).dump(), kLimits)); }
ApiError bad_completion(json more) { return bad(parse_completions(completion(std::move(more)).dump(), kLimits)); }

TEST(RequestSchema, EveryRowIsConsistent) {
  for (const FieldSpec& field : request_fields()) {
    EXPECT_NE(field.where, 0) << field.name;
    EXPECT_LE(field.min, field.max) << field.name;
    EXPECT_EQ(field.use == FieldUse::kRefused, !field.neutral.empty()) << field.name;
    if (!field.neutral.empty()) EXPECT_TRUE(json::accept(field.neutral)) << field.name;
    for (const FieldSpec& other : request_fields()) {
      EXPECT_FALSE(&field != &other && field.name == other.name && (field.where & other.where) != 0) << field.name;
    }
  }
}

TEST(OpenAiRequest, DefaultsAreOpenAis) {
  const GenerationCall call = good_chat();
  EXPECT_TRUE(call.chat);
  EXPECT_EQ(call.request.sampling.temperature, 1.0);
  EXPECT_EQ(call.request.sampling.top_p, 1.0);
  EXPECT_EQ(call.request.choices, 1);
  EXPECT_EQ(call.request.max_tokens, 0);  // not given
  EXPECT_EQ(call.request.sampling.logprobs, -1);
  EXPECT_FALSE(call.seed);
  EXPECT_FALSE(call.stream);
  EXPECT_EQ(good(parse_completions(completion().dump(), kLimits)).request.max_tokens, 16);
}

TEST(OpenAiRequest, EveryFieldArrives) {
  const GenerationCall call =
      good_chat({{"temperature", 0.5},
                 {"top_p", 0.9},
                 {"top_k", 40},
                 {"min_p", 0.1},
                 {"repeat_penalty", 1.2},
                 {"presence_penalty", -1},
                 {"frequency_penalty", 2},
                 {"logit_bias", {{"17", -100}, {"3", 2.5}}},
                 {"seq_seed", 18446744073709551615u},
                 {"stop", {"a", "b"}},
                 {"stop_token_ids", {5, 999}},
                 {"ignore_eos", true},
                 {"min_tokens", 2},
                 {"max_completion_tokens", 9},
                 {"max_tokens", 50},
                 {"n", 3},
                 {"logprobs", true},
                 {"top_logprobs", 4},
                 {"stream", true},
                 {"stream_options", {{"include_usage", true}, {"continuous_usage_stats", true}}},
                 {"return_token_ids", true},
                 {"metadata", {{"task", "code"}}},
                 {"cache_salt", "s"},
                 {"priority", 2},
                 {"timeout", 1.5},
                 {"include_stop_str_in_output", true},
                 {"user", "u"},
                 {"whatever", 1},
                 {"top_k", 40}});
  const SamplingParams& sampling = call.request.sampling;
  EXPECT_EQ(sampling.temperature, 0.5);
  EXPECT_EQ(sampling.top_k, 40);
  EXPECT_EQ(sampling.min_p, 0.1);
  EXPECT_EQ(sampling.repetition_penalty, 1.2);
  EXPECT_EQ(sampling.presence_penalty, -1);
  EXPECT_EQ(sampling.frequency_penalty, 2);
  EXPECT_THAT(sampling.logit_bias, ElementsAre(std::pair(17, -100.0f), std::pair(3, 2.5f)));
  EXPECT_EQ(call.seed, std::numeric_limits<uint64_t>::max());
  EXPECT_THAT(call.request.stop, ElementsAre("a", "b"));
  EXPECT_THAT(sampling.stop_token_ids, ElementsAre(5, 999));
  EXPECT_TRUE(sampling.ignore_eos);
  EXPECT_EQ(sampling.min_tokens, 2);
  EXPECT_EQ(call.request.max_tokens, 9);
  EXPECT_EQ(call.request.choices, 3);
  EXPECT_EQ(sampling.logprobs, 4);
  EXPECT_TRUE(call.stream && call.include_usage && call.continuous_usage && call.return_token_ids);
  EXPECT_EQ(call.task, "code");
  EXPECT_EQ(call.request.cache_salt, "s");
  EXPECT_EQ(call.request.priority, -2);
  EXPECT_EQ(call.timeout_s, 1.5);
  EXPECT_TRUE(call.request.include_stop_text);
  EXPECT_THAT(call.ignored, testing::UnorderedElementsAre("user", "whatever"));
}

TEST(OpenAiRequest, BadValuesNameFieldValueAndWhatIsAllowed) {
  const struct {
    json more;
    const char* param;
    const char* message;
  } rows[] = {
      {{{"temperature", -1}}, "temperature", "temperature: found -1, expected a number from 0 to 1000"},
      {{{"temperature", "hot"}}, "temperature", "found \"hot\", expected a number"},
      {{{"top_p", 1.5}}, "top_p", "found 1.5, expected a number from 0 to 1"},
      {{{"max_tokens", 0}}, "max_tokens", "found 0, expected an integer from 1"},
      {{{"max_tokens", 2.5}}, "max_tokens", "found 2.5, expected an integer"},
      {{{"n", 9}}, "n", "found 9, expected an integer from 1 to 8"},
      {{{"n", 5000}}, "n", "found 5000, expected an integer from 1 to 8"},
      {{{"n", 0}}, "n", "found 0, expected an integer from 1 to 8"},
      {{{"seed", -2}}, "seed", "found -2, expected an integer from -1 to 18446744073709551615"},
      {{{"seed", 1}, {"seq_seed", 2}}, "seq_seed", "found 2, expected the value of seed"},
      {{{"repetition_penalty", 1.1}, {"repeat_penalty", 1.2}}, "repeat_penalty", "the value of repetition_penalty"},
      {{{"stop", ""}}, "stop", "expected a string or a list of at most 64"},
      {{{"stop", {"a", 1}}}, "stop[1]", "found 1, expected a string of 1 to 1024 bytes"},
      {{{"metadata", {{"task", 5}}}}, "metadata.task", "found 5, expected a string"},
      {{{"stop_token_ids", {1000}}}, "stop_token_ids[0]", "found 1000, expected a token from 0 to 999"},
      {{{"logit_bias", {{"x", 1}}}}, "logit_bias", "found \"x\", expected as keys tokens from 0 to 999"},
      {{{"logit_bias", {{"1", 101}}}}, "logit_bias.1", "found 101, expected a number from -100 to 100"},
      {{{"top_logprobs", 2}}, "top_logprobs", "nothing where logprobs is not true"},
      {{{"logprobs", true}, {"top_logprobs", 21}}, "top_logprobs", "from 0 to 20"},
      {{{"stream_options", {{"include_usage", true}}}}, "stream_options", "nothing where stream is not true"},
      {{{"stream", true}, {"prompt_logprobs", 1}}, "prompt_logprobs", "nothing where stream is true"},
      {{{"response_format", {{"type", "json_object"}}}},
       "response_format",
       "expected {\"type\":\"text\"}; anything else"},
      {{{"guided_json", {{"type", "object"}}}}, "guided_json", "not supported"},
      {{{"tool_choice", "required"}}, "tool_choice", "expected \"auto\" or \"none\""},
      {{{"tools", {{{"type", "x"}}}}}, "tools[0].type", "expected \"function\""},
      {{{"tools", {{{"type", "function"}, {"function", {{"name", "f"}, {"strict", true}}}}}}},
       "tools[0].function.strict",
       "found true, expected false; arguments are not held"},
      {{{"user", 7}}, "user", "found 7, expected a string"},
      {{{"messages", json::array()}}, "messages", "found a list of 0"},
      {{{"messages", {{{"role", "boss"}, {"content", ""}}}}},
       "messages[0].role",
       "found \"boss\", expected one of system"},
      {{{"messages", {{{"role", "user"}}}}}, "messages[0].content", "found nothing"},
      {{{"messages", {{{"role", "user"}, {"content", {{{"type", "image_url"}}}}}}}},
       "messages[0].content[0].type",
       "found \"image_url\", expected \"text\""},
      {{{"min_tokens", 5}, {"max_tokens", 4}}, "min_tokens", "at most max_tokens, which is 4"},
      {{{"timeout", 0}}, "timeout", "found 0"},
  };
  for (const auto& row : rows) {
    const ApiError error = bad_chat(row.more);
    EXPECT_EQ(error.status, 400) << row.more;
    EXPECT_EQ(error.param, row.param) << row.more;
    EXPECT_THAT(error.message, HasSubstr(row.message));
  }
}

TEST(OpenAiRequest, NeutralValuesOfUnsupportedFieldsPass) {
  good_chat({{"response_format", {{"type", "text"}}},
             {"guided_json", nullptr},
             {"length_penalty", 1},
             {"modalities", {"text"}}});
  good_chat({{"n_predict", -1},
             {"typical_p", 1},
             {"top_n_sigma", -1},
             {"xtc_probability", 0},
             {"xtc_threshold", 0.1},  // of a sampler that is off
             {"dry_multiplier", 0.0},
             {"dry_base", 1.75},
             {"lora", json::array()},
             {"add_special_tokens", false}});
  EXPECT_EQ(bad_completion({{"best_of", 2}}).param, "best_of");
  EXPECT_EQ(bad_completion({{"suffix", "x"}}).param, "suffix");
}

// What llama-server and vLLM would do otherwise must not be passed over in silence.
TEST(OpenAiRequest, FieldsOfOtherServersThatChangeAnswersAreRefused) {
  const json rows = {{"n_predict", 5},
                     {"n_cmpl", 2},
                     {"samplers", {"top_k"}},
                     {"typical_p", 0.9},
                     {"top_n_sigma", 1},
                     {"xtc_probability", 0.5},
                     {"dry_multiplier", 0.8},
                     {"dynatemp_range", 0.5},
                     {"adaptive_target", 0.5},
                     {"t_max_predict_ms", 100},
                     {"min_keep", 3},
                     {"n_indent", 2},
                     {"lora", {{{"id", 0}}}},
                     {"structural_tag", "x"},
                     {"thinking_token_budget", 100},
                     {"add_special_tokens", true}};
  for (const auto& [name, value] : rows.items()) {
    const ApiError error = bad_chat({{name, value}});
    EXPECT_EQ(error.code, "unsupported_parameter") << name;
    EXPECT_EQ(error.param, name);
  }
  EXPECT_EQ(bad_completion({{"prompt_embeds", "AAAA"}}).param, "prompt_embeds");
  EXPECT_EQ(good_chat({{"repeat_last_n", 64}}).request.sampling.repetition_window, 64);
  EXPECT_EQ(good_chat().request.sampling.repetition_window, -1);
}

// Every field at every endpoint, of every type: an answer or an error, never an exception.
TEST(OpenAiRequest, NoFieldOfAnyTypeThrows) {
  const json values[] = {nullptr,
                         true,
                         -1,
                         1,
                         1e300,
                         18446744073709551615u,
                         "text",
                         "",
                         json::array(),
                         {1, "a", nullptr},
                         {{1}, {"a"}},
                         json::object(),
                         {{"a", 1}},
                         {{"role", 1}},
                         {{"type", "text"}, {"text", 1}}};
  std::set<std::string> names = {"unknown"};
  for (const FieldSpec& spec : request_fields()) names.insert(std::string(spec.name));
  for (const std::string& name : names) {
    for (const json& value : values) {
      json body = {
          {"messages", {{{"role", "user"}, {"content", "a"}}}}, {"prompt", "a"}, {"input", "a"}, {"tokens", {1}}};
      body[name] = value;
      const std::string text = body.dump();
      EXPECT_NO_THROW({
        parse_chat(text, kLimits);
        parse_completions(text, kLimits);
        parse_embeddings(text, kLimits);
        parse_tokenize(text, Endpoint::kTokenize, kLimits);
        parse_tokenize(text, Endpoint::kApplyTemplate, kLimits);
        parse_detokenize(text, kLimits);
      }) << name
         << " = " << value;
    }
  }
}

TEST(OpenAiRequest, SpeculationBoundsTheDrafts) {
  EXPECT_EQ(good_chat().request.draft_tokens, -1);
  const auto drafts = [](json options) {
    return good_chat({{"speculation", std::move(options)}}).request.draft_tokens;
  };
  EXPECT_EQ(drafts(json::object()), -1);
  EXPECT_EQ(drafts({{"enabled", true}}), -1);
  EXPECT_EQ(drafts({{"enabled", false}}), 0);
  EXPECT_EQ(drafts({{"max_tokens", 5}}), 5);
  EXPECT_EQ(drafts({{"max_tokens", 0}}), 0);
  EXPECT_EQ(drafts({{"enabled", false}, {"max_tokens", 5}}), 0);
  EXPECT_EQ(drafts({{"enabled", nullptr}, {"max_tokens", nullptr}}), -1);
  EXPECT_THAT(good_chat({{"speculation", {{"enabled", true}, {"enabeld", false}}}}).ignored,
              testing::ElementsAre("speculation.enabeld"));
  const auto complaint = [](json options) { return bad_chat({{"speculation", std::move(options)}}).message; };
  EXPECT_THAT(complaint(true), HasSubstr("speculation"));
  EXPECT_THAT(complaint({{"enabled", 1}}), HasSubstr("speculation.enabled"));
  EXPECT_THAT(complaint({{"max_tokens", 17}}), HasSubstr("an integer from 0 to 16"));
  EXPECT_THAT(complaint({{"max_tokens", -1}}), HasSubstr("an integer from 0 to 16"));
  EXPECT_THAT(complaint({{"max_tokens", 1.5}}), HasSubstr("an integer from 0 to 16"));
  EXPECT_THAT(complaint({{"max_tokens", 18446744073709551615u}}), HasSubstr("speculation.max_tokens"));
}

TEST(OpenAiRequest, PromptsComeInFourForms) {
  const auto count = [](json prompt) {
    const auto call = good(parse_completions(json({{"prompt", std::move(prompt)}}).dump(), kLimits));
    return std::pair(call.prompts.size(), call.prompts.empty() ? size_t{9} : call.prompts[0].index());
  };
  EXPECT_EQ(count("a"), std::pair(size_t{1}, size_t{0}));
  EXPECT_EQ(count({"a", "b"}), std::pair(size_t{2}, size_t{0}));
  EXPECT_EQ(count({1, 2, 3}), std::pair(size_t{1}, size_t{1}));
  EXPECT_EQ(count({{1, 2}, {3}}), std::pair(size_t{2}, size_t{1}));
  EXPECT_EQ(bad_completion({{"prompt", {1, "a"}}}).param, "prompt[1]");
  EXPECT_EQ(bad_completion({{"prompt", {1, -1}}}).param, "prompt[1]");
  EXPECT_EQ(bad_completion({{"prompt", json::array()}}).param, "prompt");
  EXPECT_THAT(bad_completion({{"prompt", {"a", "b", "c", "d", "e"}}}).message, HasSubstr("at most 4 prompts"));
  EXPECT_THAT(bad_completion({{"prompt", {"a", "b", "c"}}, {"n", 3}}).message, HasSubstr("at most 8 answers in all"));
}

TEST(OpenAiRequest, EchoMayStandAlone) {
  const auto call =
      good(parse_completions(completion({{"max_tokens", 0}, {"echo", true}, {"logprobs", 2}}).dump(), kLimits));
  EXPECT_TRUE(call.only_echo);
  EXPECT_EQ(call.request.max_tokens, 1);
  EXPECT_EQ(call.request.prompt_logprobs, 2);
  EXPECT_EQ(call.prompt_logprobs, -1);  // the echo shows them
  EXPECT_EQ(bad_completion({{"max_tokens", 0}}).param, "max_tokens");
}

TEST(OpenAiRequest, MessagesBecomeWhatTemplatesExpect) {
  const auto call = good_chat(
      {{"messages",
        {{{"role", "developer"}, {"content", "d"}},
         {{"role", "assistant"},
          {"content", nullptr},
          {"tool_calls", {{{"id", "x"}, {"function", {{"name", "f"}, {"arguments", R"({"b": 1, "a": 2})"}}}}}}},
         {{"role", "tool"}, {"tool_call_id", "x"}, {"content", {{{"type", "text"}, {"text", "r"}}}}}}}});
  const auto& messages = call.conversation.messages;
  EXPECT_EQ(messages[0]["role"], "system");
  EXPECT_EQ(messages[1]["content"], "");
  EXPECT_EQ(messages[1]["tool_calls"][0]["function"]["arguments"].dump(), R"({"b":1,"a":2})");  // the order is kept
  EXPECT_EQ(
      bad_chat({{"messages",
                 {{{"role", "assistant"}, {"tool_calls", {{{"function", {{"name", "f"}, {"arguments", "[1]"}}}}}}}}}})
          .param,
      "messages[0].tool_calls[0].function.arguments");
}

TEST(OpenAiRequest, ToolsAreRenderedUnlessNoneMayBeCalled) {
  const json tools = {{{"type", "function"}, {"function", {{"name", "f"}, {"parameters", {{"type", "object"}}}}}}};
  EXPECT_TRUE(good_chat({{"tools", tools}}).parse_tools);
  const auto none = good_chat({{"tools", tools}, {"tool_choice", "none"}});
  EXPECT_FALSE(none.parse_tools);
  EXPECT_TRUE(none.conversation.tools.is_null());
}

TEST(OpenAiRequest, BodiesThatAreNoObjects) {
  for (const char* body : {"", "3", "[]", "{", "{}x", "{\"a\":1,\"a\":2}", "\xff"}) {
    const ApiError error = bad(parse_chat(body, kLimits));
    EXPECT_EQ(error.status, 400) << body;
    EXPECT_EQ(error.code, "invalid_json") << body;
  }
  EXPECT_EQ(bad(parse_chat("{}", kLimits)).param, "messages");
}

TEST(OpenAiRequest, Embeddings) {
  const auto parsed =
      parse_embeddings(R"({"input": [[1], [2, 3]], "encoding_format": "base64", "pooling": "last"})", kLimits);
  const auto& call = std::get<EmbeddingCall>(parsed);
  EXPECT_EQ(call.inputs.size(), 2u);
  EXPECT_TRUE(call.base64);
  EXPECT_TRUE(call.add_special_tokens);
  EXPECT_FALSE(std::get<EmbeddingCall>(parse_embeddings(R"({"input": "a", "add_special_tokens": false})", kLimits))
                   .add_special_tokens);
  EXPECT_EQ(call.request.pooling, Pooling::kLast);
  EXPECT_THAT(std::get<ApiError>(parse_embeddings(R"({"input": "a", "pooling": "max"})", kLimits)).message,
              HasSubstr("expected one of mean, last"));
}

}  // namespace
}  // namespace dspark
