// Matrix products over the rows of a step: y = x W^T, for weights of any type. The thread that owns the step calls;
// workers take strips. The value of y[r, n] depends on x[r] and W alone (the row law): see docs/numerics.md.
#pragma once

#include <cstdint>
#include <span>

#include "base/thread_pool.h"
#include "kernels/activations.h"
#include "kernels/matmul_kernels.h"
#include "kernels/packed_matrix.h"

namespace dspark {

// Rows that enter a product. Quantised weights read `quantised`, float weights `floats`; whoever fills them fills
// what the matrices need (see needs_floats). `ids` picks rows: row i of the product is row ids[i] of the input.
struct MatmulInput {
  int rows = 0;
  const Activations* quantised = nullptr;
  const float* floats = nullptr;  // [*, stride]
  int64_t stride = 0;
  const int32_t* ids = nullptr;  // [rows], or null for 0, 1, 2, ...
};

// y[i, n] = sum_k w[n, k] x[i, k] (+ bias[n]), row i of y at y + i * stride.
struct MatmulJob {
  const PackedMatrix* weights;
  float* y;
  int64_t stride;
  const float* bias = nullptr;  // [n]
};

// The matrices that the next product will read: a worker that has nothing left to do asks for the beginning of its
// part, so that memory works while the others finish and while the step does what lies between.
using NextWeights = std::span<const PackedMatrix* const>;
void fetch_ahead(NextWeights next, int range, int ranges);

// All jobs read the same input and run as one parallel loop.
void matmul(ThreadPool& pool, const MatmulKernels& kernels, const MatmulInput& input, std::span<const MatmulJob> jobs,
            NextWeights next = {});

// One strip pair of a product into out [rows, 32], for callers that fuse what follows (the gated MLP): strips
// `strip` and `strip + 1` (columns past the end of the matrix are zero). Called on a worker.
void matmul_strip_pair(const MatmulKernels& kernels, const PackedMatrix& weights, int64_t strip,
                       const MatmulInput& input, float* out);

}  // namespace dspark
