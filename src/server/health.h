// HealthMonitor: notices what goes wrong with a serving engine and says so (docs/server.md, "Health"): a step that does
// not end, a drafter that breaks or does not pay, a cost model that is off, and an engine that no longer answers a
// small request of its own as it did at the start. It heals nothing itself: the engine does; this tells people, and
// keeps new requests from waiting behind a stuck step. A thread of its own looks; the rest from any thread.
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "engine/loop_stats.h"
#include "engine/request.h"
#include "server/metrics.h"

namespace dspark {

// The degraded modes, as /health and metrics name them.
enum class DegradedMode { kStuckStep, kSelfTestFailed, kBrokenDrafter, kDraftsPaused, kCostModelOff };
inline constexpr std::array<std::string_view, 5> kDegradedModeNames = {
    "stuck_step", "self_test_failed", "broken_drafter", "drafts_paused", "cost_model_off"};

struct HealthOptions {
  // A step is stuck once it takes this long, and ten times what was foreseen. Six times that, and it is not live.
  std::chrono::milliseconds step_timeout{10'000};
  std::chrono::milliseconds self_test_every{30'000};  // while nothing else runs
  std::chrono::milliseconds remembered{10'000};       // how long after its last event a mode still holds
  std::chrono::milliseconds look_every{100};
};

struct Health {
  struct Degraded {
    DegradedMode mode;
    std::string detail;
    double seconds;  // since it began
  };
  bool live = true;   // false: only a restart helps
  bool ready = true;  // false: new requests would wait behind a stuck step
  std::vector<Degraded> degraded = {};
  int64_t self_tests = 0, self_tests_failed = 0;
};

class HealthMonitor {
 public:
  // `serving` must outlive it. `test_prompt`: what the self-test asks; empty: there is none. `alive` is called now and
  // then while the engine is live, for whoever supervises this process.
  HealthMonitor(Serving& serving, std::function<LoopStats()> stats, std::vector<int32_t> test_prompt,
                HealthOptions options, std::function<void()> alive);
  ~HealthMonitor();

  Health health() const;
  std::vector<MetricSample> metrics() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Mode {
    bool holds = false;
    std::string detail;
    Clock::time_point since, last;
    int64_t events = 0;
  };
  class SelfTest;

  void watch();
  void look();
  void event(DegradedMode mode, int64_t times, std::string detail);
  void clear(DegradedMode mode);
  double seconds_standing(const LoopStats& stats);
  void watch_step(const LoopStats& stats);
  void watch_counters(const LoopStats& stats);
  void watch_self_test(const LoopStats& stats);
  void start_self_test();
  Mode& mode(DegradedMode which) { return modes_[static_cast<size_t>(which)]; }

  Serving& serving_;
  const std::function<LoopStats()> stats_;
  const std::vector<int32_t> test_prompt_;
  const HealthOptions options_;
  const std::function<void()> alive_;

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::array<Mode, kDegradedModeNames.size()> modes_;
  bool live_ = true;
  int64_t self_tests_ = 0, self_tests_failed_ = 0;

  // The monitor's thread's.
  std::optional<LoopStats> seen_;
  std::optional<Clock::time_point> standing_since_;  // the loop is idle though requests wait
  std::shared_ptr<SelfTest> test_;
  Clock::time_point next_test_, next_alive_;
  std::optional<std::vector<int32_t>> expected_;  // what the first self-test gave

  std::thread thread_;
};

nlohmann::ordered_json health_json(const Health& health);

}  // namespace dspark
