// Chat templates against what jinja2 made of the same templates and conversations (scripts/goldens/templates.py), and
// what ChatTemplate adds.
#include "text/chat_template.h"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dspark {
namespace {

using nlohmann::ordered_json;
using testing::HasSubstr;

const std::filesystem::path kTemplates = std::filesystem::path(DSPARK_TEST_DATA) / "templates";

std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

ordered_json read_json(const std::filesystem::path& path) { return ordered_json::parse(read_text(path)); }

ChatTemplate parse_or_die(std::string_view source) {
  auto result = ChatTemplate::parse(source);
  EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message);
  return *std::move(result);
}

// The scripts' clock: Friday, 4 July 2025, 15:05:09.
std::tm golden_time() {
  std::tm time{};
  time.tm_year = 125, time.tm_mon = 6, time.tm_mday = 4, time.tm_hour = 15, time.tm_min = 5, time.tm_sec = 9;
  time.tm_wday = 5, time.tm_yday = 184;
  return time;
}

ChatInput user_says(const char* content) {
  ChatInput input;
  input.messages.push_back(ordered_json{{"role", "user"}, {"content", content}});
  input.now = golden_time;
  return input;
}

TEST(ChatTemplateTest, ModelFamiliesEqualJinja2) {
  const ordered_json data = read_json(kTemplates / "conversations.json");
  size_t templates = 0;
  for (const auto& file : std::filesystem::directory_iterator(kTemplates)) {
    if (file.path().extension() != ".jinja") continue;
    ++templates;
    const ChatTemplate chat_template = parse_or_die(read_text(file.path()));
    for (const auto& golden : read_json(kTemplates / "expected" / (file.path().stem().string() + ".json"))) {
      SCOPED_TRACE(file.path().stem().string() + " with " + golden["conversation"].get<std::string>());
      ChatInput input;
      input.messages = data["conversations"][golden["conversation"].get<std::string>()];
      if (golden["tools"].get<bool>()) input.tools = data["tools"];
      input.add_generation_prompt = golden["generation"].get<bool>();
      input.bos_token = "<s>";
      input.eos_token = "</s>";
      input.extra = golden["extra"];
      input.now = golden_time;
      const auto prompt = chat_template.render(input);
      if (golden.contains("text")) {
        ASSERT_TRUE(prompt.ok()) << prompt.error().message;
        EXPECT_EQ(*prompt, golden["text"].get<std::string>());
      } else {
        ASSERT_FALSE(prompt.ok()) << *prompt;
        EXPECT_EQ(prompt.error().message, "chat template, line " + std::to_string(golden["line"].get<int>()) + ": " +
                                              golden["error"].get<std::string>());
        EXPECT_EQ(prompt.error().code, ErrorCode::kInvalidArgument);
      }
    }
  }
  EXPECT_GE(templates, 12u);
}

