// See trial.h.
#include "tools/trial.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/request_stream.h"
#include "schedule/verify_plan.h"

namespace dspark {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kClients[] = {1, 2, 4, 8, 16, 32, 64, 96};  // of which steps are measured
constexpr int kPlainTokens = 12;
constexpr int kGuessedTokens = 48;
constexpr int kMostGuessing = 8;     // clients that guess in the trial
constexpr int kContext = 256;        // positions of a sequence, for what is expected
constexpr int kTrialDraft = 7;       // guesses of each draft
constexpr double kNearlyFree = 1.5;  // a step that takes at most so many times what one row takes
constexpr double kLeastGain = 0.01;
constexpr const char* kPrompts[] = {
    "Write a Python function that returns the n-th Fibonacci number, with a docstring and three assertions.",
    "Give me a JSON list of three people with the fields name, age and city.",
    "Tom has 3 boxes with 12 apples each. He gives 7 apples away. How many apples are left? Show your work.",
    "What should I think about before I adopt a dog?",
    "Repeat this text word by word: The quick brown fox jumps over the lazy dog. The dog sleeps on.",
};

std::vector<int32_t> prompt_tokens(const Engine& engine, size_t i) {
  const char* text = kPrompts[i % std::size(kPrompts)];
  const auto rendered = engine.render({{{"role", "user"}, {"content", text}}});
  return rendered.ok() ? engine.encode_rendered(*rendered) : engine.tokenizer().encode(text, {});
}

// `clients` answers at once.
Status answer(Engine& engine, int clients, int tokens) {
  RequestStream stream(engine.loop(), clients);
  for (int i = 0; i < clients; ++i) {
    Request request;
    request.prompt = prompt_tokens(engine, static_cast<size_t>(i));
    request.sampling.temperature = 0.0;
    request.sampling.ignore_eos = true;
    request.max_tokens = tokens;
    DSPARK_RETURN_IF_ERROR(stream.add(static_cast<uint64_t>(i), std::move(request)));
  }
  while (stream.active() > 0) {
    DSPARK_TRY([[maybe_unused]] const auto done, stream.take());
  }
  engine.loop().wait_until_idle(std::chrono::seconds(10));
  return Ok{};
}

// Of the drafts since `before`.
std::vector<double> survival_since(const SpeculationStats& before, const SpeculationStats& after) {
  std::vector<double> out;
  for (size_t i = 0; i < after.verified.size(); ++i) {
    const int64_t verified = after.verified[i] - before.verified[i];
    if (verified == 0) break;
    const double rate = static_cast<double>(after.accepted[i] - before.accepted[i]) / static_cast<double>(verified);
    out.push_back(out.empty() ? rate : std::min(out.back(), rate));
  }
  return out;
}

std::vector<std::string> reasons_for(const Trial& trial, const CostModel& cost) {
  std::vector<std::string> out;
  const double one = cost.ms({.rows = 1});
  int free_rows = 1;
  while (free_rows < 64 && cost.ms({.rows = free_rows + 1}) < kNearlyFree * one) ++free_rows;
  out.push_back(fmt::format("a step of one row takes {:.2f} ms, and up to {} rows take less than {} times as long{}",
                            one, free_rows, kNearlyFree,
                            free_rows < 3 ? ": checking guesses costs nearly as much as computing tokens" : ""));
  if (trial.survival.empty()) {
    out.push_back("nothing was guessed: there is no drafter, or it is switched off");
    return out;
  }
  double tau = 1.0;
  for (const double chance : trial.survival) tau += chance;
  out.push_back(
      fmt::format("with {} guesses checked in each step, a step brings {:.2f} tokens; the first guess is right "
                  "in {:.0f} % of all cases",
                  trial.survival.size(), tau, 100 * trial.survival[0]));
  if (trial.draft_ms > 0.0) {
    out.push_back(fmt::format("guessing for one sequence takes {:.2f} ms, {:.0f} % of a step of one row",
                              trial.draft_ms, 100 * trial.draft_ms / one));
  }
  return out;
}

}  // namespace

ExpectedSpeed expected_speed(const CostModel& cost, std::span<const double> survival, bool costs_time, int clients) {
  const auto speed = [&](size_t length) {
    std::vector<float> chances(survival.begin(), survival.begin() + static_cast<std::ptrdiff_t>(length));
    const std::vector<DraftedSequence> sequences(static_cast<size_t>(clients), {chances, kContext});
    const StepBase base = {.draft_rows = {costs_time ? clients * static_cast<int>(length) : 0}};
    const VerifyPlan plan = plan_verification(sequences, base, cost, {});
    return 1e3 * plan.expected_tokens / plan.expected_ms;
  };
  ExpectedSpeed out = {clients, speed(0), speed(0)};
  for (size_t length = 1; length <= survival.size(); ++length) out.dspark = std::max(out.dspark, speed(length));
  return out;
}

Result<Trial> run_trial(Engine& engine, std::chrono::seconds patience) {
  StepLoop& loop = engine.loop();
  const StepLoopOptions start = loop.options();
  const auto set_fixed = [&](int fixed) {
    LiveLoopOptions options = {start.schedule, start.max_queue, start.speculation};
    options.speculation.fixed = fixed;
    options.speculation.pauses = false;
    loop.reconfigure(options);
  };
  Trial trial;
  const Clock::time_point begin = Clock::now();
  const SpeculationStats before = loop.stats().speculation;
  for (const int clients : kClients) {
    const int64_t blocks = int64_t{clients} * ((kContext + kTilePositions - 1) / kTilePositions);
    if (clients > start.schedule.max_running) {
      trial.why_no_more = "--max-running allows no more at once";
      break;
    }
    if (blocks > engine.runner().kv().capacity_blocks()) {
      trial.why_no_more = "there is no KV memory for more";
      break;
    }
    set_fixed(0);
    DSPARK_RETURN_IF_ERROR(answer(engine, clients, kPlainTokens));
    trial.steps.push_back({clients, 0.0});
    if (clients <= kMostGuessing) {
      set_fixed(kTrialDraft);
      DSPARK_RETURN_IF_ERROR(answer(engine, clients, kGuessedTokens));
    }
    if (Clock::now() - begin > patience / 2 && clients != *std::rbegin(kClients)) {
      trial.why_no_more = "this machine is too slow or too busy to try more in the time";
      break;  // the next takes about as long as all before it
    }
  }
  loop.reconfigure({start.schedule, start.max_queue, start.speculation});
  const SpeculationStats after = loop.stats().speculation;
  const CostModel& cost = loop.cost();
  for (CostPoint& point : trial.steps) point.ms = cost.ms({.rows = point.rows, .draws = point.rows});
  trial.survival = survival_since(before, after);
  const bool costs_time = after.drafts > before.drafts;
  if (costs_time) trial.draft_ms = cost.ms({.rows = 1, .draft_rows = {kTrialDraft}}) - cost.ms({.rows = 1});
  for (const CostPoint& point : trial.steps) {
    if (point.rows != 1 && point.rows < 8) continue;
    trial.expected.push_back(expected_speed(cost, trial.survival, costs_time, point.rows));
    if (trial.stops_paying_at == 0 && trial.expected.back().gain() < kLeastGain) trial.stops_paying_at = point.rows;
  }
  trial.reasons = reasons_for(trial, cost);
  return trial;
}

}  // namespace dspark
