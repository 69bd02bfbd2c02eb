// See health.h.
#include "server/health.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <nlohmann/json.hpp>

#include "base/log.h"

namespace dspark {
namespace {

constexpr int kTestTokens = 4;
constexpr double kTimesForeseen = 10.0;           // a step that takes longer than that may be stuck
constexpr int kNotLive = 6;                       // times the step timeout
constexpr std::chrono::seconds kBetweenSigns{1};  // of life
constexpr const char* kTenant = "dspark-self-test";

double seconds(std::chrono::steady_clock::duration d) { return std::chrono::duration<double>(d).count(); }

}  // namespace

// A request of our own. The step thread writes, the monitor reads once `done` is true.
class HealthMonitor::SelfTest final : public RequestListener {
 public:
  bool on_token(const TokenEvent& event) override {
    tokens.push_back(event.token);
    return true;
  }
  void on_choice_end(const ChoiceEnd&) override {}
  void on_end(const Status& end, const RequestStats&) override {
    status = end;
    done.store(true, std::memory_order_release);
  }

  std::vector<int32_t> tokens;
  Status status = Ok{};
  std::atomic<bool> done{false};
};

HealthMonitor::HealthMonitor(Serving& serving, std::function<LoopStats()> stats, std::vector<int32_t> test_prompt,
                             HealthOptions options, std::function<void()> alive)
    : serving_(serving),
      stats_(std::move(stats)),
      test_prompt_(std::move(test_prompt)),
      options_(options),
      alive_(std::move(alive)),
      next_test_(Clock::now()),
      thread_([this] { watch(); }) {}

HealthMonitor::~HealthMonitor() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void HealthMonitor::watch() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    lock.unlock();
    look();
    lock.lock();
    wake_.wait_for(lock, options_.look_every, [&] { return stop_; });
  }
}

void HealthMonitor::look() {
  const LoopStats stats = stats_();
  if (!test_prompt_.empty()) watch_self_test(stats);
  bool live = true;
  {
    const std::lock_guard lock(mutex_);
    watch_step(stats);
    watch_counters(stats);
    live = live_;
  }
  seen_ = stats;
  if (!live || Clock::now() < next_alive_) return;
  next_alive_ = Clock::now() + kBetweenSigns;
  alive_();
}

void HealthMonitor::event(DegradedMode which, int64_t times, std::string detail) {
  Mode& it = mode(which);
  it.last = Clock::now();
  it.events += times;
  it.detail = std::move(detail);
  if (it.holds) return;
  it.holds = true;
  it.since = it.last;
  log(which == DegradedMode::kStuckStep || which == DegradedMode::kSelfTestFailed ? LogLevel::kError
                                                                                  : LogLevel::kWarning,
      "degraded, {}: {}", kDegradedModeNames[static_cast<size_t>(which)], it.detail);
}

void HealthMonitor::clear(DegradedMode which) {
  Mode& it = mode(which);
  if (!it.holds) return;
  it.holds = false;
  log(LogLevel::kWarning, "recovered from {} after {:.1f} s", kDegradedModeNames[static_cast<size_t>(which)],
      seconds(Clock::now() - it.since));
}

// That the step takes, or that none begins although requests wait: its thread does not wake up.
double HealthMonitor::seconds_standing(const LoopStats& stats) {
  const bool moves = stats.step_seconds > 0.0 || stats.requests_waiting == 0 || (seen_ && seen_->steps != stats.steps);
  if (moves) {
    standing_since_.reset();
    return stats.step_seconds;
  }
  if (!standing_since_) standing_since_ = Clock::now();
  return seconds(Clock::now() - *standing_since_);
}

void HealthMonitor::watch_step(const LoopStats& stats) {
  const double timeout = seconds(options_.step_timeout);
  const double limit = std::max(timeout, kTimesForeseen * stats.step_foreseen_seconds);
  const double standing = seconds_standing(stats);
  live_ = standing < kNotLive * limit;
  if (standing < limit) return clear(DegradedMode::kStuckStep);
  Mode& it = mode(DegradedMode::kStuckStep);
  event(DegradedMode::kStuckStep, it.holds ? 0 : 1,
        fmt::format("step {} has not ended for {:.1f} s, longer than {:.1f} s; new requests are refused until it ends",
                    stats.steps + 1, standing, limit));
}

