// Tests of quote.h.
#include "base/quote.h"

#include <gtest/gtest.h>

namespace dspark {
namespace {

TEST(Quote, KeepsPrintableText) {
  EXPECT_EQ(quote("blk.0.attn_q.weight"), "'blk.0.attn_q.weight'");
  EXPECT_EQ(quote("grüß 你好 😀"), "'grüß 你好 😀'");
  EXPECT_EQ(quote(""), "''");
}

TEST(Quote, EscapesWhatCouldMislead) {
  EXPECT_EQ(quote("a\nb\x1b[2J\x7f"), "'a\\x0ab\\x1b[2J\\x7f'");
  EXPECT_EQ(quote("it's \\"), "'it\\x27s \\x5c'");
  EXPECT_EQ(quote("\xc2\x85\xe2\x80\xae"), "'\\xc2\\x85\\xe2\\x80\\xae'");
  EXPECT_EQ(quote("\xff\xc3"), "'\\xff\\xc3'");
  EXPECT_EQ(quote("\xc0\x80\xed\xa0\x80\xf4\x90\x80\x80"), "'\\xc0\\x80\\xed\\xa0\\x80\\xf4\\x90\\x80\\x80'");
  EXPECT_EQ(quote(std::string_view("a\0b", 3)), "'a\\x00b'");
}

TEST(Quote, CutsLongTextBetweenCharacters) {
  EXPECT_EQ(quote("abcdef", 4), "'abcd...'");
  EXPECT_EQ(quote("abc😀", 4), "'abc...'");
  EXPECT_EQ(quote("abcd", 4), "'abcd'");
}

}  // namespace
}  // namespace dspark
