// Calibration of a drafter's confidences: sequential temperature scaling (DSpark paper, section 3.2.1), fitted on
// records of what was verified, and the measures of how good confidences are. Pure functions; any thread.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/sha256.h"

namespace dspark {

// One draft that was verified: the confidence head's logits of its tokens, and how many the target took.
struct ConfidenceRecord {
  std::vector<float> confidences;
  int accepted = 0;
};

// sigma(logit / temperature) is the chance of a token given those before it. Positions beyond the list have its last
// temperature; an empty list has 1.
struct Calibration {
  std::vector<double> temperatures;

  double temperature(int position) const;
  double chance(float confidence, int position) const;
};

// Chance and outcome of one event.
struct ChanceOutcome {
  double chance;
  bool happened;
};

// Expected calibration error (Naeini et al., 2015): over `bins` equal bins of [0, 1] the mean of |mean chance - rate|,
// weighted by the outcomes in a bin. 0 without outcomes.
double expected_calibration_error(std::span<const ChanceOutcome> outcomes, int bins = 20);

// Area under the ROC curve: how often an event that happened had the higher chance, ties counting half. NaN unless both
// kinds are there.
double area_under_curve(std::span<const ChanceOutcome> outcomes);

// Survival up to `position` of every record that is long enough, calibrated, and whether it came so.
std::vector<ChanceOutcome> survival_outcomes(std::span<const ConfidenceRecord> records, const Calibration& calibration,
                                             int position);

// The temperature of each position in turn, those before it fixed, by a grid search for the least calibration error of
// the survival; of equal ones the nearest to 1. Positions with fewer than `least` records repeat the one before.
Calibration fit_calibration(std::span<const ConfidenceRecord> records, int positions, int least = 200);

// "drafter.gguf" has its calibration in "drafter.gguf.calibration.json", a folder "drafter" in
// "drafter.calibration.json".
std::string calibration_path(const std::string& drafter_path);
// The calibration beside the drafter whose file has this digest; without temperatures where there is none. One of
// another drafter is passed over with a warning. kCorrupt for a file that is none.
Result<Calibration> read_calibration(const std::string& drafter_path, const Sha256Digest& drafter);
Status write_calibration(const std::string& drafter_path, const Sha256Digest& drafter, const Calibration& calibration);

}  // namespace dspark
