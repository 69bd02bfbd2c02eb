// The table of ops.h for plain C++: the reference. Workers only.
#include "kernels/ops.h"

#include "kernels/half.h"
#include "kernels/lanes_portable.h"
#include "kernels/ops.inl"
#include "kernels/vocab.inl"

namespace dspark {
namespace {

// Register tiles of attention.inl: the most queries that share a key's or value's load, and sums of 16 lanes in flight.
constexpr int kQueries = 1;
constexpr int kSums = 1;

}  // namespace
}  // namespace dspark

#include "kernels/attention.inl"
#include "kernels/kv_store.inl"

namespace dspark {

constexpr Ops kPortableOps = {Isa::kPortable, rms_norm,   add,      scale,       quantise,    gated,
                              rope,           add_scaled, store_kv, attend_tile, merge,       finish,
                              argmax,         survey,     collect,  exp_sum,     exp_weights, draw_scan};

}  // namespace dspark
