// The table of ops.h for AVX2, FMA and F16C. Workers only.
#include "kernels/ops.h"

#include "kernels/half.h"
#include "kernels/lanes_avx2.h"
#include "kernels/ops.inl"
#include "kernels/vocab.inl"

namespace dspark {
namespace {

// Register tiles of attention.inl: queries that share a key's load, micro-tiles in flight, and the query count from
// which one column of values fills the registers.
constexpr int kQueryTile = 6;
constexpr int kMicroPairs = 1;
constexpr int kValueQueries = 4;

}  // namespace
}  // namespace dspark

#include "kernels/attention.inl"

namespace dspark {

constexpr Ops kAvx2Ops = {Isa::kAvx2,  rms_norm, add,    scale,  quantise, gated,   rope,    add_scaled,  store_kv,
                          attend_tile, merge,    finish, argmax, survey,   collect, exp_sum, exp_weights, draw_scan};

}  // namespace dspark
