// `dspark sim`: the scheduler against a virtual clock. Main thread.
#include <fmt/format.h>

#include <sstream>

#include "base/json.h"
#include "schedule/simulator.h"
#include "tools/command.h"
#include "tools/io.h"
#include "tools/progress.h"

namespace dspark {
namespace {

// What DeepInfer publishes of planned verification against a fixed five.
struct Published {
  int sequences;
  double gain_percent;
  double per_user;
};
constexpr Published kDeepinfer[] = {{16, -1.5, 301.0}, {60, 5.4, 241.0}, {96, 11.0, 194.0}};

const Published* published(const std::string& curve, int sequences) {
  if (curve != "deepinfer") return nullptr;
  for (const Published& entry : kDeepinfer) {
    if (entry.sequences == sequences) return &entry;
  }
  return nullptr;
}

Result<CostCurve> read_curve(const std::string& name) {
  if (name == "deepinfer") return deepinfer_curve();
  DSPARK_TRY(const std::string text, read_input(name, kMaxDocumentBytes));
  DSPARK_TRY(const nlohmann::json json, parse_json(text, name));
  const char* expected = "a list of {\"rows\": N, \"ms\": T}, rows ascending";
  CostCurve curve = {name, {}};
  if (!json.is_array()) return make_error(ErrorCode::kCorrupt, "{}: expected {}", name, expected);
  for (const auto& point : json) {
    const bool valid = point.is_object() && point.contains("rows") && point["rows"].is_number_integer() &&
                       point.contains("ms") && point["ms"].is_number() && point["ms"].get<double>() > 0.0 &&
                       point["rows"].get<int64_t>() >= 1 && point["rows"].get<int64_t>() <= 1 << 20 &&
                       (curve.points.empty() || point["rows"].get<int64_t>() > curve.points.back().rows);
    if (!valid) return make_error(ErrorCode::kCorrupt, "{}: found {}, expected {}", name, point.dump(), expected);
    curve.points.push_back({point["rows"].get<int>(), point["ms"].get<double>()});
  }
  return curve;
}

Result<std::vector<SurvivalTrace>> read_traces(const std::string& path) {
  DSPARK_TRY(const std::string text, read_input(path, kMaxTextBytes));
  std::vector<SurvivalTrace> traces;
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.empty()) continue;
    DSPARK_TRY(const nlohmann::json json, parse_json(line, path));
    SurvivalTrace trace;
    for (const auto& chance : json) {
      if (!json.is_array() || !chance.is_number()) {
        return make_error(ErrorCode::kCorrupt, "{}:{}: expected a list of chances", path, number);
      }
      trace.push_back(chance.get<float>());
    }
    traces.push_back(std::move(trace));
  }
  return traces;
}

nlohmann::ordered_json result_json(const SimResult& result) {
  return {{"tokens_per_second", result.tokens_per_second},
          {"tokens_per_second_per_user", result.per_user},
          {"tokens_per_step", result.tokens_per_step},
          {"verified_per_step", result.verified}};
}

nlohmann::ordered_json point_json(const SimPoint& point, const Published* known) {
  nlohmann::ordered_json json = {{"sequences", point.sequences},
                                 {"survival", survival_model_name(point.survival)},
                                 {"gain_percent", point.gain_percent()},
                                 {"oracle_gain_percent", point.oracle_gain_percent()}};
  if (known != nullptr) {
    json["published_gain_percent"] = known->gain_percent;
    json["published_tokens_per_second_per_user"] = known->per_user;
  }
  json["off"] = result_json(point.off);
  json["fixed"] = result_json(point.fixed);
  json["planned"] = result_json(point.planned);
  json["oracle"] = result_json(point.oracle);
  return json;
}

std::string point_text(const SimPoint& point, const Published* known) {
  return fmt::format("{:>9} {:<12} {:>9.0f} {:>9.0f} {:>9.0f} {:>+7.1f}% {:>+7.1f}% {:>10} {:>9.0f} {:>9.2f}\n",
                     point.sequences, survival_model_name(point.survival), point.off.tokens_per_second,
                     point.fixed.tokens_per_second, point.planned.tokens_per_second, point.gain_percent(),
                     point.oracle_gain_percent(),
                     known == nullptr ? std::string("-") : fmt::format("{:+.1f}%", known->gain_percent),
                     point.planned.per_user, point.planned.verified);
}

std::string assumptions(const CostCurve& curve, const SimOptions& options) {
  std::string out = fmt::format(
      "\nA block of {}; a drafted token's chance is {:.2f} on average, given those before it. spread: beta "
      "distribution "
      "with parameters {:.3g} and {:.3g}, anew for each token. The planner knows of each chance what {} tosses tell.\n",
      options.block, options.acceptance, options.acceptance * options.spread,
      (1.0 - options.acceptance) * options.spread, options.tosses);
  out += fmt::format("Steps of the curve {}:", curve.name);
  for (const CostPoint& point : curve.points) out += fmt::format(" {} rows {:.2f} ms,", point.rows, point.ms);
  out.back() = ';';
  return out + " on the lines between them, and beyond them on the nearest line.\n";
}

}  // namespace

Result<ExitCode> cmd_sim(const Invocation& call) {
  const Settings& settings = call.settings;
  DSPARK_TRY(const CostCurve curve, read_curve(settings.get<"curve">()));
  std::vector<SurvivalTrace> traces;
  std::vector<SurvivalModel> models = {SurvivalModel::kIndependent, SurvivalModel::kSpread};
  if (const std::string& path = settings.get<"traces">(); !path.empty()) {
    DSPARK_TRY(traces, read_traces(path));
    models.push_back(SurvivalModel::kTraces);
  }
  SimOptions options;
  options.acceptance = settings.get<"acceptance">();
  options.block = static_cast<int>(settings.get<"block">());
  options.steps = static_cast<int>(settings.get<"sim-steps">());
  options.seed = static_cast<uint64_t>(settings.get<"seed">());
  options.spread = settings.get<"spread">();
  options.tosses = static_cast<int>(settings.get<"tosses">());

  const std::vector<int64_t>& loads = settings.get<"sequences">();
  Progress progress("points", ProgressUnit::kSteps, static_cast<int64_t>(loads.size() * models.size()));
  nlohmann::ordered_json json = {{"curve", curve.name},      {"acceptance", options.acceptance},
                                 {"block", options.block},   {"spread", options.spread},
                                 {"tosses", options.tosses}, {"steps", options.steps},
                                 {"seed", options.seed}};
  std::string text =
      fmt::format("{:>9} {:<12} {:>9} {:>9} {:>9} {:>8} {:>8} {:>10} {:>9} {:>9}\n", "sequences", "survival",
                  "off tok/s", "fixed", "planned", "gain", "oracle", "published", "per user", "verified");
  int64_t done = 0;
  for (const SurvivalModel model : models) {
    for (const int64_t sequences : loads) {
      DSPARK_TRY(const SimPoint point, simulate(curve, static_cast<int>(sequences), model, traces, options));
      const Published* known = published(curve.name, point.sequences);
      json["points"].push_back(point_json(point, known));
      text += point_text(point, known);
      progress.update(++done);
    }
  }
  text += assumptions(curve, options);
  DSPARK_RETURN_IF_ERROR(settings.get<"json">() ? write_json(json) : write_output(text));
  return ExitCode::kOk;
}

}  // namespace dspark
