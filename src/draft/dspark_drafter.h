// DsparkDrafter: a DSpark drafter with its weights, behind the Drafter interface (docs/drafter.md). Step thread.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <unordered_map>

#include "draft/calibration.h"
#include "draft/drafter.h"
#include "draft/dspark_head.h"
#include "draft/ngram_index.h"
#include "draft/online_correction.h"

namespace dspark {

struct DsparkOptions {
  DType kv_type = DType::kF16;
  int64_t kv_offset = 0;  // of the drafter's layers in a KV block: behind the target's
  LoadOptions load = {};
  std::optional<Sha256Digest> target_digest = {};  // checked against the drafter's, where both are known
  Calibration calibration = {};
  ThreadPool* loaders = nullptr;  // that the weights are packed on; null: on the pool that drafts
};

class DsparkDrafter : public Drafter {
 public:
  // `target` and `pool` must outlive it. `store` is shared with whoever else looks things up.
  static Result<std::unique_ptr<DsparkDrafter>> load(const ModelFile& file, const Model& target, ThreadPool& pool,
                                                     Isa isa, std::shared_ptr<NgramStore> store,
                                                     const DsparkOptions& options);

  std::string_view name() const override { return "dspark"; }
  int max_tokens() const override { return config_.max_tokens(); }
  bool costs_time() const override { return true; }
  std::span<const int> hidden_layers() const override { return config_.target_layers; }
  std::vector<KvLayout> kv_layouts() const override;
  void computed(std::span<const ComputedRow> rows, const float* hidden, int hidden_rows) override;
  void settle() override;
  void propose(std::span<DraftRequest* const> requests) override;
  void verified(const VerifiedDraft& result) override;
  void release(uint64_t sequence) override;

  const DsparkConfig& config() const { return config_; }
  const DsparkWeights& weights() const { return weights_; }
  const Calibration& calibration() const { return calibration_; }

 private:
  DsparkDrafter(DsparkConfig config, DsparkWeights weights, const Model& target, ThreadPool& pool, Isa isa,
                std::shared_ptr<NgramStore> store, const DsparkOptions& options);
  double chance(float confidence, uint64_t sequence, int bucket, int position) const;

  // How often a token was taken given those before it, by position: what a drafter without a confidence head knows.
  struct Taken {
    double tried = 0.0, taken = 0.0;  // fading
  };

  const DsparkConfig config_;
  const DsparkWeights weights_;
  const Calibration calibration_;
  std::shared_ptr<NgramStore> store_;
  DsparkPass pass_;
  DsparkHead head_;
  std::array<Taken, kMaxDraftSlots> taken_ = {};
  OnlineCorrection correction_;
  SequenceCorrection by_sequence_;

  // Positions whose KV is still to be written, and what the target made of them.
  static constexpr int kWaitingRows = 64;
  std::vector<ComputedRow> waiting_;
  Buffer<float> waiting_hidden_;  // [hidden_layers, kWaitingRows, hidden]

  std::vector<DraftBlock> blocks_;
  std::vector<HeadDraft> drafts_;
  std::vector<double> survival_;  // of each draft's newest token
  std::vector<std::vector<int32_t>> proposals_;
};

}  // namespace dspark
