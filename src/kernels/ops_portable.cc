// The table of ops.h for plain C++: the reference. Workers only.
#include "kernels/ops.h"

#include "kernels/half.h"
#include "kernels/lanes_portable.h"
#include "kernels/ops.inl"
#include "kernels/vocab.inl"

namespace dspark {
namespace {

// Register tiles of attention.inl: queries that share a key's load, micro-tiles in flight, and the query count from
// which one column of values fills the registers.
constexpr int kQueryTile = 1;
constexpr int kMicroPairs = 1;
constexpr int kValueQueries = 1;

}  // namespace
}  // namespace dspark

#include "kernels/attention.inl"

namespace dspark {

constexpr Ops kPortableOps = {Isa::kPortable, rms_norm,   add,      scale,       quantise,    gated,
                              rope,           add_scaled, store_kv, attend_tile, merge,       finish,
                              argmax,         survey,     collect,  exp_sum,     exp_weights, draw_scan};

}  // namespace dspark
