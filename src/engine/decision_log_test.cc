// Tests of decision_log.h. One thread.
#include "engine/decision_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

namespace dspark {
namespace {

using nlohmann::json;

std::vector<json> lines_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<json> out;
  for (std::string line; std::getline(file, line);) out.push_back(json::parse(line));
  return out;
}

TEST(DecisionLog, AppendsALineForEachDecision) {
  const std::string path = testing::TempDir() + "/decisions.jsonl";
  std::remove(path.c_str());
  const float none = std::numeric_limits<float>::quiet_NaN();
  const Proposal proposal = {.drafter = "dspark", .tokens = {{5, 0.75f, none}, {6, 0.5f, none}}, .verified = 1};
  for (int run = 0; run < 2; ++run) {  // the second goes on where the first ended
    const auto log = DecisionLog::open(path);
    ASSERT_TRUE(log.ok());
    (*log)->write({.step = 3 + run, .expected_ms = 2.5, .actual_ms = 3.0}, 7, 1, proposal, 1);
  }
  const std::vector<json> lines = lines_of(path);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0], json::parse(R"({"step": 3, "request": 7, "choice": 1, "drafter": "dspark", "drafted": 2,
      "survival": [0.75, 0.5], "verified": 1, "accepted": 1, "predicted_ms": 2.5, "actual_ms": 3.0})"));
  EXPECT_EQ(lines[1]["step"], 4);
  std::remove(path.c_str());
}

TEST(DecisionLog, SaysWhenNothingWasDrafted) {
  const std::string path = testing::TempDir() + "/nothing.jsonl";
  std::remove(path.c_str());
  (*DecisionLog::open(path))->write({.step = 1}, 2, 0, {}, 0);
  const std::vector<json> lines = lines_of(path);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0]["drafter"], "none");
  EXPECT_EQ(lines[0]["survival"], json::array());
  std::remove(path.c_str());
}

TEST(DecisionLog, AFileThatCannotBeWrittenIsAnErrorAtOnceAndALostDiskIsNot) {
  EXPECT_EQ(DecisionLog::open("/nonexistent/decisions.jsonl").error().code, ErrorCode::kNotFound);
  const auto full = DecisionLog::open("/dev/full");
  ASSERT_TRUE(full.ok());
  (*full)->write({}, 1, 0, {}, 0);
  (*full)->write({}, 1, 0, {}, 0);  // it has ended itself, with a warning
}

}  // namespace
}  // namespace dspark