TEST(ChatTemplateTest, DefaultIsChatMl) {
  const auto prompt = ChatTemplate::chatml().render(user_says("hi"));
  ASSERT_TRUE(prompt.ok());
  EXPECT_EQ(*prompt, "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(ChatTemplate::chatml().content_style(), ContentStyle::kText);
}

TEST(ChatTemplateTest, InputReachesTheTemplate) {
  const ChatTemplate chat_template = parse_or_die(
      "{{ messages | length }}{{ tools is none }}{{ documents is none }}{{ add_generation_prompt }}{{ bos_token }}"
      "{{ eos_token }}{{ level }}{{ strftime_now('%d %b %Y') }}");
  ChatInput input = user_says("x");
  input.bos_token = "<s>";
  input.eos_token = "</s>";
  input.extra = {{"level", "high"}, {"eos_token", "<end>"}};
  EXPECT_EQ(chat_template.render(input).value(), "1TrueTrueTrue<s><end>high04 Jul 2025");
}

TEST(ChatTemplateTest, ErrorsNameLineAndCause) {
  const auto broken = ChatTemplate::parse("one\n{% if x %}\nthree");
  ASSERT_FALSE(broken.ok());
  EXPECT_EQ(broken.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(broken.error().message, HasSubstr("line 3: Unexpected end of template"));

  const auto refused = parse_or_die("\n{{ raise_exception('no system turn') }}").render(user_says("x"));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused.error().message, "chat template, line 2: no system turn");
}

TEST(ChatTemplateTest, InputThatIsNoUtf8IsAnError) {
  EXPECT_FALSE(ChatTemplate::parse("a\n\xff").ok());
  const auto prompt = ChatTemplate::chatml().render(user_says("a\xc3"));
  ASSERT_FALSE(prompt.ok());
  EXPECT_THAT(prompt.error().message, HasSubstr("not valid UTF-8, at byte 1"));
}

TEST(ChatTemplateTest, NestedInputIsBounded) {
  ordered_json deep = 1;
  for (int i = 0; i < 100'000; ++i) deep = ordered_json::array({std::move(deep)});
  ChatInput input = user_says("x");
  input.extra = {{"deep", std::move(deep)}};
  const auto prompt = ChatTemplate::chatml().render(input);
  ASSERT_FALSE(prompt.ok());
  EXPECT_EQ(prompt.error().code, ErrorCode::kExhausted);
}

TEST(ChatTemplateTest, LargeNumbersStayExact) {
  const ChatTemplate chat_template = parse_or_die("{{ numbers | tojson }}");
  ChatInput input;
  input.extra = {{"numbers", ordered_json::parse("[18446744073709551615,-9223372036854775808,0.1,1e23,100000000.0]")}};
  EXPECT_EQ(chat_template.render(input).value(),
            "[18446744073709551615, -9223372036854775808, 0.1, 1e+23, 100000000.0]");
}

TEST(ChatTemplateTest, FindsHowContentIsRead) {
  const char* parts_only =
      "{% for m in messages %}{% for p in m.content %}{{ p.text if p.type == 'text' }}{% endfor %}{% endfor %}";
  const char* both =
      "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}{{ p.text }}"
      "{% endfor %}{% endif %}{% endfor %}";
  const char* prints_anything = "{% for m in messages %}{{ m.content }}{% endfor %}";
  EXPECT_EQ(parse_or_die(parts_only).content_style(), ContentStyle::kParts);
  EXPECT_EQ(parse_or_die(both).content_style(), ContentStyle::kBoth);
  EXPECT_EQ(parse_or_die(prints_anything).content_style(), ContentStyle::kText);
  EXPECT_EQ(parse_or_die("{{ raise_exception('never') }}").content_style(), ContentStyle::kText);
}

TEST(ChatTemplateTest, AdaptsContentToTheTemplate) {
  const auto messages = ordered_json::parse(
      R"([{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
          {"role":"assistant","content":null,"tool_calls":[]},{"role":"user","content":"c"}])");
  EXPECT_EQ(adapt_content(messages, ContentStyle::kText).value().dump(),
            R"([{"role":"user","content":"a\nb"},{"role":"assistant","content":null,"tool_calls":[]},)"
            R"({"role":"user","content":"c"}])");
  EXPECT_EQ(adapt_content(messages, ContentStyle::kParts).value()[2].dump(),
            R"({"role":"user","content":[{"type":"text","text":"c"}]})");
  EXPECT_EQ(adapt_content(messages, ContentStyle::kBoth).value(), messages);

  const auto image = ordered_json::parse(R"([{"role":"user","content":[{"type":"image_url","image_url":"x"}]}])");
  const auto refused = adapt_content(image, ContentStyle::kText);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(refused.error().message, HasSubstr("image_url"));
  for (const char* odd : {"[1]", "[null]", "[{}]", "[[]]", "[{\"type\":1}]", "[{\"type\":\"text\",\"text\":1}]"}) {
    const ordered_json message = {{"role", "user"}, {"content", ordered_json::parse(odd)}};
    EXPECT_FALSE(adapt_content(ordered_json::array({message}), ContentStyle::kText).ok()) << odd;
  }
}

TEST(ChatTemplateTest, ManyThreadsRenderOneTemplate) {
  const ChatTemplate chat_template = parse_or_die(read_text(kTemplates / "gpt-oss.jinja"));
  const ordered_json data = read_json(kTemplates / "conversations.json");
  ChatInput input;
  input.messages = data["conversations"]["one_call"];
  input.tools = data["tools"];
  input.now = golden_time;
  const std::string expected = chat_template.render(input).value();
  std::vector<std::thread> threads;
  std::vector<int> equal(4, 0);
  for (int& count : equal) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) count += chat_template.render(input).value() == expected;
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(equal, std::vector<int>(4, 20));
}

}  // namespace
}  // namespace dspark
