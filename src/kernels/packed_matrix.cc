// Packing for packed_matrix.h: file blocks of 16 rows in, one interleaved block out.
#include "kernels/packed_matrix.h"

#include <cstring>
#include <vector>

#include "base/check.h"
#include "kernels/formats/format.h"
#include "kernels/half.h"
#include "kernels/packed_layout.h"

namespace dspark {
namespace {

int element_bytes(DType type) { return type == DType::kF32 ? 4 : 2; }

// The planes of one piece (packed_layout.h), from 16 rows of 32 codes each. fn(codes, byte) for each row and each of
// its four bytes in a group, with codes[4 * g] the code of group g.
template <class Fn>
void for_each_byte(const UnpackedBlock* rows, int first, Fn fn) {
  for (int r = 0; r < kStripRows; ++r) {
    for (int i = 0; i < 4; ++i) fn(reinterpret_cast<const uint8_t*>(rows[r].codes) + first + i, 4 * r + i);
  }
}

void pack_bytes(const UnpackedBlock* rows, int first, uint8_t* out) {
  for_each_byte(rows, first, [&](const uint8_t* codes, int byte) {
    for (int g = 0; g < kGroups; ++g) out[g * kGroupBytes + byte] = static_cast<uint8_t>(codes[4 * g] ^ 128);
  });
}

void pack_nibbles(const UnpackedBlock* rows, int first, uint8_t* out) {
  for_each_byte(rows, first, [&](const uint8_t* codes, int byte) {
    for (int g = 0; g < 4; ++g) {
      out[g * kGroupBytes + byte] = static_cast<uint8_t>((codes[4 * g] & 15) | codes[4 * g + 16] << 4);
    }
  });
}

// Bits kShift and kShift + 1 of every code.
template <int kShift>
void pack_pairs(const UnpackedBlock* rows, int first, uint8_t* out) {
  for_each_byte(rows, first, [&](const uint8_t* codes, int byte) {
    for (int plane = 0; plane < 2; ++plane) {
      unsigned bits = 0;
      for (int g = 0; g < 4; ++g) bits |= (codes[16 * plane + 4 * g] >> kShift & 3u) << 2 * g;
      out[plane * kGroupBytes + byte] = static_cast<uint8_t>(bits);
    }
  });
}

template <int kShift>
void pack_top_bit(const UnpackedBlock* rows, int first, uint8_t* out) {
  for_each_byte(rows, first, [&](const uint8_t* codes, int byte) {
    unsigned bits = 0;
    for (int g = 0; g < kGroups; ++g) bits |= (codes[4 * g] >> kShift & 1u) << g;
    out[byte] = static_cast<uint8_t>(bits);
  });
}

void pack_codes(const PackedLayout& layout, const UnpackedBlock* rows, int first, uint8_t* out) {
  switch (layout.code_bits) {
    case 8:
      return pack_bytes(rows, first, out);
    case 2:
      return pack_pairs<0>(rows, first, out);
    case 3:
      pack_pairs<0>(rows, first, out);
      return pack_top_bit<2>(rows, first, out + 2 * kGroupBytes);
    default:
      pack_nibbles(rows, first, out);
      if (layout.code_bits == 5) pack_top_bit<4>(rows, first, out + 4 * kGroupBytes);
      if (layout.code_bits == 6) pack_pairs<4>(rows, first, out + 4 * kGroupBytes);
  }
}

void pack_block(const PackedLayout& layout, const UnpackedBlock* rows, uint8_t* out) {
  for (int r = 0; r < kStripRows; ++r) {
    std::memcpy(out + 2 * r, &rows[r].d_f16, 2);
    if (layout.minimum != Minimum::kNone) std::memcpy(out + 32 + 2 * r, &rows[r].dmin_f16, 2);
  }
  for (int p = 0; p < layout.pieces(); ++p) {
    uint8_t* piece = out + layout.header_bytes() + p * layout.piece_bytes();
    pack_codes(layout, rows, p * kPiece, piece);
    for (int sub = 0; layout.sub_scales && sub < layout.subs(); ++sub) {
      const int j = p * layout.subs() + sub;
      for (int r = 0; r < kStripRows; ++r) {
        uint8_t* scale = piece + layout.scales_offset() + sub * kStripRows + r;
        if (layout.paired()) {
          *scale = static_cast<uint8_t>(rows[r].sub_scale[j] | rows[r].sub_min[j] << 4);
          continue;
        }
        *scale = static_cast<uint8_t>(rows[r].sub_scale[j]);
        if (layout.minimum == Minimum::kScaledSubtracted) {
          piece[layout.mins_offset() + sub * kStripRows + r] = rows[r].sub_min[j];
        }
      }
    }
  }
}

int64_t source_row(std::span<const int32_t> order, int64_t row) {
  return order.empty() ? row : order[static_cast<size_t>(row)];
}

PackedLayout layout_of(DType type) {
  return with_layout(type, []<PackedLayout kL>() { return kL; });
}

}  // namespace

PackedMatrix::PackedMatrix(Arena& arena, DType type, int64_t rows, int64_t k) : type_(type), rows_(rows), k_(k) {
  const int block = is_float(type) ? 1 : layout_of(type).elements;
  DSPARK_CHECK(rows > 0 && k > 0 && k % block == 0, "{} matrix [{}, {}]: k must be a multiple of {}",
               dtype_info(type).name, rows, k, block);
  strip_bytes_ = is_float(type) ? k * kStripRows * element_bytes(type) : k / block * layout_of(type).block_bytes();
  data_ = arena.allocate(static_cast<size_t>(bytes()) + 64);  // kernels may load a whole vector at the end
}

// rows[r] is null beyond the end of the matrix: such rows are zero.
void PackedMatrix::pack_strip(int64_t strip, const uint8_t* const* rows) {
  uint8_t* out = data_ + strip * strip_bytes_;
  if (is_float(type_)) {
    const int bytes = element_bytes(type_);
    for (int r = 0; r < kStripRows; ++r) {
      for (int64_t i = 0; i < k_; ++i) {
        uint8_t* value = out + (i * kStripRows + r) * bytes;
        if (rows[r] == nullptr) {
          std::memset(value, 0, static_cast<size_t>(bytes));
        } else {
          std::memcpy(value, rows[r] + i * bytes, static_cast<size_t>(bytes));
        }
      }
    }
    return;
  }
  const PackedLayout layout = layout_of(type_);
  const int file_bytes = dtype_info(type_).block_bytes;
  const Format& format = format_of(type_);
  UnpackedBlock blocks[kStripRows];
  std::memset(blocks, 0, sizeof(blocks));
  for (int64_t b = 0; b < k_ / layout.elements; ++b) {
    for (int r = 0; r < kStripRows; ++r) {
      if (rows[r] != nullptr) format.unpack(rows[r] + b * file_bytes, &blocks[r]);
    }
    pack_block(layout, blocks, out + b * layout.block_bytes());
  }
}

PackedMatrix PackedMatrix::pack(ThreadPool& pool, Arena& arena, DType type, int64_t rows, int64_t k,
                                const uint8_t* data, std::span<const int32_t> order) {
  PackedMatrix out(arena, type, rows, k);
  const int64_t row_bytes = dtype_bytes(type, k);
  pool.run(static_cast<int>(out.strips()), [&](int strip) {
    const uint8_t* pointers[kStripRows];
    for (int r = 0; r < kStripRows; ++r) {
      const int64_t row = static_cast<int64_t>(strip) * kStripRows + r;
      pointers[r] = row < rows ? data + source_row(order, row) * row_bytes : nullptr;
    }
    out.pack_strip(strip, pointers);
  });
  return out;
}

PackedMatrix PackedMatrix::quantise(ThreadPool& pool, Arena& arena, DType type, int64_t rows, int64_t k, DType source,
                                    const uint8_t* data, std::span<const int32_t> order) {
  PackedMatrix out(arena, type, rows, k);
  const int64_t source_bytes = dtype_bytes(source, k);
  const int64_t row_bytes = dtype_bytes(type, k);
  pool.run(static_cast<int>(out.strips()), [&](int strip) {
    std::vector<float> floats(static_cast<size_t>(k));
    std::vector<uint8_t> quantised(static_cast<size_t>(row_bytes * kStripRows));
    const uint8_t* pointers[kStripRows];
    for (int r = 0; r < kStripRows; ++r) {
      const int64_t row = static_cast<int64_t>(strip) * kStripRows + r;
      pointers[r] = nullptr;
      if (row >= rows) continue;
      uint8_t* target = quantised.data() + r * row_bytes;
      format_of(source).dequantise(data + source_row(order, row) * source_bytes, k, floats.data());
      format_of(type).quantise(floats.data(), k, target);
      pointers[r] = target;
    }
    out.pack_strip(strip, pointers);
  });
  return out;
}

namespace {

// The code of K index `i` (0..31) of row `r` in a packed piece.
int packed_code(const PackedLayout& layout, const uint8_t* piece, int i, int r) {
  const int g = i / 4;
  const int byte = 4 * r + i % 4;
  auto get = [&](int plane, int shift, int mask) { return piece[plane * kGroupBytes + byte] >> shift & mask; };
  switch (layout.code_bits) {
    case 8:
      return get(g, 0, 255);
    case 2:
      return get(g / 4, 2 * (g % 4), 3);
    case 3:
      return get(g / 4, 2 * (g % 4), 3) | get(2, g, 1) << 2;
    default: {
      int code = get(g % 4, g < 4 ? 0 : 4, 15);
      if (layout.table) return kIQ4Values[code];
      if (layout.code_bits == 5) code |= get(4, g, 1) << 4;
      if (layout.code_bits == 6) code |= get(4 + g / 4, 2 * (g % 4), 3) << 4;
      return code;
    }
  }
}

float half_at(const uint8_t* p) {
  uint16_t half;
  std::memcpy(&half, p, 2);
  return half_to_float(half);
}

void dequantise_piece(const PackedLayout& layout, const uint8_t* block, const uint8_t* piece, int r, float* out) {
  for (int sub = 0; sub < layout.subs(); ++sub) {
    const uint8_t* scales = piece + layout.scales_offset() + sub * kStripRows + r;
    float scale = half_at(block + 2 * r);
    if (layout.sub_scales) scale *= layout.paired() ? float(*scales & 15) : float(static_cast<int8_t>(*scales));
    float minimum = 0.0f;
    if (layout.minimum == Minimum::kAdded) minimum = half_at(block + 32 + 2 * r);
    if (layout.minimum == Minimum::kScaledSubtracted) {
      const int sub_min = layout.paired() ? *scales >> 4 : piece[layout.mins_offset() + sub * kStripRows + r];
      minimum = -(half_at(block + 32 + 2 * r) * static_cast<float>(sub_min));
    }
    for (int i = sub * layout.sub; i < (sub + 1) * layout.sub; ++i) {
      out[i] = scale * static_cast<float>(packed_code(layout, piece, i, r) - layout.offset) + minimum;
    }
  }
}

void dequantise_packed(const PackedLayout& layout, const uint8_t* strip, int r, int64_t k, float* out) {
  for (int64_t first = 0; first < k; first += layout.elements) {
    const uint8_t* block = strip + first / layout.elements * layout.block_bytes();
    for (int p = 0; p < layout.pieces(); ++p) {
      const uint8_t* piece = block + layout.header_bytes() + p * layout.piece_bytes();
      dequantise_piece(layout, block, piece, r, out + first + p * kPiece);
    }
  }
}

}  // namespace

void PackedMatrix::dequantise_row(int64_t row, float* out) const {
  DSPARK_CHECK(row >= 0 && row < rows_, "row {} of {}", row, rows_);
  const uint8_t* data = strip(row / kStripRows);
  const int r = static_cast<int>(row % kStripRows);
  if (!is_float(type_)) return dequantise_packed(layout_of(type_), data, r, k_, out);
  for (int64_t i = 0; i < k_; ++i) {
    const uint8_t* value = data + (i * kStripRows + r) * element_bytes(type_);
    if (type_ == DType::kF32) {
      std::memcpy(out + i, value, 4);
    } else {
      uint16_t half;
      std::memcpy(&half, value, 2);
      out[i] = type_ == DType::kF16 ? half_to_float(half) : bf16_to_float(half);
    }
  }
}

}  // namespace dspark
