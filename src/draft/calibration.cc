// See calibration.h.
#include "draft/calibration.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include "base/cache_dir.h"
#include "base/exact_math.h"
#include "base/json.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/read_file.h"

namespace dspark {
namespace {

constexpr int64_t kMostBytes = 1 << 16;  // of the file
constexpr double kLeastTemperature = 0.1, kMostTemperature = 10.0;

double sigmoid(double x) { return 1.0 / (1.0 + exact_exp(-x)); }

// 1, and on both sides of it steps of 2 %, to a factor of ten.
std::vector<double> temperature_grid() {
  std::vector<double> out = {1.0};
  for (double up = 1.02; up <= kMostTemperature; up *= 1.02) {
    out.push_back(up);
    out.push_back(1.0 / up);
  }
  return out;
}

}  // namespace

double Calibration::temperature(int position) const {
  if (temperatures.empty()) return 1.0;
  return temperatures[std::min(static_cast<size_t>(position), temperatures.size() - 1)];
}

double Calibration::chance(float confidence, int position) const {
  return sigmoid(static_cast<double>(confidence) / temperature(position));
}

double expected_calibration_error(std::span<const ChanceOutcome> outcomes, int bins) {
  struct Bin {
    double chances = 0.0, happened = 0.0;
  };
  if (outcomes.empty()) return 0.0;
  std::vector<Bin> all(static_cast<size_t>(bins));
  for (const ChanceOutcome& outcome : outcomes) {
    const double place = std::clamp(outcome.chance * bins, 0.0, static_cast<double>(bins - 1));
    Bin& bin = all[static_cast<size_t>(place)];
    bin.chances += outcome.chance;
    bin.happened += outcome.happened ? 1.0 : 0.0;
  }
  double error = 0.0;
  for (const Bin& bin : all) error += std::abs(bin.chances - bin.happened);
  return error / static_cast<double>(outcomes.size());
}

double area_under_curve(std::span<const ChanceOutcome> outcomes) {
  std::vector<ChanceOutcome> sorted(outcomes.begin(), outcomes.end());
  std::sort(sorted.begin(), sorted.end(),
            [](const ChanceOutcome& a, const ChanceOutcome& b) { return a.chance < b.chance; });
  double happened = 0.0, failed = 0.0, pairs = 0.0;
  for (size_t i = 0; i < sorted.size();) {
    double here_happened = 0.0, here_failed = 0.0;
    size_t end = i;
    for (; end < sorted.size() && sorted[end].chance == sorted[i].chance; ++end) {
      (sorted[end].happened ? here_happened : here_failed) += 1.0;
    }
    pairs += here_happened * (failed + 0.5 * here_failed);
    happened += here_happened;
    failed += here_failed;
    i = end;
  }
  if (happened == 0.0 || failed == 0.0) return std::numeric_limits<double>::quiet_NaN();
  return pairs / (happened * failed);
}

std::vector<ChanceOutcome> survival_outcomes(std::span<const ConfidenceRecord> records, const Calibration& calibration,
                                             int position) {
  std::vector<ChanceOutcome> out;
  for (const ConfidenceRecord& record : records) {
    if (record.confidences.size() <= static_cast<size_t>(position)) continue;
    double survival = 1.0;
    for (int i = 0; i <= position; ++i) {
      survival *= calibration.chance(record.confidences[static_cast<size_t>(i)], i);
    }
    out.push_back({survival, record.accepted > position});
  }
  return out;
}

Calibration fit_calibration(std::span<const ConfidenceRecord> records, int positions, int least) {
  const std::vector<double> grid = temperature_grid();
  Calibration fitted;
  std::vector<double> before(records.size(), 1.0);  // survival of the positions that are done
  for (int position = 0; position < positions; ++position) {
    std::vector<size_t> used;
    for (size_t r = 0; r < records.size(); ++r) {
      if (records[r].confidences.size() > static_cast<size_t>(position)) used.push_back(r);
    }
    double best = position == 0 ? 1.0 : fitted.temperatures.back();
    const auto chance = [&](size_t r, double temperature) {
      return sigmoid(static_cast<double>(records[r].confidences[static_cast<size_t>(position)]) / temperature);
    };
    if (used.size() >= static_cast<size_t>(std::max(1, least))) {
      double least_error = std::numeric_limits<double>::infinity();
      std::vector<ChanceOutcome> outcomes(used.size());
      for (const double temperature : grid) {
        for (size_t i = 0; i < used.size(); ++i) {
          outcomes[i] = {before[used[i]] * chance(used[i], temperature), records[used[i]].accepted > position};
        }
        const double error = expected_calibration_error(outcomes);
        if (error < least_error) least_error = error, best = temperature;
      }
    }
    for (const size_t r : used) before[r] *= chance(r, best);
    fitted.temperatures.push_back(best);
  }
  return fitted;
}

std::string calibration_path(const std::string& drafter_path) {
  return drafter_path.substr(0, drafter_path.find_last_not_of('/') + 1) + ".calibration.json";
}

Result<Calibration> read_calibration(const std::string& drafter_path, const Sha256Digest& drafter) {
  const std::string path = calibration_path(drafter_path);
  Calibration out;
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return out;
  DSPARK_TRY(const std::string text, read_file(path, kMostBytes));
  DSPARK_TRY(const nlohmann::json json, parse_json(text, path));
  DSPARK_TRY(const std::string made_for, json_require<std::string>(json, "drafter", path));
  if (made_for != to_hex(drafter)) {
    log(LogLevel::kWarning, "{}: calibrates the drafter {}, this is {}; it is left out until dspark calibrate is run",
        path, printable(made_for.substr(0, 16)), to_hex(drafter).substr(0, 16));
    return out;
  }
  DSPARK_TRY(out.temperatures, json_require<std::vector<double>>(json, "temperatures", path));
  for (const double temperature : out.temperatures) {
    if (!(temperature >= 0.5 * kLeastTemperature && temperature <= 2.0 * kMostTemperature)) {
      return make_error(ErrorCode::kCorrupt, "{}: temperature {}, expected {} to {}; calibrate again", path,
                        temperature, kLeastTemperature, kMostTemperature);
    }
  }
  return out;
}

Status write_calibration(const std::string& drafter_path, const Sha256Digest& drafter, const Calibration& calibration) {
  const nlohmann::ordered_json json = {{"drafter", to_hex(drafter)}, {"temperatures", calibration.temperatures}};
  return replace_file(calibration_path(drafter_path), json.dump(2) + "\n");
}

}  // namespace dspark
