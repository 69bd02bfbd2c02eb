// DsparkHead: the sequential head of a DSpark drafter (docs/drafter.md): bias by the token before, draw, confidence,
// prediction after prediction, for all drafts of a call at once. What one draft gets does not depend on the others.
// Step thread; loops run on the pool.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "draft/dspark_pass.h"

namespace dspark {

// The predictions of one block of a DsparkPass.
struct HeadDraft {
  DraftSampler* sampler;
  int32_t anchor;        // the token before the first prediction
  int first_position;    // of the first prediction
  int first_prediction;  // index of DsparkPass
  int count;             // predictions

  std::vector<int32_t> tokens = {};     // drawn
  std::vector<float> confidences = {};  // their logits; NaN without a confidence head
  bool broken = false;                  // a confidence or all logits were NaN
};

class DsparkHead {
 public:
  // `pass` gives states and base logits. All must outlive this.
  DsparkHead(const DsparkConfig& config, const DsparkWeights& weights, DsparkPass& pass, ThreadPool& pool, Isa isa);

  // Whether drafts[i], which has just got a token, is to go on.
  using GoesOn = std::function<bool(size_t i)>;

  // Draws the tokens of all drafts; a draft ends early where its sampler finds nothing to draw.
  void draw(std::span<HeadDraft> drafts, const GoesOn& goes_on);

 private:
  void fill_inputs(std::span<HeadDraft> drafts, int step);
  void compute_bias();
  void gate_row(int row);
  void recur_row(int row, size_t draft);
  void draw_one(HeadDraft& draft, int step, int row);
  float confidence(const float* state, const float* token) const;
  const float* target_logits(const float* logits) const;

  const DsparkConfig& config_;
  const DsparkWeights& weights_;
  DsparkPass& pass_;
  ThreadPool& pool_;
  const MatmulKernels& matmul_;
  const Ops& ops_;
  uint64_t map_name_;  // of the vocabulary map, unique in this process

  std::vector<size_t> active_;  // drafts that still draw, one row of the buffers each
  Buffer<float> token_;         // [active, rank]: W1 of the token before
  ProductRows inputs_;          // [active, inputs of the gate or the recurrent cell]
  Buffer<float> projected_;     // [active, rank or 3 rank]
  Buffer<float> recurrent_;     // [drafts, rank]
  ProductRows bias_input_;      // [active, rank]
  Buffer<float> bias_;          // [active, draft_vocab]
};

}  // namespace dspark
