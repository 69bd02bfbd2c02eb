// A small KvCache for tests, whose positions carry a recognisable value: the digest of tenant and tokens up to there,
// which is what real KV depends on. Tests only.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "kvcache/kv_cache.h"

namespace dspark {

using Tokens = std::vector<int32_t>;

inline const KvLayout kTestLayout{.type = DType::kF32, .kv_heads = 1, .head_dim = 16};
inline constexpr int kTestLayers = 2;

inline KvCacheOptions test_options(int64_t blocks, int shards = 1) {
  KvCacheOptions options;
  options.layers.assign(kTestLayers, kTestLayout);
  options.draft_layers = {kTestLayout};
  options.memory_bytes = blocks * (kTestLayers + 1) * kTestLayout.tile_bytes();
  options.shards = shards;
  options.drafter[0] = 1;
  return options;
}

// All digests alike but for `values` of them.
inline KvBlockDigest short_digest(int values) {
  return [values](const Sha256Digest& parent, std::span<const int32_t> tokens) {
    Sha256Digest out = {};
    out[0] = static_cast<uint8_t>(kv_block_digest(parent, tokens)[0] % values);
    return out;
  };
}

inline Tokens iota_tokens(int count, int32_t first = 0) {
  Tokens out(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) out[i] = first + i;
  return out;
}

// FNV-1a over what each position's KV depends on.
inline std::vector<uint32_t> position_values(const std::string& tenant, std::span<const int32_t> tokens) {
  uint32_t hash = 2166136261u;
  const auto add = [&](uint32_t word) { hash = (hash ^ word) * 16777619u; };
  for (const char c : tenant) add(static_cast<uint8_t>(c));
  std::vector<uint32_t> out;
  for (const int32_t token : tokens) {
    add(static_cast<uint32_t>(token) + 0x9e3779b9u);
    out.push_back(hash);
  }
  return out;
}

// Where element `d` of a position's key or value lies in a tile of kTestLayout, by kv_layout.h's description.
inline int64_t key_offset(int slot, int d) { return (int64_t{slot / 16} * 16 * 16 + d * 16 + slot % 16) * 4; }
inline int64_t value_offset(int slot, int d) { return int64_t{128} * 16 * 4 + (int64_t{slot} * 16 + d) * 4; }

inline void write_tile(uint8_t* tile, int slot, uint32_t value) {
  for (int d = 0; d < 16; ++d) {
    const uint32_t key = value + static_cast<uint32_t>(d);
    const uint32_t other = ~key;
    std::memcpy(tile + key_offset(slot, d), &key, 4);
    std::memcpy(tile + value_offset(slot, d), &other, 4);
  }
}

inline bool tile_holds(const uint8_t* tile, int slot, uint32_t value) {
  for (int d = 0; d < 16; ++d) {
    uint32_t key = 0;
    uint32_t other = 0;
    std::memcpy(&key, tile + key_offset(slot, d), 4);
    std::memcpy(&other, tile + value_offset(slot, d), 4);
    if (key != value + static_cast<uint32_t>(d) || other != ~key) return false;
  }
  return true;
}

// A sequence and the text that it must hold.
struct TestSequence {
  SequenceKv kv;
  std::string tenant;
  Tokens text;

  uint8_t* tile(int position, int layer) const {
    return kv.table()[position / kTilePositions] + layer * kTestLayout.tile_bytes();
  }
  static uint32_t of_layer(uint32_t value, int layer) { return value + 1000u * static_cast<uint32_t>(layer); }
  static uint32_t of_drafter(uint32_t value, uint32_t drafter) { return value + 77u * drafter; }

  // Reserves, writes every layer as a forward pass would, and commits.
  Status append(std::span<const int32_t> tokens, bool with_draft = true, uint32_t drafter = 1) {
    DSPARK_RETURN_IF_ERROR(kv.reserve(static_cast<int>(tokens.size())));
    const int start = kv.length();
    text.insert(text.end(), tokens.begin(), tokens.end());
    const std::vector<uint32_t> values = position_values(tenant, text);
    for (int p = start; p < static_cast<int>(text.size()); ++p) {
      for (int layer = 0; layer < kTestLayers; ++layer) {
        write_tile(tile(p, layer), p % kTilePositions, of_layer(values[p], layer));
      }
      if (with_draft) write_tile(tile(p, kTestLayers), p % kTilePositions, of_drafter(values[p], drafter));
    }
    kv.commit(tokens, with_draft);
    return Ok{};
  }

  // The first position whose KV is not that of its text, or -1.
  int first_wrong(uint32_t drafter = 1) const {
    const std::vector<uint32_t> values = position_values(tenant, text);
    for (int p = 0; p < kv.length(); ++p) {
      for (int layer = 0; layer < kTestLayers; ++layer) {
        if (!tile_holds(tile(p, layer), p % kTilePositions, of_layer(values[p], layer))) return p;
      }
      if (p < kv.draft_length() &&
          !tile_holds(tile(p, kTestLayers), p % kTilePositions, of_drafter(values[p], drafter))) {
        return p;
      }
    }
    return -1;
  }

  void truncate_text() { text.resize(static_cast<size_t>(kv.length())); }
};

inline TestSequence open_sequence(KvCache& cache, const std::string& tenant, const Tokens& prompt, int max_cached,
                                  bool drafts = false) {
  const KvPrefix prefix = cache.announce(tenant, "", prompt);
  TestSequence out{cache.open(prefix, {.max_cached = max_cached, .drafts = drafts}), tenant, prompt};
  out.truncate_text();
  return out;
}

// Opens, computes what was not cached, and returns it open.
inline TestSequence run_sequence(KvCache& cache, const std::string& tenant, const Tokens& prompt,
                                 bool with_draft = true) {
  TestSequence out = open_sequence(cache, tenant, prompt, static_cast<int>(prompt.size()));
  const Status done = out.append(std::span(prompt).subspan(out.text.size()), with_draft);
  EXPECT_TRUE(done.ok()) << done.error().message;
  return out;
}

}  // namespace dspark
