// Runner: a loaded model with its workers and KV memory, and the forward pass over rows of several sequences. What the
// step loop, scoring and the benchmarks stand on. One thread at a time.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/isa.h"
#include "kvcache/block_pool.h"
#include "model/model.h"

namespace dspark {

struct RunnerOptions {
  int threads = 0;  // 0: usable_cores() (base/cpu.h)
  bool pin = false;
  Isa isa = best_isa();
  DType kv_type = DType::kF16;
  int64_t kv_memory_bytes = int64_t{64} << 30;  // at most; taken block by block
  std::optional<DType> quantize = {};
};

// The KV of one sequence: positions [0, length) are written.
struct Sequence {
  std::vector<uint8_t*> blocks;
  int length = 0;
};

// One row for Runner::run: the sequence's next position.
struct RunRow {
  Sequence* sequence;
  int32_t token;
  bool wants_logits;
};

class Runner {
 public:
  static Result<std::unique_ptr<Runner>> create(const ModelFile& file, const RunnerOptions& options);

  // Computes the rows and appends them to their sequences. Rows of one sequence stand together. kExhausted if the KV
  // memory is used up, and then no sequence has changed. The output is valid until the next run.
  Result<StepOutput> run(std::span<const RunRow> rows, std::span<const int> hidden_layers = {});

  // Forgets positions from `length` on, and gives back the blocks they filled.
  void truncate(Sequence& sequence, int length);

  const ModelConfig& config() const { return model_.config(); }
  const Model& model() const { return model_; }
  ThreadPool& pool() { return pool_; }
  Step& step() { return step_; }
  const Ops& ops() const { return ops_; }
  Isa isa() const { return options_.isa; }
  DType kv_type() const { return options_.kv_type; }

 private:
  Runner(Model model, const RunnerOptions& options);
  Status reserve(std::span<const RunRow> rows);

  RunnerOptions options_;
  Model model_;
  ThreadPool pool_;
  Step step_;
  BlockPool blocks_;
  const Ops& ops_;
  std::vector<StepRow> rows_;
  std::vector<Sequence*> sequences_;
  std::vector<std::span<uint8_t* const>> tables_;
};

}  // namespace dspark
