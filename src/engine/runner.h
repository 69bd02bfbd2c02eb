// Runner: a loaded model with its workers and KV cache, and the forward pass over rows of several sequences. What the
// step loop, scoring and the benchmarks stand on. One thread at a time.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/sha256.h"
#include "base/thread_pool.h"
#include "kernels/isa.h"
#include "kvcache/kv_cache.h"
#include "model/model.h"

namespace dspark {

struct RunnerOptions {
  int threads = 0;  // 0: usable_cores() (base/cpu.h)
  bool pin = false;
  Isa isa = best_isa();
  DType kv_type = DType::kF16;
  int64_t kv_memory_bytes = 0;     // at most, taken block by block; 0: half of the machine's
  double kv_prealloc_ratio = 0.0;  // of it, taken at once
  int kv_shards = 1;
  std::optional<DType> quantize = {};
  // Of a drafter that keeps KV: its layers in every block, and the digest that tells its KV from another drafter's.
  std::vector<KvLayout> draft_layers = {};
  Sha256Digest drafter = {};
  std::string digest_folder = {};           // where digests of model files are remembered; "" for nowhere
  std::optional<Sha256Digest> digest = {};  // of the model's files, where somebody has computed it already
};

// One row for Runner: the sequence's next position.
struct RunRow {
  SequenceKv* sequence;
  int32_t token;
  bool wants_logits = false;
  bool wants_final = false;
};

class Runner {
 public:
  static Result<std::unique_ptr<Runner>> create(const ModelFile& file, const RunnerOptions& options);

  // An empty sequence that shares nothing with others' beginnings.
  SequenceKv new_sequence();

  // Computes the rows behind the committed positions of their sequences and commits nothing: the caller does, as far
  // as it believes the tokens. Rows of one sequence stand together. kExhausted if the KV memory is used up. The output
  // is valid until the next call.
  Result<StepOutput> compute(std::span<const RunRow> rows, std::span<const int> hidden_layers = {});
  // The same, and commits all of them.
  Result<StepOutput> run(std::span<const RunRow> rows, std::span<const int> hidden_layers = {});

  const ModelConfig& config() const { return model_.config(); }
  const Model& model() const { return model_; }
  const Sha256Digest& digest() const { return digest_; }  // of the model's files
  ThreadPool& pool() { return pool_; }
  Step& step() { return step_; }
  KvCache& kv() { return *kv_; }
  const Ops& ops() const { return ops_; }
  Isa isa() const { return options_.isa; }
  DType kv_type() const { return options_.kv_type; }

 private:
  Runner(Model model, const Sha256Digest& digest, std::unique_ptr<KvCache> kv, const RunnerOptions& options);

  RunnerOptions options_;
  Model model_;
  Sha256Digest digest_;
  ThreadPool pool_;
  Step step_;
  std::unique_ptr<KvCache> kv_;
  const Ops& ops_;
  std::vector<StepRow> rows_;
  std::vector<std::span<uint8_t* const>> tables_;
  std::vector<int32_t> tokens_;
};

}  // namespace dspark
