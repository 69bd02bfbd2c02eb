// Tests of attention (ops.h): against softmax attention in double over the rounded keys and values, and bit for bit
// across instruction sets, groupings of queries and whatever lies in slots that nobody may look at.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "kernels/half.h"
#include "kernels/ops.h"
#include "kernels/test_values.h"

namespace dspark {
namespace {

using namespace testing_values;

constexpr DType kKvTypes[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0};

std::string label(const KvLayout& layout) {
  return std::string(dtype_info(layout.type).name) + ", head_dim " + std::to_string(layout.head_dim);
}

// What a KV type makes of x [head_dim].
std::vector<float> rounded(const KvLayout& layout, std::span<const float> x) {
  std::vector<float> out(x.begin(), x.end());
  for (size_t i = 0; i < out.size(); ++i) {
    if (layout.type == DType::kF16) out[i] = half_to_float(half_from_float(x[i]));
    if (layout.type == DType::kBF16) out[i] = bf16_to_float(bf16_from_float(x[i]));
    if (layout.type == DType::kQ8_0 && i % 32 == 0) {
      float amax = 0.0f;
      for (size_t j = i; j < i + 32; ++j) amax = std::max(amax, std::fabs(x[j]));
      const float scale = half_to_float(half_from_float(amax / 127.0f));
      for (size_t j = i; j < i + 32; ++j) out[j] = scale * (std::nearbyint(x[j] * (127.0f / amax)) + 0.0f);  // no -0
    }
  }
  return out;
}

// KV of one sequence, as stored by one instruction set and as rounded vectors. What was never written is NaN.
struct Context {
  KvLayout layout;
  std::vector<std::vector<uint8_t>> tiles;
  std::vector<std::vector<float>> keys, values;  // [position * kv_heads + head][head_dim], rounded

