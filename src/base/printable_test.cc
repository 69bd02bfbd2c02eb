// Tests of printable.h.
#include "base/printable.h"

#include <gtest/gtest.h>

namespace dspark {
namespace {

TEST(Printable, KeepsPrintableText) {
  EXPECT_EQ(printable("grüß 你好 😀, it's"), "grüß 你好 😀, it's");
  EXPECT_EQ(quote("blk.0.attn_q.weight"), "'blk.0.attn_q.weight'");
  EXPECT_EQ(quote(""), "''");
}

TEST(Printable, EscapesWhatCouldMislead) {
  EXPECT_EQ(printable("a\nb\t\x1b[2J\x7f\\"), "a\\nb\\t\\x1b[2J\\x7f\\\\");
  EXPECT_EQ(quote("it's"), "'it\\'s'");
  EXPECT_EQ(quote("\xc2\x85\xe2\x80\xae"), "'\\xc2\\x85\\xe2\\x80\\xae'");
  EXPECT_EQ(quote("\xff\xc3"), "'\\xff\\xc3'");
  EXPECT_EQ(quote("\xc0\x80\xed\xa0\x80\xf4\x90\x80\x80"), "'\\xc0\\x80\\xed\\xa0\\x80\\xf4\\x90\\x80\\x80'");
  EXPECT_EQ(quote(std::string_view("a\0b", 3)), "'a\\x00b'");
}

TEST(Printable, CutsLongTextBetweenCharacters) {
  EXPECT_EQ(printable("abcdef", 4), "abcd...");
  EXPECT_EQ(quote("abc😀", 4), "'abc...'");
  EXPECT_EQ(quote("abcd", 4), "'abcd'");
}

}  // namespace
}  // namespace dspark
