// PackedMatrix: the weights of one linear layer in the layout that every kernel reads (packed_layout.h).
// Built once at load, by workers in parallel over strips; read-only and shared by all threads afterwards.
#pragma once

#include <cstdint>
#include <span>

#include "base/arena.h"
#include "base/thread_pool.h"
#include "kernels/dtype.h"

namespace dspark {

class PackedMatrix {
 public:
  PackedMatrix() = default;

  // Packs `data`, [rows, k] in file layout of `type`, into memory of `arena`. k must be a multiple of the type's block
  // (and of 32 for quantised types); the caller has checked it. `order`, if not empty, is [rows]: row i of the matrix
  // is row order[i] of the data.
  static PackedMatrix pack(ThreadPool& pool, Arena& arena, DType type, int64_t rows, int64_t k, const uint8_t* data,
                           std::span<const int32_t> order = {});
  // As pack, but each row is quantised from `source` to `type` first; both are row-major [rows, k].
  static PackedMatrix quantise(ThreadPool& pool, Arena& arena, DType type, int64_t rows, int64_t k, DType source,
                               const uint8_t* data, std::span<const int32_t> order = {});

  // Row `row` as floats [k]: the exact values of the weights.
  void dequantise_row(int64_t row, float* out) const;

  bool empty() const { return rows_ == 0; }
  DType type() const { return type_; }
  int64_t rows() const { return rows_; }
  int64_t k() const { return k_; }
  int64_t strips() const { return (rows_ + 15) / 16; }
  int64_t strip_bytes() const { return strip_bytes_; }
  const uint8_t* strip(int64_t i) const { return data_ + i * strip_bytes_; }
  // k in the unit of the kernels: pieces of 32, or single values for float types.
  int pieces() const { return static_cast<int>(is_float(type_) ? k_ : k_ / 32); }
  int64_t bytes() const { return strips() * strip_bytes_; }

 private:
  PackedMatrix(Arena& arena, DType type, int64_t rows, int64_t k);
  void pack_strip(int64_t strip, const uint8_t* const* rows);

  DType type_ = DType::kF32;
  int64_t rows_ = 0;
  int64_t k_ = 0;
  int64_t strip_bytes_ = 0;
  uint8_t* data_ = nullptr;  // [strips][strip_bytes], in the arena
};

}  // namespace dspark
