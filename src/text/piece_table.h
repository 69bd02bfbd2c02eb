// PieceTable: the ids of byte strings, for vocabularies of up to millions of tokens: one array of 8-byte slots (open
// addressing, linear probing), the strings stay with the caller. Const after the last insert(): any thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace dspark {

// 64 well-mixed bits of `bytes`: 8 bytes a step, folded 64 x 64 to 128 bit products.
inline uint64_t hash_bytes(std::string_view bytes) {
  constexpr uint64_t kMultiplier = 0x9E3779B97F4A7C15;
  __extension__ using Wide = unsigned __int128;
  auto fold = [](uint64_t a, uint64_t b) {
    const Wide product = static_cast<Wide>(a) * b;
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  };
  auto load = [](const char* from, size_t count) {
    uint64_t word = 0;
    std::memcpy(&word, from, count);
    return word;
  };
  const char* data = bytes.data();
  size_t left = bytes.size();
  uint64_t state = kMultiplier ^ left;
  for (; left > 8; left -= 8, data += 8) state = fold(state ^ load(data, 8), kMultiplier);
  return fold(state ^ load(data, left), kMultiplier ^ 0xD1B54A32D192ED03);
}

class PieceTable {
 public:
  // For up to `capacity` strings. `strings[id]` is the string of id, and must outlive the table.
  PieceTable(std::span<const std::string_view> strings, size_t capacity) : strings_(strings) {
    size_t slots = 16;
    while (slots < capacity * 2) slots *= 2;
    slots_.assign(slots, Slot{0, -1});
  }

  // Adds strings[id]; false if an equal string is there already, which stays.
  bool insert(int32_t id) {
    const std::string_view text = strings_[id];
    const uint64_t hash = hash_bytes(text);
    size_t at = hash & (slots_.size() - 1);
    for (; slots_[at].id >= 0; at = (at + 1) & (slots_.size() - 1)) {
      if (slots_[at].tag == tag(hash) && strings_[slots_[at].id] == text) return false;
    }
    slots_[at] = {tag(hash), id};
    return true;
  }

  // -1 if it is not there.
  int32_t find(std::string_view text) const { return find(text, hash_bytes(text)); }

  // The same for many strings at once: their cache misses overlap. `ids` has a place for each.
  void find_all(std::span<const std::string_view> texts, std::span<int32_t> ids) const {
    constexpr size_t kBlock = 64;
    uint64_t hashes[kBlock];
    for (; !texts.empty(); texts = texts.subspan(std::min(kBlock, texts.size()))) {
      const size_t count = std::min(kBlock, texts.size());
      for (size_t i = 0; i < count; ++i) {
        hashes[i] = hash_bytes(texts[i]);
        __builtin_prefetch(&slots_[hashes[i] & (slots_.size() - 1)]);
      }
      // The first slot is nearly always the right one.
      const auto first_slot = [&](size_t i) -> const Slot& { return slots_[hashes[i] & (slots_.size() - 1)]; };
      for (size_t i = 0; i < count; ++i) __builtin_prefetch(&strings_[std::max(first_slot(i).id, 0)]);
      for (size_t i = 0; i < count; ++i) __builtin_prefetch(strings_[std::max(first_slot(i).id, 0)].data());
      for (size_t i = 0; i < count; ++i) ids[i] = find(texts[i], hashes[i]);
      ids = ids.subspan(count);
    }
  }

 private:
  int32_t find(std::string_view text, uint64_t hash) const {
    for (size_t at = hash & (slots_.size() - 1);; at = (at + 1) & (slots_.size() - 1)) {
      if (slots_[at].id < 0) return -1;
      if (slots_[at].tag == tag(hash) && strings_[slots_[at].id] == text) return slots_[at].id;
    }
  }

  struct Slot {
    uint32_t tag;
    int32_t id;
  };
  static uint32_t tag(uint64_t hash) { return static_cast<uint32_t>(hash >> 32); }

  std::span<const std::string_view> strings_;
  std::vector<Slot> slots_;
};

}  // namespace dspark
