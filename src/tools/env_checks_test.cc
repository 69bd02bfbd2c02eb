// Tests of env_checks.h: whether a model has room, from numbers. No machine is looked at.
#include "tools/env_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dspark {
namespace {

constexpr int64_t kGb = 1'000'000'000;
constexpr Room kUsual = {
    .weights = 4 * kGb, .kv = 8 * kGb, .block = kGb / 100, .memory = 16 * kGb, .available = 12 * kGb};

TEST(CheckRoom, TellsWhatFits) {
  const EnvCheck check = check_room(kUsual, "half of the memory");
  EXPECT_EQ(check.state, CheckState::kOk);
  EXPECT_EQ(check.found,
            "4.00 GB of weights and at most 8.00 GB of KV (102400 positions), half of the memory, in 16.00 GB");
}

TEST(CheckRoom, WhatDoesNotFitFails) {
  const auto state = [](auto&& change) {
    Room room = kUsual;
    change(room);
    return check_room(room, "").state;
  };
  EXPECT_EQ(state([](Room& r) { r.memory = 4 * kGb; }), CheckState::kFailure);
  EXPECT_EQ(state([](Room& r) { r.kv = r.block - 1; }), CheckState::kFailure);
  EXPECT_EQ(state([](Room& r) { r.available = 4 * kGb; }), CheckState::kFailure);
  EXPECT_EQ(state([](Room& r) { r.available = -1; }), CheckState::kOk);
  EXPECT_EQ(state([](Room& r) { r.kv = 14 * kGb; }), CheckState::kWarning);
}

}  // namespace
}  // namespace dspark
