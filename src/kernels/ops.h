// Everything of a layer that is not a matrix product: norms, activations, RoPE, KV, attention, vocabulary reductions.
// One table of functions per instruction set, all equal bit for bit (docs/numerics.md). Called on workers; every
// function works on the rows it is given and touches nothing else.
#pragma once

#include <cstdint>

#include "kernels/activations.h"
#include "kernels/isa.h"
#include "kernels/kv_layout.h"

namespace dspark {

enum class Gate { kSilu, kGeluTanh };

// One query vector of one row and head, with the positions it may look at: first <= p <= last.
struct AttentionQuery {
  const float* q;  // [head_dim], already scaled
  float* out;      // [head_dim]
  int first;
  int last;
};

inline constexpr int kMaxQueries = 64;  // of one attend call

// What one tile contributes to one query.
struct AttentionPartial {
  float max;
  float sum;
  float* out;  // [head_dim], not yet divided by the sum
  bool empty;  // the query looks at nothing in this tile
};

// For draws: the counter-based noise of one choice at one position (token law, docs/numerics.md).
struct NoiseKey {
  uint64_t seed;
  uint64_t position;
};

struct Ops {
  Isa isa;

  // out = x / sqrt(mean(x^2) + eps) * weight; x, weight, out [n].
  void (*rms_norm)(const float* x, const float* weight, int n, float eps, float* out);
  // x += y; [n].
  void (*add)(float* x, const float* y, int n);
  // x *= factor; [n].
  void (*scale)(float* x, float factor, int n);
  // x [k] to int8 blocks [k / 32]; `wide` [k] may be null.
  void (*quantise)(const float* x, int64_t k, ActivationBlock* out, int16_t* wide);
  // out = act(gate) * up; [n].
  void (*gated)(Gate gate, const float* g, const float* up, int n, float* out);
  // Rotates pairs (i, i + rotary / 2) of one head in place; cos, sin [rotary / 2].
  void (*rope)(float* x, const float* cos, const float* sin, int rotary);
  // x[0] * scale to x[n - 1] * scale with weight per index accumulated: acc += weight * x; [n].
  void (*add_scaled)(float* acc, const float* x, float weight, int n);

  // Writes one position's key and value [head_dim] of one head into its tile.
  void (*store_kv)(const KvLayout& layout, uint8_t* tile, int head, int slot, const float* key, const float* value);
  // Tile `tile` of the context against `count` queries of one KV head; partials[i].out is written.
  void (*attend_tile)(const KvLayout& layout, const uint8_t* data, int tile, int head, const AttentionQuery* queries,
                      int count, AttentionPartial* partials);
  // Adds `part` to `total`, which starts empty: always in the order of the tiles.
  void (*merge)(AttentionPartial* total, const AttentionPartial& part, int head_dim);
  // query.out = total.out / total.sum.
  void (*finish)(const AttentionPartial& total, int head_dim, float* out);

  // Index of the largest value, ties to the lowest; NaN anywhere gives -1. [n].
  int64_t (*argmax)(const float* x, int64_t n);
  // log(sum exp(x)) in fixed tiles, as max + log of the sum. [n].
  void (*exp_sum)(const float* x, int64_t n, float max, double* sum);
  float (*max)(const float* x, int64_t n);
  // Random words of tokens first .. first + n - 1 (first and n multiples of 64). [n].
  void (*noise)(NoiseKey key, int64_t first, int64_t n, uint32_t* out);
};

const Ops& ops(Isa isa);
extern const Ops kPortableOps;
extern const Ops kAvx2Ops;
extern const Ops kAvx512Ops;

}  // namespace dspark
