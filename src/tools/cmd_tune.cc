// `dspark tune`: which settings would have served a recorded log best on this machine. Main thread; the engines'
// workers compute.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/cache_dir.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/setting_value.h"
#include "tools/command.h"
#include "tools/compute.h"
#include "tools/io.h"
#include "tools/replay.h"
#include "tools/tune_search.h"

namespace dspark {
namespace {

using nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr double kReplayShare = 0.01;    // of the whole time, that one replay may take: there are some 25 values
constexpr size_t kFewestRequests = 16;   // of a replay, however long it takes
constexpr int kFinalRounds = 5;          // of today's settings and of the recommended ones
constexpr double kFinalShare = 0.15;     // of the time, kept for these
constexpr size_t kMostWarmUps = 16;      // prompts of the warm-up file
constexpr size_t kLargestWarmUp = 8192;  // characters

// What is searched. Settings that need another engine come first: what they change weighs most.
std::vector<Knob> knobs(const Settings& settings, const LoggedTraffic& traffic) {
  std::vector<Knob> out = {
      {"kv-memory", {"0", "64MiB", "256MiB", "1GiB", "4GiB"}},
      {"step-budget", {"0", "32", "64", "128", "256", "512"}},
      {"inter-token-target", {"15ms", "30ms", "100ms"}},
      {"dspark-scheduler-policy", {"hybrid", "hit-rate", "latency-aware"}},
      {"dspark-shard-count", {"1", "4"}},
  };
  if (traffic.with_text && settings.get<"enable-dspark">() != "off") {
    out.push_back({"dflash-validation-threshold", {"0", "0.3", "0.6"}});
    out.push_back({"dflash-max-reuse-depth", {"0", "2", "4"}});
    out.push_back({"dflash-window-size", {"512", "2048", "4096"}});
  }
  if (settings.get<"allow-output-change">()) out.push_back({"kv-type", {"f16", "q8_0"}});
  // As settings are shown, so that equal ones are equal texts.
  for (Knob& knob : out) {
    const SettingSpec& spec = kSettings[find_setting(knob.setting)];
    for (std::string& text : knob.values) {
      text = format_setting(spec, parse_setting(spec, std::vector<std::string>{text}).value());
    }
  }
  return out;
}

// Engines with candidates' settings. Two stay open, so that comparisons in turn need not load anything.
class Engines {
 public:
  explicit Engines(const Settings& settings) : settings_(settings) {}

  Result<Settings> settings_of(const Candidate& candidate) const {
    Settings out = settings_;
    for (const auto& [name, text] : candidate) {
      const size_t index = find_setting(name);
      DSPARK_TRY(SettingValue value, parse_setting(kSettings[index], std::vector<std::string>{text}));
      out = out.with(index, {std::move(value), SettingSource::kFlag, "tune"});
    }
    return out;
  }

  Result<Engine*> get(const Candidate& candidate) {
    DSPARK_TRY(const Settings settings, settings_of(candidate));
    DSPARK_TRY(const EngineOptions options, engine_options(settings));
    const std::string key = restart_key(candidate);
    auto found = std::ranges::find(open_, key, &Open::key);
    if (found == open_.end()) {
      if (open_.size() == 2) open_.erase(open_.begin());
      DSPARK_TRY(auto engine, open_engine(options));
      open_.push_back({key, std::move(engine)});
      ++opened_;
      found = open_.end() - 1;
    }
    std::rotate(found, found + 1, open_.end());  // the newest is last
    Engine* engine = open_.back().engine.get();
    engine->loop().reconfigure({options.schedule, options.max_queue, options.speculation});
    return engine;
  }

  int opened() const { return opened_; }  // since the start

 private:
  struct Open {
    std::string key;
    std::unique_ptr<Engine> engine;
  };
  // What of a candidate cannot change while an engine runs.
  static std::string restart_key(const Candidate& candidate) {
    std::string out;
    for (const auto& [name, text] : candidate) {
      if (!kSettings[find_setting(name)].live) out += fmt::format("{}={} ", name, text);
    }
    return out;
  }

