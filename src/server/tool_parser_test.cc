// Tests of tool_parser.h and reasoning.h: the formats that models document, whole and in pieces of every size.
#include "server/tool_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "server/reasoning.h"

namespace dspark {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

struct Call {
  std::string id, name, arguments;
  bool operator==(const Call&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Call& call) {
  return out << call.id << " " << call.name << "(" << call.arguments << ")";
}

struct Found {
  std::string content;
  std::vector<Call> calls;
};

void add(Found* found, const ToolParts& parts) {
  found->content += parts.content;
  for (const ToolDelta& delta : parts.calls) {
    if (!delta.id.empty()) {
      EXPECT_EQ(delta.index, static_cast<int>(found->calls.size()));
      found->calls.push_back({delta.id, delta.name, ""});
    }
    ASSERT_LT(static_cast<size_t>(delta.index), found->calls.size()) << "arguments before the call";
    found->calls[static_cast<size_t>(delta.index)].arguments += delta.arguments;
  }
}

Found parse(ToolFormat format, std::string_view text, size_t piece) {
  const auto parser = make_tool_parser(format, "c");
  Found found;
  for (size_t i = 0; i < text.size(); i += piece) add(&found, parser->push(text.substr(i, piece)));
  add(&found, parser->finish());
  return found;
}

// The same whatever the pieces.
Found parse(ToolFormat format, std::string_view text) {
  const Found whole = parse(format, text, text.size() + 1);
  for (const size_t piece : {1, 2, 3, 7}) {
    const Found found = parse(format, text, piece);
    EXPECT_EQ(found.content, whole.content) << "in pieces of " << piece;
    EXPECT_EQ(found.calls, whole.calls) << "in pieces of " << piece;
  }
  return whole;
}

TEST(ToolParser, Hermes) {
  // As Qwen3's template prints calls.
  const auto found =
      parse(ToolFormat::kHermes,
            "I will look.\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Köln \\\"}{\\\"\", "
            "\"days\": [1, 2]}}\n</tool_call>\n<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>\n");
  EXPECT_EQ(found.content, "I will look.\n");
  EXPECT_THAT(found.calls, ElementsAre(Call{"c0", "get_weather", R"({"city": "Köln \"}{\"", "days": [1, 2]})"},
                                       Call{"c1", "now", "{}"}));
}

TEST(ToolParser, HermesWithKeysInAnotherOrderOrArgumentsAsAString) {
  EXPECT_THAT(parse(ToolFormat::kHermes, R"(<tool_call>{"arguments": {"a": 1}, "name": "f"}</tool_call>)").calls,
              ElementsAre(Call{"c0", "f", R"({"a": 1})"}));
  EXPECT_THAT(parse(ToolFormat::kHermes, R"(<tool_call>{"name": "f", "arguments": "{\"a\": 1}"}</tool_call>)").calls,
              ElementsAre(Call{"c0", "f", R"({"a": 1})"}));
  EXPECT_THAT(parse(ToolFormat::kHermes, R"(<tool_call>{"name": "f", "x": 12}</tool_call>)").calls,
              ElementsAre(Call{"c0", "f", "{}"}));
  for (const char* nothing : {"null", "null ", R"("")"}) {
    const auto text = fmt::format(R"(<tool_call>{{"name": "f", "arguments": {}}}</tool_call>)", nothing);
    EXPECT_THAT(parse(ToolFormat::kHermes, text).calls, ElementsAre(Call{"c0", "f", "{}"})) << text;
  }
}

TEST(ToolParser, HermesThatIsNoCallStaysContent) {
  for (const char* text : {"<tool_call>get_weather</tool_call>", "a <tool_call", "a < b", "<tool_call>{\"name\": 3}",
                           "<tool_call>{\"name\": \"f\"", "<tool_call>{\"a\": 1}</tool_call>!"}) {
    const auto found = parse(ToolFormat::kHermes, text);
    EXPECT_EQ(found.content, text);
    EXPECT_THAT(found.calls, IsEmpty()) << text;
  }
}

TEST(ToolParser, TextBehindAHermesCall) {
  const auto found = parse(ToolFormat::kHermes, "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>\n Done.");
  EXPECT_EQ(found.content, "\n Done.");
  EXPECT_EQ(found.calls.size(), 1u);
}

TEST(ToolParser, Llama3) {
  const auto found =
      parse(ToolFormat::kLlama3,
            R"({"name": "f", "parameters": {"a": "x;y"}}; {"type": "function", "name": "g", "parameters": {}})");
  EXPECT_EQ(found.content, "");
  EXPECT_THAT(found.calls, ElementsAre(Call{"c0", "f", R"({"a": "x;y"})"}, Call{"c1", "g", "{}"}));
  EXPECT_THAT(parse(ToolFormat::kLlama3, R"(<|python_tag|>{"name": "f", "parameters": {}})").calls,
              ElementsAre(Call{"c0", "f", "{}"}));
}

TEST(ToolParser, Llama3ThatIsNoCallStaysContent) {
  for (const char* text :
       {"Hello", R"({"name": "Bob", "age": 3})", R"({"name": "Bob"} said)", "<|python", "{", " {x}", " {\"a"}) {
    const auto found = parse(ToolFormat::kLlama3, text);
    EXPECT_EQ(found.content, text);
    EXPECT_THAT(found.calls, IsEmpty()) << text;
  }
}

TEST(ToolParser, DeepSeek) {
  // V3 and R1, then V3.1, as their templates print calls.
  const auto old =
      parse(ToolFormat::kDeepSeek,
            "Ok.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"a\": \"`\"}\n```"
            "<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>g\n```json\n{}\n```<｜tool▁call▁end｜>"
            "<｜tool▁calls▁end｜>");
  EXPECT_EQ(old.content, "Ok.");
  EXPECT_THAT(old.calls, ElementsAre(Call{"c0", "f", R"({"a": "`"})"}, Call{"c1", "g", "{}"}));
  const auto found = parse(ToolFormat::kDeepSeek,
                           "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\": 1}<｜tool▁call▁end｜>"
                           "<｜tool▁calls▁end｜>");
  EXPECT_EQ(found.content, "");
  EXPECT_THAT(found.calls, ElementsAre(Call{"c0", "f", R"({"a": 1})"}));
}

TEST(ToolParser, DeepSeekCallsHaveNamesAndArguments) {
  const auto call = [](std::string_view text) {
    return parse(ToolFormat::kDeepSeek,
                 fmt::format("<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
                             text))
        .calls;
  };
  EXPECT_THAT(call("f<｜tool▁sep｜>"), ElementsAre(Call{"c0", "f", "{}"}));
  EXPECT_THAT(call("function<｜tool▁sep｜>f\n```json\n```"), ElementsAre(Call{"c0", "f", "{}"}));
  EXPECT_THAT(call(" <｜tool▁sep｜>{}"), IsEmpty());
  EXPECT_THAT(call("function<｜tool▁sep｜> \n```json\n{}\n```"), IsEmpty());
}

// Whatever a model writes: pieces do not matter, and what is told as a call has a name and an id of its own.
TEST(ToolParser, AnyTextGivesTheSameInAnyPieces) {
  const std::vector<std::string> words = {"<tool_call>",
                                          "</tool_call>",
                                          "<tool_call",
                                          "<|python_tag|>",
                                          "<｜tool▁calls▁begin｜>",
                                          "<｜tool▁calls▁end｜>",
                                          "<｜tool▁call▁begin｜>",
                                          "<｜tool▁call▁end｜>",
                                          "<｜tool▁sep｜>",
                                          "function",
                                          "```json",
                                          "```",
                                          "{",
                                          "}",
                                          "[",
                                          "]",
                                          "\"",
                                          "\\",
                                          ":",
                                          ",",
                                          ";",
                                          " ",
                                          "\n",
                                          "\"name\"",
                                          "\"arguments\"",
                                          "\"parameters\"",
                                          "{\"name\": \"f\", \"arguments\": ",
                                          "{\"a\": 1}",
                                          "null",
                                          "f",
                                          "é"};
  std::mt19937 random(7);
  for (const auto format : {ToolFormat::kHermes, ToolFormat::kLlama3, ToolFormat::kDeepSeek}) {
    for (int round = 0; round < 3000; ++round) {
      std::string text;
      for (size_t n = random() % 24; n > 0; --n) text += words[random() % words.size()];
      SCOPED_TRACE(text);
      const Found found = parse(format, text);
      for (size_t i = 0; i < found.calls.size(); ++i) {
        EXPECT_FALSE(found.calls[i].name.empty());
        EXPECT_EQ(found.calls[i].id, fmt::format("c{}", i));
      }
      if (HasFailure()) return;
    }
  }
}

std::pair<std::string, std::string> split(std::string_view text, bool inside, size_t piece) {
  ReasoningSplitter splitter(inside);
  std::pair<std::string, std::string> out;
  const auto take = [&](const ReasoningSplitter::Parts& parts) {
    out.first += parts.reasoning;
    out.second += parts.content;
  };
  for (size_t i = 0; i < text.size(); i += piece) take(splitter.push(text.substr(i, piece)));
  take(splitter.finish());
  return out;
}

TEST(ReasoningSplitter, PartsThinkingFromContent) {
  const struct {
    const char* text;
    bool inside;
    const char* reasoning;
    const char* content;
  } rows[] = {{"<think>\na <b> \n\nc\n</think>\n\nSo.\n", false, "a <b> \n\nc", "So.\n"},
              {"Hm\n</think>\nSo", true, "Hm", "So"},
              {"never ends", true, "never ends", ""},
              {"<think>never ends", false, "never ends", ""},
              {"  <think></think>x", false, "", "x"},
              {"No thoughts.</think>", false, "", "No thoughts.</think>"},
              {" <thin", false, "", " <thin"},
              {"a<think>b</think>", false, "", "a<think>b</think>"}};
  for (const auto& row : rows) {
    for (const size_t piece : {1, 2, 5, 100}) {
      EXPECT_EQ(split(row.text, row.inside, piece), std::pair(std::string(row.reasoning), std::string(row.content)))
          << row.text << " in pieces of " << piece;
    }
  }
}

TEST(ReasoningSplitter, KnowsPromptsThatOpenThinking) {
  EXPECT_TRUE(ends_in_thinking("<|assistant|>\n<think>\n"));
  EXPECT_FALSE(ends_in_thinking("<think>\n\n</think>\n\n"));
  EXPECT_FALSE(ends_in_thinking(""));
}

}  // namespace
}  // namespace dspark
