// The table of ops.h for AVX2, FMA and F16C. Workers only.
#include "kernels/ops.h"

#include "kernels/half.h"
#include "kernels/lanes_avx2.h"
#include "kernels/ops.inl"
#include "kernels/vocab.inl"

namespace dspark {
namespace {

// Register tiles of attention.inl: the most queries that share a key's or value's load, and sums of 16 lanes in flight.
constexpr int kQueries = 6;
constexpr int kSums = 6;

}  // namespace
}  // namespace dspark

#include "kernels/attention.inl"
#include "kernels/kv_store.inl"

namespace dspark {

constexpr Ops kAvx2Ops = {Isa::kAvx2,  rms_norm, add,    scale,  quantise, gated,   rope,    add_scaled,  store_kv,
                          attend_tile, merge,    finish, argmax, survey,   collect, exp_sum, exp_weights, draw_scan};

}  // namespace dspark
