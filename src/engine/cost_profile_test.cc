// CostProfile on a tiny model: what is measured, kept and refused. One thread.
#include "engine/cost_profile.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "model/model_file.h"

namespace dspark {
namespace {

class CostProfileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(folder_);
    auto file = ModelFile::open(DSPARK_TEST_DATA "/models/llama/hf");
    ASSERT_TRUE(file.ok()) << file.error().message;
    auto runner = Runner::create(*file, {.threads = 2, .kv_memory_bytes = int64_t{64} << 20});
    ASSERT_TRUE(runner.ok()) << runner.error().message;
    runner_ = std::move(*runner);
  }

  // The only file in the folder.
  std::string kept() const { return std::filesystem::directory_iterator(folder_)->path().string(); }

  const std::string folder_ = testing::TempDir() + "/costs";
  std::unique_ptr<Runner> runner_;
};

TEST_F(CostProfileTest, MeasuresStepsUpToTheContextAndLeavesNothingBehind) {
  const auto profile = measure_costs(*runner_, {}, 5.0);
  ASSERT_TRUE(profile.ok()) << profile.error().message;
  ASSERT_GE(profile->points.size(), 10u);
  for (size_t i = 0; i < profile->points.size(); ++i) {
    EXPECT_GT(profile->points[i].ms, 0.0);
    EXPECT_LE(profile->points[i].rows, runner_->config().context);
    if (i > 0) {
      EXPECT_GT(profile->points[i].rows, profile->points[i - 1].rows);
    }
  }
  EXPECT_TRUE(CostModel::create(profile->points, profile->terms).ok());
  EXPECT_TRUE(runner_->kv().check({}).ok());
}

TEST_F(CostProfileTest, WithoutTimeOnlyTheSmallestStepIsMeasured) {
  const auto profile = measure_costs(*runner_, {}, 0.0);
  ASSERT_TRUE(profile.ok()) << profile.error().message;
  ASSERT_EQ(profile->points.size(), 1u);
  EXPECT_EQ(profile->points[0].rows, 1);
}

TEST_F(CostProfileTest, WhatIsKeptIsReadAgainForTheSameKeyOnly) {
  const CostProfile profile = {
      {{1, 2.5}, {8, 4.25}},
      {.context_ms = 1e-4, .drafts = {{{.ms = 0.5, .row_ms = 0.03}, {.ms = 0.25, .row_ms = 0.01}}}}};
  const std::string key = cost_key(*runner_, {});
  EXPECT_FALSE(read_costs(folder_, key).ok());
  ASSERT_TRUE(write_costs(folder_, key, profile).ok());
  const auto read = read_costs(folder_, key);
  ASSERT_TRUE(read.ok()) << read.error().message;
  ASSERT_EQ(read->points.size(), 2u);
  EXPECT_EQ(read->points[1].rows, 8);
  EXPECT_EQ(read->points[1].ms, 4.25);
  EXPECT_EQ(read->terms.drafts[0].row_ms, 0.03);
  EXPECT_EQ(read->terms.drafts[1].ms, 0.25);
  EXPECT_EQ(read->terms.drafts[1].row_ms, 0.01);
  const std::vector one = {sha256("a drafter")}, both = {sha256("a drafter"), sha256("a model")},
                    turned = {both[1], both[0]};
  EXPECT_NE(cost_key(*runner_, one), key);
  EXPECT_NE(cost_key(*runner_, one), cost_key(*runner_, both));
  EXPECT_NE(cost_key(*runner_, both), cost_key(*runner_, turned));
  EXPECT_FALSE(read_costs(folder_, cost_key(*runner_, one)).ok());
}

TEST_F(CostProfileTest, DamagedFilesAreErrors) {
  const std::string key = cost_key(*runner_, {});
  ASSERT_TRUE(write_costs(folder_, key, {{{1, 2.5}}, {}}).ok());
  const std::string path = kept();
  for (const char* text : {"", "{", "[]", "{\"version\": 2}", "{\"version\": 3, \"for\": \"x\"}"}) {
    std::ofstream(path) << text;
    EXPECT_FALSE(read_costs(folder_, key).ok()) << text;
  }
  for (const char* part : {"\"step_ms\": 3", "\"step_ms\": {\"1\": \"x\"}", "\"step_ms\": {\"1\": 2}",
                           "\"step_ms\": {\"1\": 2}, \"context_ms\": 0, \"drafts\": [{\"ms\": 1}]"}) {
    std::ofstream(path) << "{\"version\": 2, \"for\": \"" << key << "\", " << part << "}";
    EXPECT_FALSE(read_costs(folder_, key).ok()) << part;
  }
}

}  // namespace
}  // namespace dspark