// Modes that begin with an event and end once there has been none for a while.
void HealthMonitor::watch_counters(const LoopStats& stats) {
  if (!seen_) return;
  const SpeculationStats &now = stats.speculation, &before = seen_->speculation;
  if (const int64_t n = now.broken - before.broken; n > 0) {
    event(DegradedMode::kBrokenDrafter, n, "drafts hold NaN; those requests go on without that drafter");
  }
  if (const int64_t n = now.pauses - before.pauses; n > 0) {
    event(DegradedMode::kDraftsPaused, n, "drafts of some requests keep failing; these draft again later");
  }
  if (const int64_t n = now.cost_alarms - before.cost_alarms; n > 0) {
    event(DegradedMode::kCostModelOff, n, "steps take twice, or half, of what was foreseen; plans learn from them");
  }
  for (const DegradedMode which :
       {DegradedMode::kBrokenDrafter, DegradedMode::kDraftsPaused, DegradedMode::kCostModelOff}) {
    if (Clock::now() - mode(which).last > options_.remembered) clear(which);
  }
}

void HealthMonitor::watch_self_test(const LoopStats& stats) {
  if (test_ == nullptr) {
    if (Clock::now() < next_test_ || stats.running + stats.requests_waiting > 0 || stats.draining) return;
    return start_self_test();
  }
  if (!test_->done.load(std::memory_order_acquire)) return;  // a step that does not end is seen by itself
  const std::shared_ptr<SelfTest> test = std::move(test_);
  test_ = nullptr;
  next_test_ = Clock::now() + options_.self_test_every;
  const std::lock_guard lock(mutex_);
  if (!test->status.ok() && test->status.error().code == ErrorCode::kUnavailable) return;  // shutting down
  ++self_tests_;
  if (test->status.ok() && !expected_) expected_ = test->tokens;
  if (test->status.ok() && test->tokens == *expected_) return clear(DegradedMode::kSelfTestFailed);
  ++self_tests_failed_;
  event(DegradedMode::kSelfTestFailed, 1,
        test->status.ok() ? "the same request gives other tokens than at the start: memory or the machine is broken"
                          : test->status.error().message);
}

// Every time a salt of its own, so that nothing of it comes from the cache.
void HealthMonitor::start_self_test() {
  Request request;
  request.prompt = test_prompt_;
  request.sampling.temperature = 0.0;
  request.max_tokens = kTestTokens;
  request.tenant = kTenant;
  request.cache_salt = std::to_string(self_tests_);
  auto test = std::make_shared<SelfTest>();
  if (const auto id = serving_.submit(std::move(request), test); id.ok()) {
    test_ = std::move(test);
  } else {
    next_test_ = Clock::now() + options_.self_test_every;
  }
}

Health HealthMonitor::health() const {
  const std::lock_guard lock(mutex_);
  Health out = {.live = live_, .self_tests = self_tests_, .self_tests_failed = self_tests_failed_};
  for (size_t i = 0; i < modes_.size(); ++i) {
    if (!modes_[i].holds) continue;
    out.degraded.push_back({static_cast<DegradedMode>(i), modes_[i].detail, seconds(Clock::now() - modes_[i].since)});
    if (static_cast<DegradedMode>(i) == DegradedMode::kStuckStep) out.ready = false;
  }
  return out;
}

std::vector<MetricSample> HealthMonitor::metrics() const {
  std::vector<MetricSample> out;
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < modes_.size(); ++i) {
    out.push_back({"dspark_degraded",
                   "Whether a degraded mode holds",
                   false,
                   modes_[i].holds ? 1.0 : 0.0,
                   {{"mode", std::string(kDegradedModeNames[i])}}});
  }
  for (size_t i = 0; i < modes_.size(); ++i) {
    out.push_back({"dspark_self_healing_events_total",
                   "What led to degraded modes, since the start",
                   true,
                   static_cast<double>(modes_[i].events),
                   {{"mode", std::string(kDegradedModeNames[i])}}});
  }
  out.push_back({"dspark_self_tests_total", "Requests of the server's own", true, static_cast<double>(self_tests_)});
  out.push_back({"dspark_live", "0: only a restart helps", false, live_ ? 1.0 : 0.0});
  return out;
}

nlohmann::ordered_json health_json(const Health& health) {
  auto degraded = nlohmann::ordered_json::array();
  for (const Health::Degraded& each : health.degraded) {
    degraded.push_back({{"mode", kDegradedModeNames[static_cast<size_t>(each.mode)]},
                        {"detail", each.detail},
                        {"seconds", each.seconds}});
  }
  return {{"status", !health.ready             ? "stuck"
                     : health.degraded.empty() ? "ok"
                                               : "degraded"},
          {"live", health.live},
          {"ready", health.ready},
          {"degraded", std::move(degraded)},
          {"self_tests", health.self_tests},
          {"self_tests_failed", health.self_tests_failed}};
}

}  // namespace dspark