  const std::vector<float>& key(int position, int head) const {
    return keys[static_cast<size_t>(position * layout.kv_heads + head)];
  }
  const std::vector<float>& value(int position, int head) const {
    return values[static_cast<size_t>(position * layout.kv_heads + head)];
  }
  uint8_t* tile(int position) { return tiles[static_cast<size_t>(position / kTilePositions)].data(); }
};

Context make_context(const Ops& f, const KvLayout& layout, int positions, uint32_t seed) {
  Context out;
  out.layout = layout;
  const int count = (positions + kTilePositions - 1) / kTilePositions;
  out.tiles.assign(static_cast<size_t>(count),
                   std::vector<uint8_t>(static_cast<size_t>(layout.tile_bytes()), uint8_t{0xFF}));
  for (int p = 0; p < positions; ++p) {
    for (int head = 0; head < layout.kv_heads; ++head, seed += 2) {
      const std::vector<float> key = normals(layout.head_dim, seed), value = normals(layout.head_dim, seed + 1);
      f.store_kv(layout, out.tile(p), head, p % kTilePositions, key.data(), value.data());
      out.keys.push_back(rounded(layout, key));
      out.values.push_back(rounded(layout, value));
    }
  }
  return out;
}

struct Query {
  std::vector<float> q;
  int first;
  int last;
};

std::vector<Query> make_queries(const KvLayout& layout, std::span<const std::pair<int, int>> limits, uint32_t seed) {
  std::vector<Query> out;
  for (const auto& [first, last] : limits) {
    std::vector<float> q = normals(layout.head_dim, ++seed);
    for (float& x : q) x *= 2.0f / std::sqrt(static_cast<float>(layout.head_dim));
    out.push_back({std::move(q), first, last});
  }
  return out;
}

using Outputs = std::vector<std::vector<float>>;
using Groups = std::vector<std::vector<size_t>>;  // which queries share a call

Groups all_at_once(size_t count) {
  Groups out(1);
  for (size_t i = 0; i < count; ++i) out[0].push_back(i);
  return out;
}

enum class Merge { kAsTheyCome, kAtTheEnd };

// Attention of one group of queries: as the engine does it, tile by tile in order.
void attend_group(const Ops& f, const Context& context, int head, const std::vector<Query>& queries,
                  const std::vector<size_t>& group, Merge merge, Outputs* out) {
  const KvLayout& layout = context.layout;
  const size_t dim = static_cast<size_t>(layout.head_dim), tiles = context.tiles.size();
  std::vector<AttentionQuery> now;
  for (size_t i : group) now.push_back({queries[i].q.data(), (*out)[i].data(), queries[i].first, queries[i].last});
  std::vector<float> total_memory(group.size() * dim), part_memory(tiles * group.size() * dim, kNan);
  std::vector<AttentionPartial> totals, parts;
  for (size_t i = 0; i < group.size(); ++i) totals.push_back({0.0f, 0.0f, total_memory.data() + i * dim, true});
  for (size_t i = 0; i < tiles * group.size(); ++i) parts.push_back({kNan, kNan, part_memory.data() + i * dim, false});
  auto merge_tile = [&](size_t t) {
    for (size_t i = 0; i < group.size(); ++i) f.merge(&totals[i], parts[t * group.size() + i], layout.head_dim);
  };
  for (size_t t = 0; t < tiles; ++t) {
    const uint8_t* next = t + 1 < tiles ? context.tiles[t + 1].data() + layout.keys_offset(head) : nullptr;
    f.attend_tile(layout, context.tiles[t].data(), static_cast<int>(t), head, now.data(),
                  static_cast<int>(group.size()), next, &parts[t * group.size()]);
    if (merge == Merge::kAsTheyCome) merge_tile(t);
  }
  for (size_t t = 0; merge == Merge::kAtTheEnd && t < tiles; ++t) merge_tile(t);
  for (size_t i = 0; i < group.size(); ++i) f.finish(totals[i], layout.head_dim, now[i].out);
}

Outputs attend(const Ops& f, const Context& context, int head, const std::vector<Query>& queries, const Groups& groups,
               Merge merge = Merge::kAsTheyCome) {
  Outputs out(queries.size(), std::vector<float>(static_cast<size_t>(context.layout.head_dim)));
  for (const std::vector<size_t>& group : groups) attend_group(f, context, head, queries, group, merge, &out);
  return out;
}

testing::AssertionResult same_outputs(const Outputs& a, const Outputs& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (!same_bits(a[i], b[i])) return same_bits(a[i], b[i]) << " of query " << i;
  }
  return testing::AssertionSuccess();
}

void expect_equals_double(const Context& context, int head, const Query& query, const std::vector<float>& out) {
  const size_t dim = query.q.size();
  std::vector<double> scores;
  double top = -INFINITY, magnitude = 0.0;
  for (int p = query.first; p <= query.last; ++p) {
    double score = 0.0, size = 0.0;
    for (size_t d = 0; d < dim; ++d) {
      const double product = double{query.q[d]} * context.key(p, head)[d];
      score += product;
      size += std::fabs(product);
    }
    scores.push_back(score);
    top = std::max(top, score);
    magnitude = std::max(magnitude, size);
  }
  double sum = 0.0;
  std::vector<double> expected(dim), sizes(dim);
  for (int p = query.first; p <= query.last; ++p) {
    const double weight = std::exp(scores[static_cast<size_t>(p - query.first)] - top);
    sum += weight;
    for (size_t d = 0; d < dim; ++d) {
      expected[d] += weight * context.value(p, head)[d];
      sizes[d] += weight * std::fabs(context.value(p, head)[d]);
    }
  }
  // A score rounds dim + 2 times at its size, and its difference from the maximum once; that error of the exponent is
  // the weight's relative one, to which exp and merging add 8 roundings, and the sums 128 each and 4 per tile.
  // Numerator and denominator both have it.
  const double exponent = (static_cast<double>(dim) + 4.0) * magnitude;
  const double tolerance = 2 * (exponent + 8 + 128 + 4 * static_cast<double>(context.tiles.size())) * 0x1p-24;
  for (size_t d = 0; d < dim; ++d) {
    ASSERT_NEAR(out[d], expected[d] / sum, tolerance * sizes[d] / sum)
        << label(context.layout) << ", positions " << query.first << " to " << query.last << ", dimension " << d;
  }
}

std::vector<std::pair<int, int>> windows(int positions) {
  const int last = positions - 1;
  return {{0, last},
          {0, last / 2},
          {last, last},
          {last / 3, last},
          {last / 2, last / 2 + last / 4},
          {0, 0},
          {std::max(0, last - 127), last},
          {std::max(0, last - 15), last}};
}

TEST(Attention, EqualsSoftmaxInDoubleOnEveryIsa) {
  print_isas();
  for (DType type : kKvTypes) {
    for (int head_dim : {16, 32, 64, 80, 128, 256}) {
      if (type == DType::kQ8_0 && head_dim % 32 != 0) continue;
      for (int positions : {1, 16, 17, 127, 128, 129, 700}) {
        const KvLayout layout = {type, 2, head_dim};
        const uint32_t seed = static_cast<uint32_t>(head_dim * 1000 + positions);
        const std::vector<Query> queries = make_queries(layout, windows(positions), seed);
        const Context context = make_context(kPortableOps, layout, positions, seed);
        const Outputs expected = attend(kPortableOps, context, 1, queries, all_at_once(queries.size()));
        for (size_t i = 0; i < queries.size(); ++i) expect_equals_double(context, 1, queries[i], expected[i]);
        for (Isa isa : isas_here()) {
          EXPECT_TRUE(same_outputs(attend(ops(isa), context, 1, queries, all_at_once(queries.size())), expected))
              << isa_name(isa) << ", " << label(layout) << ", " << positions << " positions";
        }
      }
    }
  }
}

// Row law: how queries share calls, and when tiles are merged, changes no bit.
TEST(Attention, GroupingAndOrderOfQueriesChangeNothing) {
  for (DType type : kKvTypes) {
    for (int head_dim : {32, 80, 128}) {
      if (type == DType::kQ8_0 && head_dim % 32 != 0) continue;
      const KvLayout layout = {type, 1, head_dim};
      const int positions = 300;
      const Context context = make_context(kPortableOps, layout, positions, 7);
      // 64 queries: runs of 1 to 8 with the same limits (heads of a group), then others.
      std::vector<std::pair<int, int>> limits;
      std::mt19937 random(8);
      for (int run = 1; limits.size() < kMaxQueries; run = run % 8 + 1) {
        const int last = static_cast<int>(random() % positions), first = static_cast<int>(random() % 3) * last / 3;
        for (int i = 0; i < run && limits.size() < kMaxQueries; ++i) limits.emplace_back(first, last);
      }
      const std::vector<Query> queries = make_queries(layout, limits, 9);
      Groups single;
      for (size_t i = 0; i < queries.size(); ++i) single.push_back({i});
      const Outputs expected = attend(kPortableOps, context, 0, queries, single);
      for (Isa isa : isas_here()) {
        const std::string what = std::string(isa_name(isa)) + ", " + label(layout);
        EXPECT_TRUE(same_outputs(attend(ops(isa), context, 0, queries, single), expected)) << what;
        Groups whole = all_at_once(queries.size());
        EXPECT_TRUE(same_outputs(attend(ops(isa), context, 0, queries, whole), expected)) << what;
        EXPECT_TRUE(same_outputs(attend(ops(isa), context, 0, queries, whole, Merge::kAtTheEnd), expected)) << what;
        std::reverse(whole[0].begin(), whole[0].end());
        EXPECT_TRUE(same_outputs(attend(ops(isa), context, 0, queries, whole), expected)) << what;
        for (size_t size = 2; size < 40; size = size * 3 / 2) {
          std::shuffle(whole[0].begin(), whole[0].end(), random);
          Groups pieces;
          for (size_t i = 0; i < queries.size(); ++i) {
            if (i % size == 0) pieces.emplace_back();
            pieces.back().push_back(whole[0][i]);
          }
          EXPECT_TRUE(same_outputs(attend(ops(isa), context, 0, queries, pieces), expected)) << what << ", " << size;
        }
      }
    }
  }
}

TEST(Attention, SlotsOutsideAQuerysLimitsDoNotMatter) {
  for (DType type : kKvTypes) {
    const KvLayout layout = {type, 1, 64};
    const std::vector<float> broken(64, kNan), infinite(64, kInf);
    const std::pair<int, int> limits[] = {{140, 200}, {129, 141}, {140, 140}, {127, 128}, {64, 255}, {200, 290}};
    for (const auto& limit : limits) {
      const std::vector<Query> queries = make_queries(layout, {&limit, 1}, 3);
      const Context clean = make_context(kPortableOps, layout, 300, 4);
      const Outputs expected = attend(kPortableOps, clean, 0, queries, all_at_once(1));
      for (Isa isa : isas_here()) {
        for (const std::vector<float>& garbage : {broken, infinite}) {
          Context dirty = clean;
          for (int p = 0; p < 300; ++p) {
            if (p >= limit.first && p <= limit.second) continue;
            ops(isa).store_kv(layout, dirty.tile(p), 0, p % kTilePositions, garbage.data(), garbage.data());
          }
          EXPECT_TRUE(same_outputs(attend(ops(isa), dirty, 0, queries, all_at_once(1)), expected))
              << isa_name(isa) << ", " << label(layout) << ", from " << limit.first << " to " << limit.second;
        }
      }
    }
  }
}

TEST(Attention, ABrokenQueryOrPositionReachesOnlyThoseWhoSeeIt) {
  for (DType type : kKvTypes) {
    const KvLayout layout = {type, 1, 64};
    const std::pair<int, int> limits[] = {{0, 299}, {0, 149}, {0, 299}, {151, 299}, {0, 150}, {150, 150}};
    std::vector<Query> queries = make_queries(layout, limits, 5);
    const Context clean = make_context(kPortableOps, layout, 300, 6);
    const Outputs expected = attend(kPortableOps, clean, 0, queries, all_at_once(6));
    for (Isa isa : isas_here()) {
      for (float special : {kNan, kInf, -kInf}) {
        std::vector<Query> broken = queries;
        broken[2].q[17] = special;
        Outputs out = attend(ops(isa), clean, 0, broken, all_at_once(6));
        for (size_t i = 0; i < 6; ++i) {
          if (i != 2) {
            EXPECT_TRUE(same_bits(out[i], expected[i])) << isa_name(isa) << ", " << label(layout);
          } else if (std::isnan(special)) {
            EXPECT_TRUE(std::all_of(out[i].begin(), out[i].end(), [](float x) { return std::isnan(x); }));
          }
        }
        EXPECT_TRUE(same_bits(out[2], attend(kPortableOps, clean, 0, broken, all_at_once(6))[2]));
        // A broken key spoils every dimension, a broken value its own (with q8_0: its block of 32).
        Context dirty = clean;
        const std::vector<float> key = normals(64, 10);
        std::vector<float> value = normals(64, 11);
        value[40] = special;
        ops(isa).store_kv(layout, dirty.tile(150), 0, 150 % kTilePositions, key.data(), value.data());
        out = attend(ops(isa), dirty, 0, queries, all_at_once(6));
        for (size_t i : {size_t{1}, size_t{3}}) EXPECT_TRUE(same_bits(out[i], expected[i]));
        for (size_t i : {size_t{0}, size_t{2}, size_t{4}, size_t{5}}) {
          EXPECT_FALSE(std::isfinite(out[i][40])) << isa_name(isa) << ", " << label(layout);
          EXPECT_TRUE(std::isfinite(out[i][31])) << isa_name(isa) << ", " << label(layout);
        }
        EXPECT_TRUE(same_outputs(out, attend(kPortableOps, dirty, 0, queries, all_at_once(6))));
      }
    }
  }
}

TEST(Attention, OnePositionGivesItsValueBack) {
  for (DType type : kKvTypes) {
    for (int head_dim : {32, 64, 128, 256, 512}) {
      const KvLayout layout = {type, 3, head_dim};
      for (Isa isa : isas_here()) {
        Context context = make_context(ops(isa), layout, 130, 12);
        for (int position : {0, 15, 16, 100, 127, 128, 129}) {
          const std::pair<int, int> limit = {position, position};
          for (int head = 0; head < 3; ++head) {
            const std::vector<Query> queries = make_queries(layout, {&limit, 1}, 13);
            EXPECT_TRUE(
                same_bits(attend(ops(isa), context, head, queries, all_at_once(1))[0], context.value(position, head)))
                << isa_name(isa) << ", " << label(layout);
          }
        }
      }
    }
  }
}

TEST(Attention, TilesThatAQueryDoesNotSeeAreEmptyAndLeftAlone) {
  const KvLayout layout = {DType::kF16, 1, 32};
  for (Isa isa : isas_here()) {
    const Ops& f = ops(isa);
    const std::vector<uint8_t> garbage(static_cast<size_t>(layout.tile_bytes()), uint8_t{0xFF});
    const std::vector<float> q = normals(32, 1);
    std::vector<float> memory(3 * 32, 5.0f);
    // Tile 2 holds positions 256 to 383.
    const AttentionQuery queries[] = {
        {q.data(), nullptr, 0, 255}, {q.data(), nullptr, 384, 500}, {q.data(), nullptr, 0, -1}};
    AttentionPartial parts[3];
    for (size_t i = 0; i < 3; ++i) parts[i] = {1.0f, 2.0f, memory.data() + 32 * i, false};
    f.attend_tile(layout, garbage.data(), 2, 0, queries, 3, nullptr, parts);
    float total_memory[32] = {};
    AttentionPartial total = {0.0f, 0.0f, total_memory, true};
    for (const AttentionPartial& part : parts) {
      EXPECT_TRUE(part.empty) << isa_name(isa);
      f.merge(&total, part, 32);
    }
    EXPECT_TRUE(total.empty);
    EXPECT_EQ(memory, std::vector<float>(3 * 32, 5.0f));
  }
}

// Where kv_layout.h says that element d of a slot's key or value is.
template <class T>
T element(const Context& context, int64_t part, bool key, int slot, int d) {
  const int dim = context.layout.head_dim;
  const int64_t index = key ? int64_t{slot / 16} * dim * 16 + int64_t{d} * 16 + slot % 16 : int64_t{slot} * dim + d;
  T out;
  std::memcpy(&out, context.tiles[0].data() + part + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return out;
}

float stored(const Context& context, int head, bool key, int slot, int d) {
  const KvLayout& layout = context.layout;
  const int64_t part = key ? layout.keys_offset(head) : layout.values_offset(head);
  switch (layout.type) {
    case DType::kF32:
      return element<float>(context, part, key, slot, d);
    case DType::kBF16:
      return bf16_to_float(element<uint16_t>(context, part, key, slot, d));
    case DType::kQ8_0: {
      const int blocks = layout.head_dim / 32;
      const int64_t index =
          key ? (int64_t{slot / 16} * blocks + d / 32) * 16 + slot % 16 : int64_t{d / 32} * 128 + slot;
      uint16_t scale;
      std::memcpy(&scale, context.tiles[0].data() + part + int64_t{128} * layout.head_dim + 2 * index, 2);
      return half_to_float(scale) * static_cast<float>(element<int8_t>(context, part, key, slot, d));
    }
    default:
      return half_to_float(element<uint16_t>(context, part, key, slot, d));
  }
}

TEST(StoreKv, WritesItsSlotWhereTheLayoutSays) {
  for (DType type : kKvTypes) {
    for (int head_dim : {32, 128}) {
      const KvLayout layout = {type, 2, head_dim};
      for (Isa isa : isas_here()) {
        Context context = make_context(ops(isa), layout, 128, 20);
        std::vector<uint8_t>& tile = context.tiles[0];
        for (int slot = 0; slot < 128; ++slot) {
          for (int d = 0; d < head_dim; ++d) {
            ASSERT_EQ(stored(context, 1, true, slot, d), context.key(slot, 1)[static_cast<size_t>(d)]);
            ASSERT_EQ(stored(context, 1, false, slot, d), context.value(slot, 1)[static_cast<size_t>(d)]);
          }
        }
        // Writing a slot again with what it held changes nothing; writing others into it changes no other slot.
        const std::vector<uint8_t> before = tile;
        const std::vector<float> key = normals(head_dim, 21), value = normals(head_dim, 22);
        ops(isa).store_kv(layout, tile.data(), 1, 37, key.data(), value.data());
        EXPECT_NE(tile, before);
        for (int head = 0; head < 2; ++head) {
          for (int slot = 0; slot < 128; ++slot) {
            if (head == 1 && slot == 37) continue;
            for (int d = 0; d < head_dim; ++d) {
              ASSERT_EQ(stored(context, head, true, slot, d), context.key(slot, head)[static_cast<size_t>(d)]);
              ASSERT_EQ(stored(context, head, false, slot, d), context.value(slot, head)[static_cast<size_t>(d)]);
            }
          }
        }
      }
    }
  }
}

TEST(StoreKv, EveryIsaStoresTheSameBytes) {
  for (DType type : kKvTypes) {
    const KvLayout layout = {type, 1, 96};
    for (Kind kind : kKinds) {
      std::vector<uint8_t> expected;
      for (Isa isa : isas_here()) {
        std::vector<uint8_t> tile(static_cast<size_t>(layout.tile_bytes()), uint8_t{0xEE});
        for (int slot = 0; slot < 128; slot += 3) {
          const uint32_t seed = static_cast<uint32_t>(slot);
          const std::vector<float> key = values(kind, 96, seed), value = values(kind, 96, seed + 1000);
          ops(isa).store_kv(layout, tile.data(), 0, slot, key.data(), value.data());
        }
        if (expected.empty()) expected = tile;
        EXPECT_EQ(tile, expected) << isa_name(isa) << ", " << label(layout);
      }
    }
  }
}

}  // namespace
}  // namespace dspark
