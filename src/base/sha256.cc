// OpenSSL's plain SHA-256 behind sha256.h. It is marked as deprecated there in favour of EVP, whose first use loads
// all algorithms of all providers: 1.7 MB of resident memory, and a look-up for each short digest.
#define OPENSSL_SUPPRESS_DEPRECATED
#include "base/sha256.h"

namespace dspark {
namespace {

std::span<const uint8_t> as_bytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

std::array<uint8_t, 8> little_endian(uint64_t value) {
  std::array<uint8_t, 8> bytes;
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<uint8_t>(value >> (8 * i));
  return bytes;
}

int hex_value(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
  return -1;
}

}  // namespace

Sha256::Sha256() { SHA256_Init(&context_); }

void Sha256::update(std::span<const uint8_t> bytes) { SHA256_Update(&context_, bytes.data(), bytes.size()); }

void Sha256::update(std::string_view text) { update(as_bytes(text)); }

void Sha256::add_field(std::string_view tag, std::span<const uint8_t> value) {
  update(little_endian(tag.size()));
  update(little_endian(value.size()));
  update(tag);
  update(value);
}

void Sha256::add_field(std::string_view tag, std::string_view value) { add_field(tag, as_bytes(value)); }

void Sha256::add_field(std::string_view tag, uint64_t value) {
  const auto bytes = little_endian(value);
  add_field(tag, std::span<const uint8_t>(bytes));
}

Sha256Digest Sha256::finish() {
  Sha256Digest digest;
  SHA256_Final(digest.data(), &context_);
  SHA256_Init(&context_);
  return digest;
}

Sha256Digest sha256(std::span<const uint8_t> bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.finish();
}

Sha256Digest sha256(std::string_view text) { return sha256(as_bytes(text)); }

std::string to_hex(const Sha256Digest& digest) {
  std::string hex;
  hex.reserve(2 * digest.size());
  for (const uint8_t byte : digest) {
    hex += "0123456789abcdef"[byte >> 4];
    hex += "0123456789abcdef"[byte & 15];
  }
  return hex;
}

std::optional<Sha256Digest> sha256_from_hex(std::string_view hex) {
  Sha256Digest digest;
  if (hex.size() != 2 * digest.size()) return std::nullopt;
  for (size_t i = 0; i < digest.size(); ++i) {
    const int high = hex_value(hex[2 * i]);
    const int low = hex_value(hex[2 * i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    digest[i] = static_cast<uint8_t>(high << 4 | low);
  }
  return digest;
}

}  // namespace dspark
