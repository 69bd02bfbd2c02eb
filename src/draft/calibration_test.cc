// Calibration on made-up confidences whose truth is known. Test thread.
#include "draft/calibration.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>

namespace dspark {
namespace {

// Drafts of `length` tokens whose true chances are sigma(z), reported as z * factor[position].
std::vector<ConfidenceRecord> made_up(int count, int length, const std::vector<double>& factors, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(1.0, 1.0);
  std::uniform_real_distribution<double> uniform;
  std::vector<ConfidenceRecord> out;
  for (int i = 0; i < count; ++i) {
    ConfidenceRecord& record = out.emplace_back();
    bool alive = true;
    for (int k = 0; k < length; ++k) {
      const double z = normal(random);
      record.confidences.push_back(static_cast<float>(z * factors[static_cast<size_t>(k)]));
      alive = alive && uniform(random) < 1.0 / (1.0 + std::exp(-z));
      record.accepted += alive ? 1 : 0;
    }
  }
  return out;
}

TEST(Calibration, ErrorOfKnownOutcomes) {
  EXPECT_EQ(expected_calibration_error({}), 0.0);
  // One bin: mean chance 0.52, rate 0.5. Another: 0.91 against 1.
  const ChanceOutcome outcomes[] = {{0.51, true}, {0.53, false}, {0.91, true}};
  EXPECT_NEAR(expected_calibration_error(outcomes, 10), (2 * 0.02 + 0.09) / 3, 1e-12);
  const ChanceOutcome edge[] = {{1.0, true}, {0.0, false}};
  EXPECT_EQ(expected_calibration_error(edge), 0.0);
}

TEST(Calibration, AreaOfKnownOutcomes) {
  const ChanceOutcome mixed[] = {{0.1, false}, {0.4, true}, {0.35, false}, {0.8, true}};
  EXPECT_DOUBLE_EQ(area_under_curve(mixed), 1.0);
  const ChanceOutcome reversed[] = {{0.9, false}, {0.2, true}};
  EXPECT_DOUBLE_EQ(area_under_curve(reversed), 0.0);
  const ChanceOutcome ties[] = {{0.5, false}, {0.5, true}, {0.7, true}, {0.5, true}};
  EXPECT_DOUBLE_EQ(area_under_curve(ties), (1.0 + 0.5 + 0.5) / 3);
  const ChanceOutcome one_kind[] = {{0.5, true}};
  EXPECT_TRUE(std::isnan(area_under_curve(one_kind)));
}

TEST(Calibration, FindsTheTemperatures) {
  const std::vector<double> factors = {2.0, 0.5, 1.0};
  const auto records = made_up(20000, 3, factors, 1);
  const Calibration fitted = fit_calibration(records, 3);
  ASSERT_EQ(fitted.temperatures.size(), 3u);
  for (size_t k = 0; k < 3; ++k) EXPECT_NEAR(fitted.temperatures[k], factors[k], 0.15 * factors[k]) << k;
  const auto held_out = made_up(20000, 3, factors, 2);
  for (int k = 0; k < 3; ++k) {
    const auto before = survival_outcomes(held_out, {}, k), after = survival_outcomes(held_out, fitted, k);
    EXPECT_LT(expected_calibration_error(after), 0.02) << k;
    EXPECT_GT(expected_calibration_error(before), 2 * expected_calibration_error(after)) << k;
  }
  // At the first position scaling keeps the order.
  EXPECT_NEAR(area_under_curve(survival_outcomes(held_out, {}, 0)),
              area_under_curve(survival_outcomes(held_out, fitted, 0)), 1e-4);
}

TEST(Calibration, TooFewRecordsChangeNothing) {
  const auto records = made_up(50, 4, {2.0, 2.0, 2.0, 2.0}, 3);
  for (const double temperature : fit_calibration(records, 4).temperatures) EXPECT_EQ(temperature, 1.0);
}

TEST(Calibration, ShortDraftsDoNotCountForLaterPositions) {
  auto records = made_up(1000, 2, {1.0, 1.0}, 4);
  for (size_t i = 0; i < records.size(); i += 2) {
    records[i].confidences.resize(1);
    records[i].accepted = std::min(records[i].accepted, 1);
  }
  EXPECT_EQ(survival_outcomes(records, {}, 0).size(), 1000u);
  EXPECT_EQ(survival_outcomes(records, {}, 1).size(), 500u);
}

TEST(Calibration, LiesBesideTheDrafter) {
  const std::string drafter = ::testing::TempDir() + "/calibrated.gguf";
  const Sha256Digest digest = sha256("a drafter"), other = sha256("another");
  std::filesystem::remove(calibration_path(drafter));
  EXPECT_TRUE(read_calibration(drafter, digest)->temperatures.empty());
  ASSERT_TRUE(write_calibration(drafter, digest, {{1.25, 0.8}}).ok());
  EXPECT_EQ(read_calibration(drafter, digest)->temperatures, (std::vector<double>{1.25, 0.8}));
  EXPECT_DOUBLE_EQ(read_calibration(drafter, digest)->chance(1.6f, 7),
                   1.0 / (1.0 + std::exp(-static_cast<double>(1.6f) / 0.8)));
  EXPECT_TRUE(read_calibration(drafter, other)->temperatures.empty()) << "it belongs to a file that is gone";
  EXPECT_EQ(calibration_path("some/folder/"), "some/folder.calibration.json");
  const std::string head = R"({"drafter": ")" + to_hex(digest) + R"(", "temperatures": )";
  for (const char* broken : {"[1.0, 0.0]}", "[1.0, 1e9]}", "[1.0, \"1\"]}", "1}", "[1.0]"}) {
    std::ofstream(calibration_path(drafter)) << head << broken;
    EXPECT_EQ(read_calibration(drafter, digest).error().code, ErrorCode::kCorrupt) << broken;
  }
  std::ofstream(calibration_path(drafter)) << R"({"temperatures": [1.0]})";
  EXPECT_EQ(read_calibration(drafter, digest).error().code, ErrorCode::kCorrupt) << "whose is it?";
  std::filesystem::remove(calibration_path(drafter));
}

}  // namespace
}  // namespace dspark
