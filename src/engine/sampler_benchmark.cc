// Microseconds of one draw, by instruction set, vocabulary, shape of the logits and filter: the median over positions
// of the thread's CPU time. Built on request: ninja sampler_benchmark.
#include "engine/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <random>

namespace dspark {
namespace {

// Language models' logits: a bell of which few tokens stand out, by more than its width. `lead` of 0 leaves the bell.
std::vector<float> logits_of(size_t vocab, float spread, float lead) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(-2.0f, spread);
  std::vector<float> out(vocab);
  for (float& x : out) x = normal(random);
  for (int i = 0; i < 50; ++i) out[random() % vocab] += lead * std::exp(-0.1f * static_cast<float>(i));
  return out;
}

double thread_us() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e6 * static_cast<double>(now.tv_sec) + 1e-3 * static_cast<double>(now.tv_nsec);
}

double median_us(const Ops& ops, const SamplingParams& params, const std::vector<float>& logits) {
  const Sampler sampler = Sampler::create(ops, params, static_cast<int64_t>(logits.size()), {}).value();
  TokenHistory history(params, {});
  for (int32_t token = 0; token < 300; ++token) history.append(token);
  DrawScratch scratch(ops);
  std::vector<double> times;
  for (uint64_t position = 0; position < 101; ++position) {
    const double start = thread_us();
    const int32_t token = sampler.draw({logits.data(), position}, history, scratch).value().token;
    times.push_back(thread_us() - start);
    if (token < 0) return -1;
  }
  std::nth_element(times.begin(), times.begin() + 50, times.end());
  return times[50];
}

struct Case {
  const char* name;
  SamplingParams params;
};

void run() {
  SamplingParams plain;
  std::vector<Case> cases;
  const auto add = [&](const char* name, auto change) {
    SamplingParams params = plain;
    change(params);
    cases.push_back({name, params});
  };
  add("greedy", [](SamplingParams& p) { p.temperature = 0; });
  add("plain", [](SamplingParams&) {});
  add("T 0.7", [](SamplingParams& p) { p.temperature = 0.7; });
  add("top_k 40", [](SamplingParams& p) { p.top_k = 40; });
  add("top_p 0.95", [](SamplingParams& p) { p.top_p = 0.95; });
  add("T 1.5 top_p 0.95", [](SamplingParams& p) { p.temperature = 1.5, p.top_p = 0.95; });
  add("top_k 40 top_p 0.95", [](SamplingParams& p) { p.top_k = 40, p.top_p = 0.95; });
  add("min_p 0.05", [](SamplingParams& p) { p.min_p = 0.05; });
  add("penalties", [](SamplingParams& p) { p.repetition_penalty = 1.1, p.frequency_penalty = 0.2; });
  add("logprobs 5", [](SamplingParams& p) { p.logprobs = 5; });
  fmt::print("{:9} {:>7} {:7}", "isa", "vocab", "logits");
  for (const Case& c : cases) fmt::print(" {:>{}}", c.name, std::max<size_t>(7, std::string(c.name).size()));
  fmt::print("\n");
  for (const Isa isa : {Isa::kAvx512, Isa::kAvx2, Isa::kPortable}) {
    if (!isa_supported(isa)) continue;
    for (const size_t vocab : {49'152u, 262'144u}) {
      for (const auto& [shape, spread, lead] : {std::tuple{"peaked", 2.5f, 15.0f}, std::tuple{"flat", 1.0f, 0.0f}}) {
        const std::vector<float> logits = logits_of(vocab, spread, lead);
        fmt::print("{:9} {:>7} {:7}", isa_name(isa), vocab, shape);
        for (const Case& c : cases) {
          fmt::print(" {:>{}.1f}", median_us(ops(isa), c.params, logits),
                     std::max<size_t>(7, std::string(c.name).size()));
        }
        fmt::print("\n");
        std::fflush(stdout);
      }
    }
  }
}

}  // namespace
}  // namespace dspark

int main() {
  dspark::run();
  return 0;
}
