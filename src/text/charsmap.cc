// See charsmap.h.
#include "text/charsmap.h"

#include <bit>
#include <cstring>

namespace dspark {
namespace {

// The fields of a darts-clone unit.
bool has_leaf(uint32_t unit) { return ((unit >> 8) & 1) == 1; }
uint32_t value(uint32_t unit) { return unit & 0x7FFFFFFF; }
uint32_t label(uint32_t unit) { return unit & 0x800000FF; }  // a leaf's high bit is set: no byte's label
uint32_t offset(uint32_t unit) { return (unit >> 10) << ((unit & 0x200) >> 6); }

}  // namespace

Result<Charsmap> Charsmap::parse(std::string blob) {
  static_assert(std::endian::native == std::endian::little, "the blob is little-endian");
  uint32_t trie_bytes = 0;
  if (blob.size() >= sizeof(trie_bytes)) std::memcpy(&trie_bytes, blob.data(), sizeof(trie_bytes));
  if (trie_bytes == 0 || trie_bytes % sizeof(uint32_t) != 0 || trie_bytes > blob.size() - sizeof(trie_bytes)) {
    return make_error(ErrorCode::kCorrupt,
                      "precompiled_charsmap of {} bytes names a trie of {} bytes, expected a multiple of 4 that fits",
                      blob.size(), trie_bytes);
  }
  Charsmap out;
  out.units_.resize(trie_bytes / sizeof(uint32_t));
  std::memcpy(out.units_.data(), blob.data() + sizeof(trie_bytes), trie_bytes);
  out.replacements_ = blob.substr(sizeof(trie_bytes) + trie_bytes);
  out.replacements_ += '\0';
  return out;
}

Charsmap::Match Charsmap::find(std::string_view text, bool first) const {
  Match match;
  uint32_t node = offset(units_[0]);
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    node ^= byte;
    if (byte == 0 || node >= units_.size() || label(units_[node]) != byte) break;
    const uint32_t unit = units_[node];
    node ^= offset(unit);
    if (!has_leaf(unit)) continue;
    if (node >= units_.size()) break;
    const uint32_t at = value(units_[node]);
    if (at >= replacements_.size()) break;
    match = {i + 1, std::string_view(replacements_.data() + at)};  // ends at the first NUL, at the latest the last byte
    if (first) break;
  }
  return match;
}

}  // namespace dspark
