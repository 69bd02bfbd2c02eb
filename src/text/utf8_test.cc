// Tests of utf8.h.
#include "text/utf8.h"

#include <gtest/gtest.h>

namespace dspark {
namespace {

TEST(Utf8, EveryCodePointSurvives) {
  for (uint32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string text;
    append_utf8(text, c);
    const Utf8Char decoded = decode_utf8(text);
    ASSERT_TRUE(decoded.valid);
    ASSERT_EQ(decoded.code_point, c);
    ASSERT_EQ(decoded.length, text.size());
    ASSERT_EQ(incomplete_utf8_suffix(text), 0U);
    for (size_t cut = 1; cut < text.size(); ++cut) {
      ASSERT_FALSE(decode_utf8(text.substr(0, cut)).valid);
      ASSERT_EQ(decode_utf8(text.substr(0, cut)).length, cut);
      ASSERT_EQ(incomplete_utf8_suffix("x" + text.substr(0, cut)), cut);
    }
  }
}

// Table 3-8 and the text of the Unicode standard, section 3.9.
TEST(Utf8, InvalidPartsAreReplacedOneByOne) {
  const std::string r = "\xEF\xBF\xBD";
  EXPECT_EQ(replace_invalid_utf8("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"), r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(replace_invalid_utf8("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"), r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(replace_invalid_utf8("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"), r + r + r + r + r + "A" + r + r + "B");
  EXPECT_EQ(replace_invalid_utf8("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), r + r + r + r + "A");
  EXPECT_EQ(replace_invalid_utf8(""), "");
}

TEST(Utf8, SuffixesThatCannotBecomeACharacterAreNotIncomplete) {
  for (const char* text :
       {"\xFF", "\x80", "\xC0", "\xE0\x80", "\xED\xA0", "\xF4\x90", "\xF5", "a\x80\x80\x80", "\xC1"}) {
    EXPECT_EQ(incomplete_utf8_suffix(text), 0U) << text;
  }
}

}  // namespace
}  // namespace dspark
