// Everything of a layer that is not a matrix product: norms, activations, RoPE, KV, attention, vocabulary reductions.
// One table of functions per instruction set, all equal bit for bit (docs/numerics.md); NaN in, NaN out, but payloads
// are nobody's promise. Called on workers, in the float mode of base/float_mode.h; every function works on the rows it
// is given and touches nothing else. Sizes may be anything from 0 up.
#pragma once

#include <cstdint>

#include "base/noise.h"
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

// What tiles contribute to one query.
struct AttentionPartial {
  float max;   // of the scores that are no NaN
  float sum;   // of e^(score - max); NaN if a score is
  float* out;  // [head_dim], not yet divided by the sum
  bool empty;  // the query looks at nothing here: the rest has no meaning
};

// Reductions over a vocabulary skip tiles that cannot matter, by the maxima of `survey`: 16 for each tile, the largest
// of every 16th value.
inline constexpr int64_t kSurveyTile = 256;
constexpr int64_t survey_size(int64_t n) { return (n + kSurveyTile - 1) / kSurveyTile * 16; }

// e^((x - max) / T) as integers in units of 2^-kWeightBits: their sums are exact, so that they have no order.
inline constexpr int kWeightBits = 42;

// One draw's scan for tokens whose score, (logit - max) / T + Gumbel noise, may reach a bound (token law,
// docs/sampling.md). A token passes if logit >= floor and
//   bits(float(half)) * kLogUnit + (max - logit) * inverse_t < limit,
// half being the upper 16 bits of its noise word and bits() a float's representation as an integer. kLogUnit = ln 2 /
// 2^23 makes the first term, up to a constant, a lower bound of the logarithm of w = (word + 1/2) / 2^32, and a token
// can win only where log w < (logit - max) / T - bound.
struct DrawScan {
  NoiseKey key;
  const float* logits;  // [n], no NaN
  const float* maxima;  // survey of the logits
  float max;
  float inverse_t;
  float floor;
  float limit;
};
inline constexpr float kLogUnit = 0x1.62e42fefa39efp-24f;

struct Ops {
  Isa isa;

  // out = x / sqrt(mean(x^2) + eps) * weight; x, weight, out [n]; out may be x.
  void (*rms_norm)(const float* x, const float* weight, int n, float eps, float* out);
  // x += y; [n].
  void (*add)(float* x, const float* y, int n);
  // x *= factor; [n].
  void (*scale)(float* x, float factor, int n);
  // x [k] to int8 blocks [k / 32], k a multiple of 32: q = x * (127 / amax) to nearest even. A block with NaN or an
  // infinity has q = 0 and scale NaN, one whose amax is below 2^-120 is all zero. `wide` [k] gets q again, each four in
  // the order 0, 2, 1, 3; it may be null.
  void (*quantise)(const float* x, int64_t k, ActivationBlock* out, int16_t* wide);
  // out = act(g) * up; [n]; out may be g or up.
  void (*gated)(Gate gate, const float* g, const float* up, int n, float* out);
  // Rotates pairs (i, i + rotary / 2) of one head in place; rotary even; cos, sin [rotary / 2].
  void (*rope)(float* x, const float* cos, const float* sin, int rotary);
  // acc += weight * x, rounded once; [n].
  void (*add_scaled)(float* acc, const float* x, float weight, int n);

  // Writes one position's key and value [head_dim] of one head into its tile.
  void (*store_kv)(const KvLayout& layout, uint8_t* tile, int head, int slot, const float* key, const float* value);
  // Tile `tile` of the context (positions 128 tile and up, at `data`) against `count` <= kMaxQueries queries of one KV
  // head. Sets partials[i] and fills its out, unless it is empty. Its bits depend on query i and the keys and values of
  // its positions alone: not on the other queries, nor on what lies in slots before `first` or behind `last`.
  // `next`, if not null, is what the caller will read after this, as the keys of the next tile: memory brings it
  // meanwhile.
  void (*attend_tile)(const KvLayout& layout, const uint8_t* data, int tile, int head, const AttentionQuery* queries,
                      int count, const uint8_t* next, AttentionPartial* partials);
  // Adds `part` to `total`, which starts empty and owns its out: always in the order of the tiles.
  void (*merge)(AttentionPartial* total, const AttentionPartial& part, int head_dim);
  // out = total.out / total.sum, of a total that is not empty; out may be total.out.
  void (*finish)(const AttentionPartial& total, int head_dim, float* out);

  // Over a vocabulary: x [n], n >= 1.
  // Index of the largest value, ties to the lowest; NaN anywhere gives -1.
  int64_t (*argmax)(const float* x, int64_t n);
  // False if x has a NaN. maxima [survey_size(n)].
  bool (*survey)(const float* x, int64_t n, float* maxima);
  // Indices of the finite values in [floor, ceiling), ascending, and their number.
  int64_t (*collect)(const float* x, const float* maxima, int64_t n, float floor, float ceiling, int32_t* ids);
  // The sum of e^((x - max) * inverse_t) over the values >= floor, in units of 2^-kWeightBits; n up to 2^21.
  int64_t (*exp_sum)(const float* x, const float* maxima, int64_t n, float max, float inverse_t, float floor);
  // The terms of that sum. out [n].
  void (*exp_weights)(const float* x, int64_t n, float max, float inverse_t, int64_t* out);
  // The tokens of [begin, end) that pass, ascending, and their number. begin is a multiple of 128, end too or n.
  int64_t (*draw_scan)(const DrawScan& scan, int64_t begin, int64_t end, int32_t* tokens);
};

const Ops& ops(Isa isa);
extern const Ops kPortableOps;
extern const Ops kAvx2Ops;
extern const Ops kAvx512Ops;

}  // namespace dspark