  const Settings& settings_;
  std::vector<Open> open_;
  int opened_ = 0;
};

struct Final {
  std::vector<Round> today, best;
  std::vector<double> today_rates, best_rates;  // output tokens a second of each round
};

struct Measures {
  Interval throughput, first_p50, first_p99, gap_p50, gap_p99, whole, wait;
};

Measures measures_of(const Final& f) {
  return {.throughput = ratio_of_means(f.best_rates, f.today_rates),
          .first_p50 = ratio_interval(f.best, f.today, first_percentile(0.5)),
          .first_p99 = ratio_interval(f.best, f.today, first_percentile(0.99)),
          .gap_p50 = ratio_interval(f.best, f.today, gap_percentile(0.5)),
          .gap_p99 = ratio_interval(f.best, f.today, gap_percentile(0.99)),
          .whole = ratio_interval(f.best, f.today, mean_whole),
          .wait = ratio_interval(f.best, f.today, mean_wait)};
}

const std::pair<const char*, Interval Measures::*> kMeasures[] = {{"throughput", &Measures::throughput},
                                                                  {"TTFT P50", &Measures::first_p50},
                                                                  {"TTFT P99", &Measures::first_p99},
                                                                  {"ITL P50", &Measures::gap_p50},
                                                                  {"ITL P99", &Measures::gap_p99},
                                                                  {"mean time of a request", &Measures::whole},
                                                                  {"wait", &Measures::wait}};

// The log's most frequent prompts, a line of a warm-up file each; empty where it has no text or nothing comes twice.
std::string warm_up_lines(const LoggedTraffic& traffic) {
  if (!traffic.with_text) return "";
  std::map<std::pair<std::string, std::string>, int> counts;
  for (const LoggedRequest& request : traffic.requests) ++counts[{request.tenant, request.text}];
  std::vector<std::pair<int, const std::pair<std::string, std::string>*>> often;
  for (const auto& [prompt, count] : counts) {
    if (count > 1 && prompt.second.size() <= kLargestWarmUp) often.push_back({count, &prompt});
  }
  std::ranges::stable_sort(often, std::greater(), [](const auto& each) { return each.first; });
  std::string out;
  for (size_t i = 0; i < std::min(often.size(), kMostWarmUps); ++i) {
    ordered_json line = {{"prompt", often[i].second->second}};
    if (!often[i].second->first.empty()) line["tenant"] = often[i].second->first;
    out += line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  }
  return out;
}

// A configuration file: what was set, and what is recommended.
std::string config_text(const Settings& settings, const Candidate& best) {
  std::string out = "# Made by `dspark tune`.\n";
  for (size_t i = 0; i < kSettings.size(); ++i) {
    const SettingSpec& spec = kSettings[i];
    const SettingEntry& entry = settings.entry(i);
    const auto found = best.find(std::string(spec.name));
    const bool kept = entry.source != SettingSource::kDefault && spec.commands.has(Command::kServe) &&
                      !spec.flag_only && spec.name != "config" && spec.name != "access-log" && !spec.secret;
    if (found == best.end() && !kept) continue;
    const std::string text = found != best.end() ? found->second : format_setting(spec, entry.value);
    if (found != best.end() && text == spec.fallback && !kept) continue;
    // JSON's strings and arrays of them are TOML's.
    const auto* list = found == best.end() ? std::get_if<std::vector<std::string>>(&entry.value) : nullptr;
    out += fmt::format("{} = {}\n", setting_key(spec.name), (list ? ordered_json(*list) : ordered_json(text)).dump());
  }
  return out;
}

ordered_json interval_json(const Interval& interval) {
  return {{"ratio", interval.value}, {"low", interval.low}, {"high", interval.high}};
}

struct Outcome {
  Candidate today, best;
  TuneResult search;
  std::optional<Measures> measures;  // nothing: no other settings were found
  bool recommended = false;
};

ordered_json as_json(const LoggedTraffic& traffic, const Outcome& outcome) {
  ordered_json out = {{"requests", traffic.requests.size()},
                      {"with_text", traffic.with_text},
                      {"left_out", traffic.left_out},
                      {"every_value_tried", outcome.search.in_time},
                      {"recommended", outcome.recommended},
                      {"settings", ordered_json::object()},
                      {"against_today", ordered_json::object()},
                      {"trials", ordered_json::array()}};
  for (const auto& [name, text] : outcome.best) {
    out["settings"][setting_key(name)] = {{"today", outcome.today.at(name)}, {"recommended", text}};
  }
  if (outcome.measures) {
    for (const auto& [name, member] : kMeasures)
      out["against_today"][name] = interval_json((*outcome.measures).*member);
  }
  for (const TuneTrial& trial : outcome.search.trials) {
    out["trials"].push_back({{"setting", setting_key(trial.setting)},
                             {"value", trial.value},
                             {"against", trial.against},
                             {"rounds", trial.rounds},
                             {"wait", interval_json(trial.ratio)},
                             {"taken", trial.taken},
                             {"failure", trial.failure}});
  }
  return out;
}

std::string as_text(const LoggedTraffic& traffic, const Outcome& outcome) {
  std::string out =
      fmt::format("{} requests of {:.1f} s of the log{}\n\n", traffic.requests.size(), traffic.seconds(),
                  traffic.with_text ? ""
                                    : "; it has no text (--log-prompts), so prompts of the same lengths were "
                                      "played, and nothing is recommended for speculation");
  out += fmt::format("{:<28} {:<14} {:<14} {:>7}  {}\n", "SETTING", "TRIED", "AGAINST", "WAIT", "95 %");
  for (const TuneTrial& trial : outcome.search.trials) {
    if (!trial.failure.empty()) {
      out += fmt::format("{:<28} {:<14} {:<14} {}\n", setting_key(trial.setting), trial.value, trial.against,
                         printable(trial.failure, 200));
      continue;
    }
    const std::string interval =
        trial.rounds == 0 ? "one look" : fmt::format("{:.3f} to {:.3f}", trial.ratio.low, trial.ratio.high);
    out += fmt::format("{:<28} {:<14} {:<14} {:>6.3f}x  {}{}\n", setting_key(trial.setting), trial.value, trial.against,
                       trial.ratio.value, interval, trial.taken ? "  taken" : "");
  }
  if (!outcome.search.in_time)
    out += "the time was up before all that looked better was compared; --minutes gives more\n";
  if (!outcome.recommended) {
    return out + "\nno recommendation: nothing was found that is better than today's settings beyond the noise\n";
  }
  out += "\nrecommended:\n";
  for (const auto& [name, text] : outcome.best) {
    if (text != outcome.today.at(name))
      out += fmt::format("  {} = {}   (today {})\n", setting_key(name), text, outcome.today.at(name));
  }
  out += fmt::format("\n{:<24} {:>9}  {}\n", "AGAINST TODAY", "RATIO", "95 %");
  for (const auto& [name, member] : kMeasures) {
    const Interval& interval = (*outcome.measures).*member;
    out += fmt::format("{:<24} {:>8.3f}x  {:.3f} to {:.3f}\n", name, interval.value, interval.low, interval.high);
  }
  return out;
}

Result<Final> final_rounds(const Outcome& outcome, const std::function<Result<Replay>(const Candidate&)>& play) {
  Final out;
  for (int round = 0; round < kFinalRounds; ++round) {
    const bool best_first = round % 2 == 1;
    DSPARK_TRY(Replay first, play(best_first ? outcome.best : outcome.today));
    DSPARK_TRY(Replay second, play(best_first ? outcome.today : outcome.best));
    Replay &best = best_first ? first : second, &today = best_first ? second : first;
    out.today_rates.push_back(static_cast<double>(today.output_tokens) / today.seconds);
    out.best_rates.push_back(static_cast<double>(best.output_tokens) / best.seconds);
    out.today.push_back(std::move(today.times));
    out.best.push_back(std::move(best.times));
  }
  return out;
}

Status write_files(const Settings& settings, const LoggedTraffic& whole, const LoggedTraffic& played,
                   const Outcome& outcome) {
  const std::filesystem::path folder = settings.get<"out">();
  if (folder.empty()) return Ok{};
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  const std::string warm_up = warm_up_lines(whole);
  if (!warm_up.empty()) DSPARK_RETURN_IF_ERROR(replace_file((folder / "warm-up.jsonl").string(), warm_up));
  if (outcome.recommended) {
    DSPARK_RETURN_IF_ERROR(replace_file((folder / "config.toml").string(), config_text(settings, outcome.best)));
  }
  return replace_file((folder / "tune.json").string(), as_json(played, outcome).dump(1) + "\n");
}

}  // namespace

Result<ExitCode> cmd_tune(const Invocation& call) {
  const Settings& settings = call.settings;
  const std::string path = settings.get<"access-log">();
  if (path.empty()) return make_error(ErrorCode::kInvalidArgument, "no log to replay; name one with --access-log FILE");
  DSPARK_TRY(const LoggedTraffic whole, read_traffic(path));
  const double seconds = 60.0 * settings.get<"minutes">();
  LoggedTraffic traffic = busiest(whole, kReplayShare * seconds, kFewestRequests);
  const std::vector<Knob> searched = knobs(settings, traffic);
  Outcome outcome;
  for (const Knob& knob : searched) {
    const size_t index = find_setting(knob.setting);
    outcome.today[knob.setting] = format_setting(kSettings[index], settings.entry(index).value);
  }
  Engines engines(settings);
  std::vector<std::vector<int32_t>> prompts;
  const auto play = [&](const Candidate& candidate) -> Result<Replay> {
    const int opened = engines.opened();
    DSPARK_TRY(Engine * engine, engines.get(candidate));
    if (prompts.empty()) prompts = traffic_prompts(*engine, traffic);
    if (engines.opened() > opened) {  // its pages and its cost model are cold: once for nobody
      DSPARK_RETURN_IF_ERROR(replay(*engine, traffic, prompts));
    }
    return replay(*engine, traffic, prompts);
  };
  const Clock::time_point start = Clock::now();
  DSPARK_TRY(const Replay whole_stretch, play(outcome.today));
  if (const double share = kReplayShare * seconds / whole_stretch.seconds; share < 1.0) {
    traffic = busiest(whole, share * traffic.seconds(), kFewestRequests);
    prompts.clear();
  }
  DSPARK_TRY(outcome.search, search_settings(
                                 outcome.today, searched, {},
                                 [&](const Candidate& candidate) -> Result<Round> {
                                   DSPARK_TRY(Replay played, play(candidate));
                                   return std::move(played.times);
                                 },
                                 [&] {
                                   const std::chrono::duration<double> used = Clock::now() - start;
                                   return used.count() / ((1 - kFinalShare) * seconds);
                                 }));
  outcome.best = outcome.search.best;
  if (outcome.best != outcome.today) {
    DSPARK_TRY(const Final final, final_rounds(outcome, play));
    outcome.measures = measures_of(final);
    outcome.recommended = outcome.measures->wait.below(1.0);
  }
  DSPARK_RETURN_IF_ERROR(write_files(settings, whole, traffic, outcome));
  DSPARK_RETURN_IF_ERROR(settings.get<"json">() ? write_json(as_json(traffic, outcome))
                                                : write_output(as_text(traffic, outcome)));
  return ExitCode::kOk;
}

}  // namespace dspark
