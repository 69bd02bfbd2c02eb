// Tests of split_regex.h, against the character classes of the reference.
#include "text/split_regex.h"

#include <gtest/gtest.h>

#include "text/golden_data.h"
#include "text/utf8.h"

namespace dspark {
namespace {

// Every code point is in the class that the reference puts it into, whatever Unicode version PCRE2 has.
TEST(SplitRegex, ClassesAreThoseOfTheReference) {
  const auto classes = golden::read_json("classes.json");
  for (const auto& [pattern, ranges] : classes.items()) {
    auto regex = SplitRegex::compile(pattern);
    ASSERT_TRUE(regex.ok()) << regex.error().message;
    std::vector<bool> wanted(0x110000, false);
    size_t at = 0;
    for (size_t i = 0; i < ranges.size(); i += 2) {
      at += ranges[i].get<size_t>();
      for (size_t k = ranges[i + 1].get<size_t>(); k > 0; --k) wanted.at(at++) = true;
    }
    SplitRegex::Scratch scratch;
    std::string text;
    size_t wrong = 0;
    for (uint32_t c = 0; c < 0x110000; ++c) {
      if (c >= 0xD800 && c < 0xE000) continue;
      text.clear();
      append_utf8(text, c);
      const RegexShape shape(text);
      SplitRegex::Match match;
      const bool found = regex->find(shape.view(), 0, scratch, &match);
      if (found != wanted[c] && ++wrong < 5) ADD_FAILURE() << pattern << " and U+" << std::hex << c << ": " << found;
    }
    EXPECT_EQ(wrong, 0U) << pattern;
  }
}

TEST(SplitRegex, ShapeKeepsLengthAndReplacesWhatIsNotUtf8) {
  for (const std::string text : {"a\xFF\x62", "\xE4\xB8", "\xE4\xB8\xAD\x80", "\xED\xA0\x80x", "\xF4\x90\x80\x80"}) {
    const RegexShape shape(text);
    EXPECT_EQ(shape.view().size(), text.size());
    EXPECT_EQ(replace_invalid_utf8(shape.view()), shape.view());
  }
  const std::string plain = "plain \xC3\xA4 text";
  EXPECT_EQ(RegexShape(plain).view().data(), plain.data()) << "copied without need";
}

TEST(SplitRegex, RewritesWhatIsSpeltDifferently) {
  const std::pair<const char*, const char*> cases[] = {
      {R"(\p{Han}+|\p{^L}|\P{^N})", R"(\p{sc:Han}+|\P{L}|\p{N})"},
      {R"(\x41\x{1F600}\u4e00[\v-])", R"(\x{41}\x{1F600}\x{4e00}[\x0B-])"},
      {R"((?i:'s|'t)|a{2,}?b{3}(?<!x)$)", R"((?i:'s|'t)|a{2,}?b{3}(?<!x)$)"},
  };
  for (const auto& [from, to] : cases) {
    const auto pattern = pcre2_pattern(from);
    ASSERT_TRUE(pattern.ok()) << pattern.error().message;
    EXPECT_EQ(*pattern, to);
  }
}

TEST(SplitRegex, RefusesWhatMightMeanSomethingElse) {
  for (const char* pattern : {R"(\h)",  R"(\w)",  R"(\b)", R"(\R)",       R"(\X)",   R"(\1)",   R"(\K)",
                              "[a[b]]", "[a&&b]", "[]a]",  "[[:alpha:]]", "(?<n>a)", "(?m:.)",  "(?i:strasse)",
                              "a{,3}",  "a{2}+",  "a{2}?", R"(\p{Foo})",  R"(\pL)",  R"(\x{})", R"(\x{1234567})",
                              "[a",     "\\",     "a{x}",  "(*ACCEPT)"}) {
    const auto regex = SplitRegex::compile(pattern);
    EXPECT_FALSE(regex.ok()) << pattern;
  }
}

TEST(SplitRegex, LinesEndAsInRuby) {
  auto regex = SplitRegex::compile(R"(\s+$)");
  ASSERT_TRUE(regex.ok());
  SplitRegex::Scratch scratch;
  SplitRegex::Match match;
  ASSERT_TRUE(regex->find("a  \nb", 0, scratch, &match));
  EXPECT_EQ(match.begin, 1U);
  EXPECT_EQ(match.end, 3U);
}

// Backtracking without end stops at the limits and counts as no match.
TEST(SplitRegex, CatastrophicPatternsEnd) {
  auto regex = SplitRegex::compile("(?:a|a|a|a)*(?:a|aa)*b");
  ASSERT_TRUE(regex.ok());
  SplitRegex::Scratch scratch;
  SplitRegex::Match match;
  EXPECT_FALSE(regex->find(std::string(64, 'a'), 0, scratch, &match));
  auto deep = SplitRegex::compile("(?:(?:a)+)+c|b");
  ASSERT_TRUE(deep.ok());
  EXPECT_TRUE(deep->find(std::string(10'000, 'a') + "b", 9'990, scratch, &match));
}

}  // namespace
}  // namespace dspark
