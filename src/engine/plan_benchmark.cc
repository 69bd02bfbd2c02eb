// Microseconds that planning a step takes, by the number of requests: what is drafted and verified (Speculation,
// without the drafters themselves) and the schedule of the rows, the median over steps of the thread's CPU time. Built
// on request: ninja plan_benchmark.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <limits>
#include <random>

#include "engine/speculation.h"
#include "schedule/schedule.h"

namespace dspark {
namespace {

constexpr int kSteps = 301;

double thread_us() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e6 * static_cast<double>(now.tv_sec) + 1e-3 * static_cast<double>(now.tv_nsec);
}

// Drafts in no time, whose survival differs from sequence to sequence and from step to step; a look-up finds something
// for one in two. Counts its own time.
class InstantDrafter final : public Drafter {
 public:
  InstantDrafter(int tokens, bool costs) : tokens_(tokens), costs_(costs) {}
  std::string_view name() const override { return "instant"; }
  int max_tokens() const override { return tokens_; }
  bool costs_time() const override { return costs_; }
  void propose(std::span<DraftRequest* const> requests) override {
    const double start = thread_us();
    for (DraftRequest* request : requests) {
      if (!costs_ && random_() % 2 == 0) continue;
      double survival = 1.0;
      const double chance = 0.3 + 0.65 * std::generate_canonical<double, 32>(random_);
      for (int i = 0; i < std::min(tokens_, request->max_tokens); ++i) {
        survival *= chance;
        request->draft.push_back({7, static_cast<float>(survival), std::numeric_limits<float>::quiet_NaN()});
      }
    }
    us += thread_us() - start;
  }
  double us = 0.0;

 private:
  int tokens_;
  bool costs_;
  std::mt19937 random_{1};
};

CostModel machine() {
  std::vector<CostPoint> points;
  for (const int rows : {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128, 256, 512})
    points.push_back({rows, 3.5 + 0.7 * rows});
  return CostModel::create(points, {.context_ms = 1e-4, .drafts = {{{.ms = 0.5, .row_ms = 0.05}}}}).value();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + std::ssize(values) / 2, values.end());
  return values[values.size() / 2];
}

double speculation_us(int requests, bool trained) {
  std::vector<std::shared_ptr<InstantDrafter>> drafters = {std::make_shared<InstantDrafter>(16, false)};
  if (trained) drafters.push_back(std::make_shared<InstantDrafter>(7, true));
  Speculation speculation({}, {drafters.begin(), drafters.end()});
  const CostModel cost = machine();
  const std::vector<int32_t> tokens(400, 3);
  std::vector<Speculated> choices(static_cast<size_t>(requests));
  std::vector<Speculated*> pointers;
  for (Speculated& choice : choices) pointers.push_back(&choice);
  std::vector<double> times;
  for (int step = 0; step < kSteps; ++step) {
    for (int i = 0; i < requests; ++i) {
      Speculated& choice = choices[static_cast<size_t>(i)];
      choice.id = static_cast<uint64_t>(i) + 1;
      choice.tokens = tokens;
      choice.room = 16;
    }
    for (const auto& drafter : drafters) drafter->us = 0.0;
    const double start = thread_us();
    speculation.propose(pointers, {}, cost);
    double us = thread_us() - start;
    for (const auto& drafter : drafters) us -= drafter->us;
    times.push_back(us);
    for (const Speculated& choice : choices) speculation.verified(choice.id, static_cast<int>(choice.draft.size()) / 2);
  }
  return median(times);
}

double schedule_us(int requests) {
  const CostModel cost = machine();
  std::vector<PlanSequence> running;
  for (int i = 0; i < requests; ++i) {
    running.push_back({.id = static_cast<uint64_t>(i) + 1,
                       .arrival = static_cast<uint64_t>(i) + 1,
                       .tokens = 400,
                       .ready = 399,
                       .answered = true,
                       .decode_rows = 1 + i % 4,
                       .blocks = 4,
                       .own_blocks = 4});
  }
  std::vector<double> times;
  for (int step = 0; step < kSteps; ++step) {
    const double start = thread_us();
    const Plan plan = plan_step({.running = running, .waiting = {}, .free_blocks = 10'000, .cost = &cost}, {});
    times.push_back(thread_us() - start);
    if (plan.decode_rows == 0) return -1;
  }
  return median(times);
}

void run() {
  fmt::print("{:>8} {:>9} {:>20} {:>9}\n", "requests", "look-up", "and trained drafter", "schedule");
  for (const int requests : {1, 4, 16, 32, 60, 96}) {
    fmt::print("{:>8} {:>9.1f} {:>20.1f} {:>9.1f}\n", requests, speculation_us(requests, false),
               speculation_us(requests, true), schedule_us(requests));
  }
}

}  // namespace
}  // namespace dspark

int main() {
  dspark::run();
  return 0;
}
