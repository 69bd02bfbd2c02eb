// ModelDrafter: a second, smaller model with the target's vocabulary guesses, one token after the other, over the
// tokens of each request. It keeps KV of its own for each sequence, apart from the target's blocks; what was rejected
// is taken back when the sequence is next seen. Step thread; its loops run on the pool.
#pragma once

#include <array>
#include <memory>
#include <unordered_map>
#include <vector>

#include "draft/drafter.h"
#include "kvcache/kv_cache.h"
#include "model/model.h"

namespace dspark {

struct ModelDrafterOptions {
  DType kv_type = DType::kF16;
  int64_t kv_positions = 0;  // of all sequences together, at most
  LoadOptions load = {};
};

class ModelDrafter final : public Drafter {
 public:
  static constexpr int kMostTokens = 7;  // of one draft
  // Rows in which sequences that are behind catch up, in one call: those whose turn does not come are not drafted for,
  // so that no prompt makes all others wait.
  static constexpr int kCatchUpRows = 256;

  // `pool` must outlive it. kUnsupported where the model's vocabulary has not the target's size.
  static Result<std::unique_ptr<ModelDrafter>> load(const ModelFile& file, int target_vocab, ThreadPool& pool, Isa isa,
                                                    const ModelDrafterOptions& options);

  std::string_view name() const override { return "model"; }
  int max_tokens() const override { return kMostTokens; }
  bool costs_time() const override { return true; }
  void propose(std::span<DraftRequest* const> requests) override;
  void verified(const VerifiedDraft& result) override;
  void release(uint64_t sequence) override { sequences_.erase(sequence); }

  const KvCache& kv() const { return *kv_; }

 private:
  static constexpr int kBins = 16;

  struct Sequence {
    SequenceKv kv;
    std::vector<int32_t> computed;  // the tokens whose KV is in it
    std::vector<int> bins;          // of the newest draft's tokens
  };
  // A draft on its way.
  struct Writer {
    DraftRequest* request;
    Sequence* sequence;
    std::vector<int32_t> tokens = {};   // drafted so far
    std::vector<int32_t> pending = {};  // to be computed before the next one
    double survival = 1.0;
    bool ended = false;
  };
  // How often a token was taken given those before it, by the chance that this model gave it.
  struct Taken {
    double tried = 0.0, taken = 0.0;  // fading
  };

  ModelDrafter(Model model, std::unique_ptr<KvCache> kv, ThreadPool& pool, Isa isa, DType kv_type);

  std::vector<Writer> begin(std::span<DraftRequest* const> requests);
  bool reserve(Sequence& sequence, int positions, std::span<const Writer> writers);
  void compute(std::span<Writer*> writers);
  void draw(Writer& writer, const float* logits, std::vector<float>& maxima);
  int bin_of(const float* logits, int32_t token, std::vector<float>& maxima) const;
  double chance(int bin) const;

  const Model model_;
  const std::unique_ptr<KvCache> kv_;
  ThreadPool& pool_;
  const Ops& ops_;
  Step step_;
  std::unordered_map<uint64_t, Sequence> sequences_;
  std::array<Taken, kBins> taken_ = {};

  std::vector<StepRow> rows_;
  std::vector<std::span<uint8_t* const>> tables_;
};

}  // namespace dspark
