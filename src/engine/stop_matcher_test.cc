// Tests of stop_matcher.h.
#include "engine/stop_matcher.h"

#include <gtest/gtest.h>

namespace dspark {
namespace {

TEST(StopMatcher, HoldsBackWhatMayBecomeAStopAndCutsThere) {
  StopMatcher matcher({"\nUser:", "END"});
  EXPECT_EQ(matcher.push("Hello\nUs"), "Hello");
  EXPECT_EQ(matcher.push("ual"), "\nUsual");
  EXPECT_EQ(matcher.push(" E"), " ");
  EXPECT_EQ(matcher.push("N"), "");
  EXPECT_FALSE(matcher.stopped());
  EXPECT_EQ(matcher.push("D and more"), "");
  EXPECT_TRUE(matcher.stopped());
  EXPECT_EQ(matcher.push("nothing"), "");
  EXPECT_EQ(matcher.flush(), "");
}

TEST(StopMatcher, TheEarliestStopWinsAndFlushGivesTheRest) {
  StopMatcher matcher({"b", "ab"});
  EXPECT_EQ(matcher.push("xab"), "x");
  EXPECT_TRUE(matcher.stopped());
  StopMatcher open({"stop"});
  EXPECT_EQ(open.push("a st"), "a ");
  EXPECT_EQ(open.flush(), "st");
  StopMatcher none({});
  EXPECT_EQ(none.push("all"), "all");
}

TEST(StopMatcher, SaysWhichStopItWasAndMayShowIt) {
  StopMatcher matcher({"", "cd", "bc", "bcd"}, true);
  EXPECT_EQ(matcher.push("ab"), "a");
  EXPECT_EQ(matcher.stop(), std::nullopt);
  EXPECT_EQ(matcher.push("cde"), "bc");
  EXPECT_EQ(matcher.stop(), 2);
}

}  // namespace
}  // namespace dspark
