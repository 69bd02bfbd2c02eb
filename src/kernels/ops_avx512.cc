// The table of ops.h for AVX-512. Workers only.
#include "kernels/ops.h"

#include "kernels/half.h"
#include "kernels/lanes_avx512.h"
#include "kernels/ops.inl"
#include "kernels/vocab.inl"

namespace dspark {
namespace {

// Register tiles of attention.inl: queries that share a key's load, micro-tiles in flight, and the query count from
// which one column of values fills the registers.
constexpr int kQueryTile = 8;
constexpr int kMicroPairs = 2;
constexpr int kValueQueries = 6;

}  // namespace
}  // namespace dspark

#include "kernels/attention.inl"

namespace dspark {

constexpr Ops kAvx512Ops = {Isa::kAvx512, rms_norm, add,    scale,  quantise, gated,   rope,    add_scaled,  store_kv,
                            attend_tile,  merge,    finish, argmax, survey,   collect, exp_sum, exp_weights, draw_scan};

}  // namespace dspark
