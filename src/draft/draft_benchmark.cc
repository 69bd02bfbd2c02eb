// Cost of one draft against one decode step, and what is drafted: draft_benchmark MODEL DRAFTER [THREADS [TOKENS]].
// The prompt is the numbers on standard input, or 256 made-up tokens. Main thread.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <vector>

#include "base/cpu.h"
#include "draft/dspark_drafter.h"

namespace dspark {
namespace {

double milliseconds(auto&& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

// The median of 41 runs.
double median_ms(auto&& work) {
  std::vector<double> times;
  for (int i = 0; i < 41; ++i) times.push_back(milliseconds(work));
  std::nth_element(times.begin(), times.begin() + 20, times.end());
  return times[20];
}

class Likeliest : public DraftSampler {
 public:
  Likeliest(const Ops& kernels, int64_t vocab) : kernels_(kernels), vocab_(vocab) {}
  int32_t draw(const float* logits, int position, std::span<const int32_t> drafted) override {
    return static_cast<int32_t>(kernels_.argmax(logits, vocab_));
  }

 private:
  const Ops& kernels_;
  int64_t vocab_;
};

// One sequence of the target and the drafter's KV of it.
class Bench {
 public:
  Bench(const Model& target, DsparkDrafter& drafter, ThreadPool& pool, std::vector<int32_t> prompt)
      : target_(target),
        drafter_(drafter),
        step_(target.config(), target.kv_layout(DType::kF16), pool, best_isa()),
        tokens_(std::move(prompt)) {
    int64_t drafter_bytes = 0;
    for (const KvLayout& layout : drafter.kv_layouts()) drafter_bytes += layout.tile_bytes();
    const size_t count = tokens_.size() / kTilePositions + 1;
    for (size_t b = 0; b < count; ++b) {
      blocks_.push_back(memory_.emplace_back(static_cast<size_t>(target.kv_block_bytes(DType::kF16))).data());
      draft_blocks_.push_back(memory_.emplace_back(static_cast<size_t>(drafter_bytes)).data());
    }
  }

  // Positions [first, last) through the target.
  StepOutput compute(int first, int last) {
    rows_.clear();
    for (int p = first; p < last; ++p) rows_.push_back({0, p, tokens_[static_cast<size_t>(p)], p + 1 == last});
    const std::span<uint8_t* const> tables[] = {blocks_};
    return target_.forward(step_, {rows_, tables, drafter_.hidden_layers()});
  }

  void observe(const StepOutput& output, int first, int last) {
    std::vector<ComputedRow> rows;
    for (int p = first; p < last; ++p)
      rows.push_back({draft_blocks_[static_cast<size_t>(p / kTilePositions)], p, p - first});
    drafter_.computed(rows, output.hidden, last - first);
  }

  void run(int count, const Ops& kernels) {
    const int anchor = static_cast<int>(tokens_.size()) - 1;
    observe(compute(0, anchor), 0, anchor);
    Likeliest sampler(kernels, target_.config().vocab);
    DraftRequest request = {.tokens = tokens_, .blocks = draft_blocks_, .max_tokens = count, .sampler = &sampler};
    DraftRequest* const requests[] = {&request};
    const double decode = median_ms([&] { compute(anchor, anchor + 1); });
    const double verify = median_ms([&] { compute(anchor - count, anchor + 1); });
    const double draft = median_ms([&] { drafter_.propose(requests); });
    const StepOutput output = compute(anchor - 1, anchor);
    const double inject = median_ms([&] { observe(output, anchor - 1, anchor); });
    fmt::print("decode step {:.3f} ms, step of {} rows {:.3f} ms\n", decode, count + 1, verify);
    fmt::print("draft of {} {:.3f} ms: {:.1f} % of a decode step; a position's features {:.3f} ms\n", count, draft,
               100.0 * draft / decode, inject);
    for (const DraftToken& token : request.draft) {
      fmt::print("  {:6} survival {:.4f} confidence {:.5f}\n", token.token, token.survival, token.confidence);
    }
  }

 private:
  const Model& target_;
  DsparkDrafter& drafter_;
  Step step_;
  std::vector<int32_t> tokens_;
  std::vector<std::vector<uint8_t>> memory_;
  std::vector<uint8_t*> blocks_, draft_blocks_;
  std::vector<StepRow> rows_;
};

Status run(int argc, char** argv) {
  const int threads = argc > 3 ? std::atoi(argv[3]) : usable_cores();
  ThreadPool pool({.threads = threads});
  DSPARK_TRY(const ModelFile model_file, ModelFile::open(argv[1]));
  DSPARK_TRY(const Model target, Model::load(model_file, pool, {}));
  DSPARK_TRY(const ModelFile drafter_file, ModelFile::open(argv[2]));
  DSPARK_TRY(const auto drafter, DsparkDrafter::load(drafter_file, target, pool, best_isa(),
                                                     std::make_shared<NgramStore>(), DsparkOptions{}));
  std::vector<int32_t> prompt;
  for (int32_t token = 0; std::cin >> token;) prompt.push_back(token);
  const bool given = !prompt.empty();
  for (int32_t i = 0; i < 256 && !given; ++i) prompt.push_back(1000 + i * 37 % 5000);
  if (prompt.size() < 20)
    return make_error(ErrorCode::kInvalidArgument, "{} tokens, expected 20 or more", prompt.size());
  Bench(target, *drafter, pool, std::move(prompt)).run(argc > 4 ? std::atoi(argv[4]) : 7, ops(best_isa()));
  fmt::print("drafter: {:.2f} MB of its own\n", static_cast<double>(drafter->weights().bytes()) / 1e6);
  return Ok{};
}

}  // namespace
}  // namespace dspark

int main(int argc, char** argv) {
  if (argc < 3) {
    fmt::print(stderr, "usage: draft_benchmark MODEL DRAFTER [THREADS [TOKENS]] < tokens\n");
    return 2;
  }
  const dspark::Status status = dspark::run(argc, argv);
  if (!status.ok()) fmt::print(stderr, "draft_benchmark: {}\n", status.error().message);
  return status.ok() ? 0 : 1;
}
