// Tests of health.h: with an engine that answers from a script and statistics of our own, and with a step loop whose
// cost model starts from nonsense.
#include "server/health.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine/loop_harness.h"
#include "server/serving_standin.h"

namespace dspark {
namespace {

using namespace std::chrono_literals;

template <class Condition>
bool eventually(Condition condition) {
  for (int i = 0; i < 12000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(5ms);
  }
  return false;
}

// Statistics that the test sets.
class Numbers {
 public:
  LoopStats get() const {
    const std::lock_guard lock(mutex_);
    return stats_;
  }
  template <class Change>
  void change(Change change) {
    const std::lock_guard lock(mutex_);
    change(stats_);
  }

 private:
  mutable std::mutex mutex_;
  LoopStats stats_;
};

constexpr HealthOptions kQuick = {
    .step_timeout = 1000ms, .self_test_every = 1ms, .remembered = 50ms, .look_every = 1ms};

std::vector<std::string> modes(const HealthMonitor& monitor) {
  std::vector<std::string> out;
  const auto json = health_json(monitor.health());
  for (const auto& each : json["degraded"]) out.push_back(each["mode"]);
  return out;
}

bool is(const HealthMonitor& monitor, std::vector<std::string> wanted) {
  return eventually([&] { return modes(monitor) == wanted; });
}

TEST(Health, AStepIsStuckBeyondTheTimeoutAndWhatWasForeseen) {
  Numbers numbers;
  StandinServing serving(Script{});
  HealthMonitor monitor(
      serving, [&] { return numbers.get(); }, {}, kQuick, [] {});
  numbers.change([](LoopStats& s) { s.step_seconds = 4.0, s.step_foreseen_seconds = 0.5; });
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(modes(monitor), std::vector<std::string>{});
  numbers.change([](LoopStats& s) { s.step_seconds = 5.1; });
  ASSERT_TRUE(is(monitor, {"stuck_step"}));
  EXPECT_FALSE(monitor.health().ready);
  EXPECT_TRUE(monitor.health().live);
  numbers.change([](LoopStats& s) { s.step_seconds = 31.0; });
  EXPECT_TRUE(eventually([&] { return !monitor.health().live; }));
  numbers.change([](LoopStats& s) { s.step_seconds = 0.0; });
  ASSERT_TRUE(is(monitor, {}));
  EXPECT_TRUE(monitor.health().ready);
  EXPECT_TRUE(monitor.health().live);
}

TEST(Health, ALoopThatDoesNotWakeUpForRequestsIsStuck) {
  Numbers numbers;
  StandinServing serving(Script{});
  HealthOptions options = kQuick;
  options.step_timeout = 200ms;
  HealthMonitor monitor(
      serving, [&] { return numbers.get(); }, {}, options, [] {});
  numbers.change([](LoopStats& s) { s.requests_waiting = 1; });
  ASSERT_TRUE(is(monitor, {"stuck_step"}));
  EXPECT_TRUE(eventually([&] { return !monitor.health().live; }));
  numbers.change([](LoopStats& s) { ++s.steps, s.requests_waiting = 0; });
  ASSERT_TRUE(is(monitor, {}));
  EXPECT_TRUE(monitor.health().live);
}

TEST(Health, EventsAreModesForAWhile) {
  Numbers numbers;
  StandinServing serving(Script{});
  HealthMonitor monitor(
      serving, [&] { return numbers.get(); }, {}, kQuick, [] {});
  std::this_thread::sleep_for(20ms);
  numbers.change([](LoopStats& s) { ++s.speculation.broken, s.speculation.pauses += 3, ++s.speculation.cost_alarms; });
  ASSERT_TRUE(is(monitor, {"broken_drafter", "drafts_paused", "cost_model_off"}));
  EXPECT_TRUE(monitor.health().ready);
  ASSERT_TRUE(is(monitor, {}));
  double events = 0;
  for (const MetricSample& sample : monitor.metrics()) {
    if (sample.name == "dspark_self_healing_events_total") events += sample.value;
  }
  EXPECT_EQ(events, 5);
}

// Says something else from a given request on.
class Forgetful final : public Serving {
 public:
  Result<RequestId> submit(Request request, std::shared_ptr<RequestListener> listener) override {
    const int number = ++asked_;
    if (number == 6) {
      listener->on_end(make_error(ErrorCode::kCorrupt, "NaN"), {});
      return RequestId{1};
    }
    listener->on_token({.token = number < 4 || number > 6 ? 7 : 8});
    listener->on_end(Ok{}, {});
    return RequestId{1};
  }
  void cancel(RequestId) override {}

 private:
  std::atomic<int> asked_{0};
};

TEST(Health, TheSelfTestNoticesOtherTokensAndErrors) {
  Forgetful serving;
  HealthMonitor monitor(
      serving, [] { return LoopStats{}; }, {1, 2, 3}, kQuick, [] {});
  ASSERT_TRUE(eventually([&] { return monitor.health().self_tests >= 8; }));
  EXPECT_EQ(monitor.health().self_tests_failed, 3);
  EXPECT_TRUE(is(monitor, {}));  // it answers as at the start again
}

TEST(Health, ThereIsNoSelfTestWhileOthersAsk) {
  Numbers numbers;
  numbers.change([](LoopStats& s) { s.running = 1; });
  StandinServing serving(Script{});
  HealthMonitor monitor(
      serving, [&] { return numbers.get(); }, {1}, kQuick, [] {});
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(serving.seen().size(), 0u);
  numbers.change([](LoopStats& s) { s.running = 0; });
  EXPECT_TRUE(eventually([&] { return monitor.health().self_tests > 0; }));
}

// A table that says the opposite of the truth: the loop answers as before, somebody hears of it, and it is learnt anew.
TEST(Health, APoisonedCostTableIsReportedAndForgotten) {
  const auto ask = [](LoopUnderTest& loop, uint64_t seed) {
    Request request;
    request.prompt = {5, 6, 7, 5, 6, 7, 5, 6};
    request.max_tokens = 200;
    request.sampling.seed = seed;
    request.sampling.ignore_eos = true;
    return loop.run(request);
  };
  LoopUnderTest plain(tiny_path("qwen3/qwen3.gguf"), {});
  LoopSetting setting;
  const CostPoint poison[] = {{1, 1e5}, {2, 1e-6}, {8, 1e-6}, {64, 1e-5}};
  setting.loop.cost = CostModel::create(poison, {}).value();
  LoopUnderTest loop(tiny_path("qwen3/qwen3.gguf"), setting);
  HealthOptions options = kQuick;
  options.remembered = 500ms;
  HealthMonitor monitor(
      loop.loop(), [&] { return loop.loop().stats(); }, {}, options, [] {});
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(ask(loop, 1), ask(plain, 1));
  EXPECT_TRUE(is(monitor, {"cost_model_off"}));
  EXPECT_TRUE(is(monitor, {}));
  for (uint64_t seed = 2; seed < 6; ++seed) EXPECT_EQ(ask(loop, seed), ask(plain, seed));
  const LoopStats learnt = loop.loop().stats();
  ask(loop, 9);
  const LoopStats last = loop.loop().stats() - learnt;
  const double foreseen_ms = 1e3 * last.expected_seconds / static_cast<double>(last.steps);
  EXPECT_LT(foreseen_ms, 1e3) << "the table said 1e5 for a row";
  EXPECT_GT(foreseen_ms, 1e-4) << "and 1e-6 for several";
}

}  // namespace
}  // namespace dspark
