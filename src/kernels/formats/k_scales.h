// The 12 bytes that hold eight 6-bit scales and eight 6-bit minima in Q4_K and Q5_K. Internal to formats/. Pure
// functions, any thread.
#pragma once

#include <cstdint>

namespace dspark {

// Bytes 0–3 hold scales 0–3 in their low six bits, bytes 4–7 minima 0–3. Bytes 8–11 hold the low four bits of scales
// (lower half) and minima (upper half) 4–7, whose two high bits top bytes 0–3 and 4–7.
inline void unpack_k_scales(const uint8_t (&packed)[12], int8_t* scale, uint8_t* minimum) {
  for (int j = 0; j < 4; ++j) {
    scale[j] = static_cast<int8_t>(packed[j] & 63);
    minimum[j] = static_cast<uint8_t>(packed[j + 4] & 63);
    scale[j + 4] = static_cast<int8_t>((packed[j + 8] & 15) | (packed[j] >> 6 << 4));
    minimum[j + 4] = static_cast<uint8_t>((packed[j + 8] >> 4) | (packed[j + 4] >> 6 << 4));
  }
}

// Values 0..63.
inline void pack_k_scales(const uint8_t* scale, const uint8_t* minimum, uint8_t (&packed)[12]) {
  for (int j = 0; j < 4; ++j) {
    packed[j] = static_cast<uint8_t>(scale[j] | scale[j + 4] >> 4 << 6);
    packed[j + 4] = static_cast<uint8_t>(minimum[j] | minimum[j + 4] >> 4 << 6);
    packed[j + 8] = static_cast<uint8_t>((scale[j + 4] & 15) | (minimum[j + 4] & 15) << 4);
  }
}

}  // namespace dspark
