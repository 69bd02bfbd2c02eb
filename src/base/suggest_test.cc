// Tests of suggest.h.
#include "base/suggest.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace dspark {
namespace {

constexpr std::array<std::string_view, 4> kKnown = {"threads", "temp", "top-k", "top-p"};

TEST(Suggest, FindsTypingErrors) {
  EXPECT_EQ(closest_name("thread", kKnown), "threads");
  EXPECT_EQ(closest_name("htreads", kKnown), "threads");
  EXPECT_EQ(closest_name("tmep", kKnown), "temp");
  EXPECT_EQ(closest_name("top-q", kKnown), "top-k");
}

TEST(Suggest, StaysSilentOnOtherWords) {
  EXPECT_EQ(closest_name("window", kKnown), "");
  EXPECT_EQ(closest_name("", kKnown), "");
  EXPECT_EQ(closest_name(std::string(100000, 't'), kKnown), "");
}

}  // namespace
}  // namespace dspark
