// Streaming SHA-256 (FIPS 180-4) over OpenSSL, and its hexadecimal form. One object belongs to one thread at a time.
#pragma once

#include <openssl/sha.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace dspark {

using Sha256Digest = std::array<uint8_t, 32>;

class Sha256 {
 public:
  Sha256();

  void update(std::span<const uint8_t> bytes);
  void update(std::string_view text);

  // One field of a structured identity: the lengths of tag and value (64-bit little-endian), then both, so that no two
  // different lists of fields feed the same bytes.
  void add_field(std::string_view tag, std::span<const uint8_t> value);
  void add_field(std::string_view tag, std::string_view value);
  void add_field(std::string_view tag, uint64_t value);

  // The digest of everything since construction or the last finish(), which starts again.
  Sha256Digest finish();

 private:
  SHA256_CTX context_;
};

Sha256Digest sha256(std::span<const uint8_t> bytes);
Sha256Digest sha256(std::string_view text);

// 64 lower-case hexadecimal digits.
std::string to_hex(const Sha256Digest& digest);
// Nothing unless `hex` is exactly 64 hexadecimal digits of any case.
std::optional<Sha256Digest> sha256_from_hex(std::string_view hex);

}  // namespace dspark
