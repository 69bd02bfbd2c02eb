// Reading weights strip by strip, the same text for every instruction set: included by the matmul_*.cc files after
// their lanes_*.h. A source gives, for piece p of a strip: codes<g>(), scale(sub) and minimum(sub) of 16 output rows.

namespace dspark {
namespace {

// Straight from the packed blocks of packed_layout.h: reads each byte once, decodes it for every token tile.
template <PackedLayout kL>
struct PackedSource {
  const uint8_t* block;
  const uint8_t* piece;

  PackedSource(const uint8_t* strip, int p)
      : block(strip + static_cast<int64_t>(p / kL.pieces()) * kL.block_bytes()),
        piece(block + kL.header_bytes() + (p % kL.pieces()) * kL.piece_bytes()) {}
  // To the piece after p - 1.
  void advance(int p) {
    piece += kL.piece_bytes();
    if (p % kL.pieces() == 0) block += kL.block_bytes(), piece = block + kL.header_bytes();
  }

  template <int kG>
  Codes codes() const {
    if constexpr (kL.code_bits == 8) {
      return codes_load(piece + kG * kGroupBytes);
    } else if constexpr (kL.code_bits <= 3) {
      const Codes low = shift_right<2 * (kG % 4)>(codes_load(piece + kG / 4 * kGroupBytes)) & codes_set(3);
      if constexpr (kL.code_bits == 2) return low;
      return low | top_bit<kG, 2>(piece + 2 * kGroupBytes);
    } else {
      const Codes plane = codes_load(piece + kG % 4 * kGroupBytes);
      const Codes low = (kG < 4 ? plane : shift_right<4>(plane)) & codes_set(15);
      if constexpr (kL.table) return codes_lookup(kIQ4Values, low);
      if constexpr (kL.code_bits == 4) return low;
      if constexpr (kL.code_bits == 5) return low | top_bit<kG, 4>(piece + 4 * kGroupBytes);
      const Codes pairs = shift_right<2 * (kG % 4)>(codes_load(piece + (4 + kG / 4) * kGroupBytes)) & codes_set(3);
      return low | shift_left<4>(pairs);
    }
  }

  // d * sub-scale: exact in f32 (11 by 8 bits).
  F32 scale(int sub) const {
    const F32 d = f16_load(reinterpret_cast<const uint16_t*>(block));
    if constexpr (!kL.sub_scales) return d;
    const uint8_t* scales = piece + kL.scales_offset() + sub * kStripRows;
    if constexpr (kL.paired()) return d * to_f32(u8_load(scales) & i32_set(15));
    return d * i8_load(reinterpret_cast<const int8_t*>(scales));
  }
  F32 minimum(int sub) const {
    const F32 dmin = f16_load(reinterpret_cast<const uint16_t*>(block) + kStripRows);
    if constexpr (kL.minimum == Minimum::kAdded) return dmin;
    const I32 mins = kL.paired() ? shift_right<4>(u8_load(piece + kL.scales_offset() + sub * kStripRows))
                                 : u8_load(piece + kL.mins_offset() + sub * kStripRows);
    return f32_zero() - dmin * to_f32(mins);
  }

 private:
  // Bit kG of every byte, moved to bit kTo.
  template <int kG, int kTo>
  static Codes top_bit(const uint8_t* plane) {
    const Codes bits = codes_load(plane);
    if constexpr (kG >= kTo) {
      return shift_right<kG - kTo>(bits) & codes_set(1 << kTo);
    } else {
      return shift_left<kTo - kG>(bits) & codes_set(1 << kTo);
    }
  }
};

// A strip decoded once into a scratch that stays in the first cache levels, for steps of many rows. Per piece:
// codes [8][64], then scales f32 [subs][16], then minima f32 [subs][16].
template <PackedLayout kL>
struct UnpackedSource {
  static constexpr int kPieceBytes = kGroups * kGroupBytes + kL.subs() * 64 * (kL.minimum == Minimum::kNone ? 1 : 2);
  const uint8_t* piece;

  UnpackedSource(const uint8_t* strip, int p) : piece(strip + static_cast<int64_t>(p) * kPieceBytes) {}
  void advance(int) { piece += kPieceBytes; }

  template <int kG>
  Codes codes() const {
    return codes_load(piece + kG * kGroupBytes);
  }
  const float* scales() const { return reinterpret_cast<const float*>(piece + kGroups * kGroupBytes); }
  F32 scale(int sub) const { return f32_load(scales() + sub * kStripRows); }
  F32 minimum(int sub) const { return f32_load(scales() + (kL.subs() + sub) * kStripRows); }
};

// Asks for `bytes` from `p` on to come into the second cache level; returns what follows them.
inline const uint8_t* fetch(const uint8_t* p, int bytes) {
  for (int i = 0; i < bytes; i += 64) __builtin_prefetch(p + i, 0, 2);
  return p + bytes;
}

template <PackedLayout kL>
void unpack_strip(const uint8_t* strip, int pieces, uint8_t* out) {
  PackedSource<kL> source(strip, 0);
  for (int p = 0; p < pieces;) {
    [&]<int... kG>(std::integer_sequence<int, kG...>) {
      (codes_store(out + kG * kGroupBytes, source.template codes<kG>()), ...);
    }
    (std::make_integer_sequence<int, kGroups>());
    float* scales = reinterpret_cast<float*>(out + kGroups * kGroupBytes);
    for (int sub = 0; sub < kL.subs(); ++sub) {
      f32_store(scales + sub * kStripRows, source.scale(sub));
      if constexpr (kL.minimum != Minimum::kNone) {
        f32_store(scales + (kL.subs() + sub) * kStripRows, source.minimum(sub));
      }
    }
    out += UnpackedSource<kL>::kPieceBytes;
    source.advance(++p);
  }
}

}  // namespace
}  // namespace dspark
