// See bench_speculation.h.
#include "tools/bench_speculation.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/median.h"
#include "base/sha256.h"
#include "engine/request_stream.h"
#include "tools/compute.h"
#include "tools/io.h"
#include "tools/progress.h"
#include "tools/prompt_set.h"

namespace dspark {
namespace {

using nlohmann::ordered_json;

// A way of guessing, with an engine of its own.
struct Mode {
  std::string name;  // "off", "fixed:K" or "planned"
  std::unique_ptr<Engine> engine;
};

struct Cell {
  const PromptSet* set;
  int clients;
};

// What one round of a cell gave.
struct Measured {
  int64_t tokens = 0;
  double seconds = 0.0;
  double user_tokens_per_second = 0.0;  // mean over the answers, from their first token to their last
  double tokens_per_step = 0.0;         // of an answer
  LoopStats before, after;
  std::string digest;  // of all tokens
};

int most_clients(const Settings& settings) {
  const std::vector<int64_t>& clients = settings.get<"clients">();
  return clients.empty() ? 1 : static_cast<int>(*std::ranges::max_element(clients));
}

Result<Mode> open_mode(const Settings& settings, const std::string& name) {
  DSPARK_TRY(EngineOptions options, engine_options(settings));
  options.schedule.max_running = std::max(options.schedule.max_running, most_clients(settings));
  if (name == "off") {
    options = without_drafts(std::move(options));
  } else {
    DSPARK_TRY(options.speculation.fixed, fixed_drafts_from_mode(name));
  }
  DSPARK_TRY(auto engine, open_engine(options));
  return Mode{name, std::move(engine)};
}

// Every client asks its next prompt when its answer is there; each prompt once, or so often that all clients have one.
Result<Measured> measure(Engine& engine, const Cell& cell, const SamplingParams& sampling, int max_tokens) {
  engine.runner().kv().drop_cached();
  const size_t requests = std::max(static_cast<size_t>(cell.clients), cell.set->prompts.size());
  Measured out;
  out.before = engine.loop().stats();
  RequestStream stream(engine.loop(), cell.clients);
  std::vector<StreamedAnswer> answers(requests);
  const auto start = std::chrono::steady_clock::now();
  for (size_t asked = 0, done = 0; done < requests;) {
    for (; stream.has_room() && asked < requests; ++asked) {
      Request request;
      request.prompt = cell.set->prompts[asked % cell.set->prompts.size()];
      request.sampling = sampling;
      request.sampling.seed += asked;
      request.max_tokens = max_tokens;
      DSPARK_RETURN_IF_ERROR(stream.add(asked, std::move(request)));
    }
    DSPARK_TRY(std::vector<StreamedAnswer> finished, stream.take());
    done += finished.size();
    for (StreamedAnswer& answer : finished) answers[answer.tag] = std::move(answer);
  }
  out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  engine.loop().wait_until_idle(std::chrono::seconds(10));  // so that the statistics are whole
  out.after = engine.loop().stats();
  Sha256 digest;
  int64_t own = 0, rated = 0;
  for (const StreamedAnswer& answer : answers) {
    out.tokens += static_cast<int64_t>(answer.tokens.size());
    own += std::count(answer.drafted.begin(), answer.drafted.end(), false);
    for (const int32_t token : answer.tokens) digest.add_field("token", static_cast<uint64_t>(token));
    if (answer.tokens.size() < 2 || answer.stats.decode_seconds <= 0.0) continue;
    out.user_tokens_per_second += static_cast<double>(answer.tokens.size() - 1) / answer.stats.decode_seconds;
    ++rated;
  }
  out.user_tokens_per_second /= static_cast<double>(std::max<int64_t>(1, rated));
  out.tokens_per_step = static_cast<double>(out.tokens) / static_cast<double>(std::max<int64_t>(1, own));
  out.digest = to_hex(digest.finish());
  return out;
}

ordered_json measured_json(const Measured& measured) {
  const LoopStats loop = measured.after - measured.before;
  const SpeculationStats &before = measured.before.speculation, &after = measured.after.speculation;
  const double steps = static_cast<double>(std::max<int64_t>(1, loop.steps));
  return {{"tokens", measured.tokens},
          {"tokens_per_second", static_cast<double>(measured.tokens) / measured.seconds},
          {"user_tokens_per_second", measured.user_tokens_per_second},
          {"tokens_per_step", measured.tokens_per_step},
          {"steps", loop.steps},
          {"drafted", loop.drafted},
          {"accepted", loop.accepted},
          {"accepted_expected", after.expected_accepted - before.expected_accepted},
          {"step_ms_expected", 1e3 * loop.expected_seconds / steps},
          {"step_ms", 1e3 * loop.actual_seconds / steps},
          {"draft_ms_per_step", 1e3 * (after.draft_seconds - before.draft_seconds) / steps},
          {"plan_ms_per_step", 1e3 * (after.plan_seconds - before.plan_seconds) / steps}};
}

// A line of the table: the medians of the rounds.
std::string cell_text(const Cell& cell, const std::string& mode, const ordered_json& rounds) {
  const auto median_of = [&](const char* key) {
    std::vector<double> values;
    for (const auto& round : rounds) values.push_back(round[key].get<double>());
    return median(std::move(values));
  };
  return fmt::format("{:<12} {:>7} {:<8} {:>8.0f} {:>8.1f} {:>6.2f} {:>8.3f} {:>8.3f}\n", cell.set->name, cell.clients,
                     mode, median_of("tokens_per_second"), median_of("user_tokens_per_second"),
                     median_of("tokens_per_step"), median_of("step_ms"), median_of("draft_ms_per_step"));
}

}  // namespace

Result<ExitCode> bench_speculation(const Settings& settings) {
  if (settings.get<"prompts">().empty()) {
    return make_error(ErrorCode::kInvalidArgument, "no prompts to answer; name a file with --prompts FILE");
  }
  std::vector<Mode> modes;
  std::vector<std::string> names = settings.get<"modes">();
  if (names.empty()) names = {"off", "fixed:1", "fixed:5", "planned"};
  for (const std::string& name : names) {
    DSPARK_TRY(Mode mode, open_mode(settings, name));
    modes.push_back(std::move(mode));
  }
  std::vector<PromptSet> sets;
  for (const std::string& file : settings.get<"prompts">()) {
    DSPARK_TRY(PromptSet set, load_prompt_set(*modes.front().engine, file, settings.get<"limit">()));
    sets.push_back(std::move(set));
  }
  std::vector<Cell> cells;
  for (const PromptSet& set : sets) {
    for (const int64_t clients : settings.get<"clients">()) cells.push_back({&set, static_cast<int>(clients)});
  }
  SamplingParams sampling;
  sampling.temperature = settings.get<"temp">();
  sampling.seed = static_cast<uint64_t>(settings.get<"seed">());
  const int64_t rounds = settings.get<"repeats">(), max_tokens = settings.get<"max-tokens">();
  Progress progress("cells", ProgressUnit::kSteps, rounds * static_cast<int64_t>(cells.size() * modes.size()));
  ordered_json report = {{"threads", modes.front().engine->runner().pool().size()},
                         {"isa", isa_name(modes.front().engine->runner().isa())},
                         {"temperature", sampling.temperature},
                         {"max_tokens", max_tokens},
                         {"cells", ordered_json::array()}};
  std::string text = "set          clients mode      tok/s  tok/s/user  /step  step,ms draft,ms\n";
  int64_t done = 0;
  for (const Cell& cell : cells) {
    std::vector<ordered_json> found(modes.size(), ordered_json::array());
    std::string digest;
    for (int64_t round = 0; round < rounds; ++round) {
      for (size_t i = 0; i < modes.size(); ++i) {
        DSPARK_TRY(const Measured measured, measure(*modes[i].engine, cell, sampling, static_cast<int>(max_tokens)));
        if (digest.empty()) digest = measured.digest;
        if (digest != measured.digest) {
          return make_error(ErrorCode::kInternal, "{} with {} clients: {} gave other tokens than {}; please report it",
                            cell.set->name, cell.clients, modes[i].name, modes.front().name);
        }
        found[i].push_back(measured_json(measured));
        progress.update(++done);
      }
    }
    for (size_t i = 0; i < modes.size(); ++i) {
      report["cells"].push_back({{"set", cell.set->name},
                                 {"bucket", cell.set->bucket},
                                 {"clients", cell.clients},
                                 {"mode", modes[i].name},
                                 {"rounds", found[i]}});
      text += cell_text(cell, modes[i].name, found[i]);
    }
  }
  DSPARK_RETURN_IF_ERROR(settings.get<"json">() ? write_json(report) : write_output(text));
  return ExitCode::kOk;
}

}  // namespace dspark
