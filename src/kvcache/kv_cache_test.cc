// Tests of kv_cache.h, one behaviour each. Random sequences of calls are in kv_cache_model_test.cc, threads in
// kv_cache_threads_test.cc.
#include "kvcache/kv_cache.h"

#include <gmock/gmock.h>

#include "kvcache/kv_test_cache.h"

namespace dspark {
namespace {

using testing::HasSubstr;

std::unique_ptr<KvCache> make_cache(KvCacheOptions options) {
  return std::move(KvCache::create(std::move(options)).value());
}

void expect_sound(const KvCache& cache, std::initializer_list<const TestSequence*> sequences = {}) {
  std::vector<const SequenceKv*> open;
  for (const TestSequence* sequence : sequences) open.push_back(&sequence->kv);
  const Status status = cache.check(open);
  EXPECT_TRUE(status.ok()) << status.error().message;
  const KvStats stats = cache.stats();
  EXPECT_EQ(stats.capacity_blocks, stats.free_blocks + stats.used_blocks + stats.cached_blocks + stats.pinned_blocks);
  EXPECT_EQ(stats.sequences, static_cast<int64_t>(sequences.size()));
  EXPECT_EQ(cache.available_blocks(), stats.free_blocks + stats.cached_blocks);
}

TEST(KvCache, RefusesBadOptions) {
  const auto message = [](KvCacheOptions options) {
    auto made = KvCache::create(std::move(options));
    return made.ok() ? std::string("made") : made.error().message;
  };
  KvCacheOptions options = test_options(4);
  options.memory_bytes = 100;
  EXPECT_EQ(message(options), "100 bytes of KV memory, but a block of 128 positions takes 49152; give more");
  options = test_options(4, 65);
  EXPECT_EQ(message(options), "65 KV cache shards; give 1 to 64");
  options = test_options(4, 0);
  EXPECT_THAT(message(options), HasSubstr("0 KV cache shards"));
  options = test_options(4);
  options.prealloc_ratio = std::nan("");
  EXPECT_EQ(message(options), "a KV preallocation ratio of nan; give 0 to 1");
  options.prealloc_ratio = 1.0;
  options.memory_bytes = int64_t{1} << 60;
  EXPECT_THAT(message(options), HasSubstr("are to be taken at once"));
}

TEST(KvCache, GrowsOnDemandFromWhatWasTakenAtTheStart) {
  KvCacheOptions options = test_options(2000);
  const auto lazy = make_cache(options);
  EXPECT_EQ(lazy->stats().memory_bytes, 0);
  options.prealloc_ratio = 0.5;
  const auto half = make_cache(options);
  const int64_t taken = half->stats().memory_bytes;
  EXPECT_GE(taken, 1000 * half->block_bytes());
  EXPECT_LT(taken, 2000 * half->block_bytes());
  TestSequence sequence = open_sequence(*half, "", {}, 0);
  ASSERT_TRUE(sequence.kv.reserve(1000 * kTilePositions).ok());
  EXPECT_EQ(half->stats().memory_bytes, taken);
  ASSERT_TRUE(sequence.kv.reserve(2000 * kTilePositions).ok());
  EXPECT_EQ(half->stats().memory_bytes, 2000 * half->block_bytes());
}

TEST(KvCache, SharesWholeBlocksAndCopiesTheRunInsideTheNext) {
  const auto cache = make_cache(test_options(16));
  const Tokens first = iota_tokens(300);
  TestSequence a = run_sequence(*cache, "t", first);
  // Still running: its whole blocks can be had, its tail cannot.
  TestSequence b = open_sequence(*cache, "t", first, 299);
  EXPECT_EQ(b.kv.length(), 256);
  EXPECT_EQ(b.kv.table()[0], a.kv.table()[0]);
  EXPECT_EQ(b.first_wrong(), -1);
  b.kv.close(KvTail::kDrop);
  a.kv.close(KvTail::kKeep);

  Tokens differs = first;
  differs[290] = -1;
  TestSequence c = open_sequence(*cache, "t", differs, 300);
  EXPECT_EQ(c.kv.length(), 290);
  EXPECT_EQ(c.first_wrong(), -1);
  ASSERT_TRUE(c.append(std::span(differs).subspan(290)).ok());
  EXPECT_EQ(c.first_wrong(), -1);

  // The copy did not touch its source, and a run inside a whole block is copied as well.
  Tokens shorter = iota_tokens(200);
  shorter.push_back(-5);
  TestSequence d = open_sequence(*cache, "t", shorter, 201);
  EXPECT_EQ(d.kv.length(), 200);
  EXPECT_EQ(d.first_wrong(), -1);
  TestSequence e = open_sequence(*cache, "t", first, 300);
  EXPECT_EQ(e.kv.length(), 300);
  EXPECT_EQ(e.first_wrong(), -1);
  expect_sound(*cache, {&c, &d, &e});
  const KvCounters counters = cache->stats().counters;
  EXPECT_EQ(counters.prompt_tokens, 300 + 300 + 300 + 201 + 300);
  EXPECT_EQ(counters.hit_tokens, 0 + 256 + 290 + 200 + 300);
  EXPECT_EQ(counters.copied_tokens, 34 + 72);  // e goes on with the tail itself
  EXPECT_EQ(counters.block_lookups, 2 + 2 + 2 + 1 + 2);
  EXPECT_EQ(counters.block_hits, 0 + 2 + 2 + 1 + 2);
}

TEST(KvCache, ATailThatNobodyHoldsIsGoneOnWithInPlace) {
  const auto cache = make_cache(test_options(16));
  const Tokens all = iota_tokens(300);
  const auto first = [&](int count) { return Tokens(all.begin(), all.begin() + count); };
  run_sequence(*cache, "", first(170)).kv.close(KvTail::kKeep);

  TestSequence a = open_sequence(*cache, "", first(200), 199);
  EXPECT_EQ(a.kv.length(), 170);
  EXPECT_EQ(cache->stats().cached_blocks, 0);
  EXPECT_EQ(cache->stats().used_blocks, 2) << "no copy";
  ASSERT_TRUE(a.append(std::span(all).subspan(170, 30)).ok());
  EXPECT_EQ(cache->stats().slack_positions, 256 - 200);
  expect_sound(*cache, {&a});

  // Meanwhile others find what was there before, and get copies of it: b as much as the tail had, c less.
  TestSequence b = open_sequence(*cache, "", first(210), 209);
  EXPECT_EQ(b.kv.length(), 170);
  Tokens differs = first(200);
  differs[150] = -1;
  TestSequence c = open_sequence(*cache, "", differs, 199);
  EXPECT_EQ(c.kv.length(), 150);
  ASSERT_TRUE(b.append(std::span(all).subspan(170, 40)).ok());
  ASSERT_TRUE(c.append(std::span(differs).subspan(150)).ok());
  for (const TestSequence* sequence : {&a, &b, &c}) EXPECT_EQ(sequence->first_wrong(), -1);
  EXPECT_EQ(cache->stats().counters.copied_tokens, 42 + 22);
  expect_sound(*cache, {&a, &b, &c});

  // Given up, it leaves the tail as it found it; cut below its text, it copies.
  a.kv.close(KvTail::kDrop);
  EXPECT_EQ(open_sequence(*cache, "", first(200), 200).kv.length(), 170);
  TestSequence d = open_sequence(*cache, "", first(200), 200);
  ASSERT_TRUE(d.kv.truncate(140).ok());
  d.truncate_text();
  ASSERT_TRUE(d.append(Tokens(20, -7)).ok());
  EXPECT_EQ(d.first_wrong(), -1);
  expect_sound(*cache, {&b, &c, &d});
  TestSequence e = open_sequence(*cache, "", first(200), 200);
  EXPECT_EQ(e.kv.length(), 170);
  EXPECT_EQ(e.first_wrong(), -1);

  // While e grows it, b publishes a longer version: the tail is e's alone then, and full it is one more child.
  b.kv.close(KvTail::kKeep);
  Tokens other = first(170);
  other.insert(other.end(), 100, -9);
  ASSERT_TRUE(e.append(std::span(other).subspan(170)).ok());
  expect_sound(*cache, {&c, &d, &e});
  e.kv.close(KvTail::kKeep);
  EXPECT_EQ(open_sequence(*cache, "", other, 270).kv.length(), 270);
  EXPECT_EQ(open_sequence(*cache, "", first(300), 300).kv.length(), 210);
  c.kv.close(KvTail::kKeep);
  d.kv.close(KvTail::kKeep);
  expect_sound(*cache);
  EXPECT_EQ(cache->stats().used_blocks, 0);
}

TEST(KvCache, AGrowingTailMeetsAnEqualBlockACollisionAndAPin) {
  const Tokens text = iota_tokens(128);
  const auto tail = Tokens(text.begin(), text.begin() + 50);
  {
    const auto cache = make_cache(test_options(8));
    run_sequence(*cache, "", tail).kv.close(KvTail::kKeep);
    TestSequence a = open_sequence(*cache, "", text, 127);
    TestSequence b = open_sequence(*cache, "", text, 127);
    ASSERT_TRUE(b.append(std::span(text).subspan(50)).ok());
    ASSERT_TRUE(a.append(std::span(text).subspan(50)).ok());
    EXPECT_EQ(a.kv.table()[0], b.kv.table()[0]);
    EXPECT_EQ(cache->stats().used_blocks, 1) << "the tail went when all of it was in the other one";
    expect_sound(*cache, {&a, &b});
  }
  {
    KvCacheOptions options = test_options(8);
    options.block_digest = short_digest(1);
    const auto cache = make_cache(options);
    run_sequence(*cache, "", iota_tokens(128, 5000)).kv.close(KvTail::kKeep);
    run_sequence(*cache, "", tail).kv.close(KvTail::kKeep);
    TestSequence a = open_sequence(*cache, "", text, 127);
    ASSERT_EQ(a.kv.length(), 50);
    ASSERT_TRUE(a.append(std::span(text).subspan(50)).ok());
    ASSERT_TRUE(a.append(iota_tokens(40, 900)).ok());
    EXPECT_EQ(cache->stats().counters.hash_collisions, 1);
    expect_sound(*cache, {&a});
    Result<SequenceKv> fork = a.kv.fork();
    ASSERT_TRUE(fork.ok());
    EXPECT_EQ((TestSequence{std::move(*fork), "", a.text}.first_wrong()), -1);
    a.kv.close(KvTail::kKeep);
    expect_sound(*cache);
    EXPECT_EQ(open_sequence(*cache, "", text, 127).kv.length(), 50);
  }
  {
    const auto cache = make_cache(test_options(8));
    run_sequence(*cache, "", tail).kv.close(KvTail::kKeep);
    TestSequence a = open_sequence(*cache, "", text, 127);
    ASSERT_TRUE(a.append(std::span(text).subspan(50, 30)).ok());
    TestSequence b = run_sequence(*cache, "", tail);
    ASSERT_TRUE(b.kv.close_pinned().ok());  // the same text: it is a's block that is pinned
    expect_sound(*cache, {&a});
    a.kv.close(KvTail::kKeep);
    EXPECT_EQ(cache->stats().pinned_blocks, 1);
    EXPECT_EQ(cache->drop_cached(), 0);
    EXPECT_EQ(open_sequence(*cache, "", text, 127).kv.length(), 80);
    expect_sound(*cache);
  }
}

TEST(KvCache, AGrowingTailKeepsTheDraftersKv) {
  const auto cache = make_cache(test_options(8));
  const Tokens text = iota_tokens(100);
  const auto first = [&](int count) { return Tokens(text.begin(), text.begin() + count); };
  run_sequence(*cache, "", first(40)).kv.close(KvTail::kKeep);
  TestSequence a = open_sequence(*cache, "", text, 99, true);
  EXPECT_EQ(a.kv.length(), 40);
  EXPECT_EQ(a.kv.draft_length(), 40);
  ASSERT_TRUE(a.append(std::span(text).subspan(40, 20)).ok());
  ASSERT_TRUE(a.append(std::span(text).subspan(60, 20), false).ok());
  EXPECT_EQ(a.kv.draft_length(), 60);
  EXPECT_EQ(open_sequence(*cache, "", text, 99, true).kv.length(), 40);
  a.kv.close(KvTail::kKeep);
  EXPECT_EQ(open_sequence(*cache, "", text, 99, true).kv.length(), 60);
  EXPECT_EQ(open_sequence(*cache, "", text, 99, false).kv.length(), 80);
  // Of another drafter from here on.
  TestSequence b = open_sequence(*cache, "", text, 99);
  Sha256Digest digest = {};
  digest[0] = 2;
  cache->set_drafter(digest);
  ASSERT_TRUE(b.append(std::span(text).subspan(80), true, 2).ok());
  b.kv.close(KvTail::kKeep);
  EXPECT_EQ(open_sequence(*cache, "", text, 100, true).kv.length(), 0);
  EXPECT_EQ(open_sequence(*cache, "", text, 100).kv.length(), 100);
  expect_sound(*cache);
}

TEST(KvCache, LeavesTheLastPositionToCompute) {
  const auto cache = make_cache(test_options(8));
  const Tokens prompt = iota_tokens(256);
  run_sequence(*cache, "", prompt);
  const KvPrefix prefix = cache->announce("", "", prompt);
  EXPECT_EQ(cache->cached(prefix, {.max_cached = 255}), 255);
  TestSequence again = open_sequence(*cache, "", prompt, 255);
  EXPECT_EQ(again.kv.length(), 255);
  ASSERT_TRUE(again.append(std::span(prompt).subspan(255)).ok());
  // The block is there already: the private copy was exchanged for it.
  EXPECT_EQ(cache->stats().counters.duplicates, 1);
  EXPECT_EQ(cache->stats().used_blocks, 2);
  EXPECT_EQ(again.first_wrong(), -1);
  expect_sound(*cache, {&again});
}

TEST(KvCache, EqualBlocksOfTwoRunningSequencesBecomeOne) {
  const auto cache = make_cache(test_options(8));
  const Tokens prompt = iota_tokens(128);
  TestSequence a = open_sequence(*cache, "", prompt, 128);
  TestSequence b = open_sequence(*cache, "", prompt, 128);
  ASSERT_TRUE(a.append(prompt).ok());
  ASSERT_TRUE(b.append(prompt).ok());
  EXPECT_EQ(a.kv.table()[0], b.kv.table()[0]);
  EXPECT_EQ(cache->stats().used_blocks, 1);
  expect_sound(*cache, {&a, &b});
}

TEST(KvCache, NeverServesAnotherTenantOrSalt) {
  const auto cache = make_cache(test_options(8, 4));
  const Tokens prompt = iota_tokens(300);
  run_sequence(*cache, "a", prompt).kv.close(KvTail::kKeep);
  EXPECT_EQ(open_sequence(*cache, "b", prompt, 300).kv.length(), 0);
  EXPECT_EQ(open_sequence(*cache, "", prompt, 300).kv.length(), 0);
  const KvPrefix salted = cache->announce("a", "salt", prompt);
  EXPECT_EQ(cache->open(salted, {.max_cached = 300}).length(), 0);
  EXPECT_EQ(cache->cached(salted, {.max_cached = 300}), 0);
  EXPECT_EQ(open_sequence(*cache, "a", prompt, 300).kv.length(), 300);
}

TEST(KvCache, ALongerTailReplacesAShorterOne) {
  const auto cache = make_cache(test_options(8));
  run_sequence(*cache, "", iota_tokens(50)).kv.close(KvTail::kKeep);
  EXPECT_EQ(cache->stats().cached_blocks, 1);
  run_sequence(*cache, "", iota_tokens(90)).kv.close(KvTail::kKeep);
  EXPECT_EQ(cache->stats().cached_blocks, 1);
  run_sequence(*cache, "", iota_tokens(70)).kv.close(KvTail::kKeep);
  EXPECT_EQ(cache->stats().cached_blocks, 1);
  EXPECT_EQ(open_sequence(*cache, "", iota_tokens(100), 100).kv.length(), 90);
  run_sequence(*cache, "", iota_tokens(128)).kv.close(KvTail::kKeep);
  EXPECT_EQ(cache->stats().cached_blocks, 1);
  Tokens other = iota_tokens(60);
  other[30] = 7;
  run_sequence(*cache, "", other).kv.close(KvTail::kKeep);
  EXPECT_EQ(cache->stats().cached_blocks, 2);
  expect_sound(*cache);
}

TEST(KvCache, EvictsWhatWasUsedLongestAgoDeepestFirst) {
  const auto cache = make_cache(test_options(6));
  run_sequence(*cache, "", iota_tokens(256, 0));
  run_sequence(*cache, "", iota_tokens(256, 1000));
  const auto cached = [&](int first) {
    return cache->cached(cache->announce("", "", iota_tokens(256, first)), {.max_cached = 256});
  };
  open_sequence(*cache, "", iota_tokens(256, 0), 256);  // now the newer one
  TestSequence busy = open_sequence(*cache, "", {}, 0);
  ASSERT_TRUE(busy.kv.reserve(3 * kTilePositions).ok());
  EXPECT_EQ(cache->stats().counters.evictions, 1);
  EXPECT_EQ(cached(0), 256);
  EXPECT_EQ(cached(1000), 128);
  ASSERT_TRUE(busy.kv.reserve(5 * kTilePositions).ok());
  EXPECT_EQ(cached(0), 128);
  EXPECT_EQ(cached(1000), 0);
  expect_sound(*cache, {&busy});
}

TEST(KvCache, FailsWithoutChangeWhenAllIsInUse) {
  const auto cache = make_cache(test_options(4, 2));
  TestSequence a = run_sequence(*cache, "", iota_tokens(200));
  TestSequence b = run_sequence(*cache, "", iota_tokens(100, 5000));
  const Status status = b.kv.reserve(200);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kExhausted);
  EXPECT_EQ(status.error().message,
            "200 more positions need 2 KV blocks of 49152 bytes, and all 4 are in use or pinned; raise --kv-memory or "
            "run fewer requests at once");
  EXPECT_EQ(b.kv.reserved(), 128);
  EXPECT_EQ(cache->available_blocks(), 1);
  ASSERT_TRUE(b.kv.reserve(100).ok());
  const auto fork = a.kv.fork();
  ASSERT_FALSE(fork.ok());
  EXPECT_EQ(fork.error().code, ErrorCode::kExhausted);
  ASSERT_FALSE(a.kv.truncate(100).ok());
  EXPECT_EQ(a.kv.length(), 200);
  EXPECT_EQ(a.first_wrong(), -1);
  EXPECT_EQ(b.first_wrong(), -1);
  expect_sound(*cache, {&a, &b});
  // Without memory for the copy, the whole blocks are still shared.
  TestSequence c = open_sequence(*cache, "", iota_tokens(150), 150);
  EXPECT_EQ(c.kv.length(), 128);
  expect_sound(*cache, {&a, &b, &c});
}

TEST(KvCache, AFullShardBorrowsFromTheOthers) {
  const auto cache = make_cache(test_options(32, 8));
  for (int i = 0; i < 32; ++i) run_sequence(*cache, "", iota_tokens(128, 1000 * i));
  EXPECT_EQ(cache->stats().cached_blocks, 32);
  TestSequence all = run_sequence(*cache, "", iota_tokens(32 * 128, 500000));
  EXPECT_EQ(all.kv.length(), 32 * 128);
  EXPECT_EQ(cache->stats().counters.evictions, 32);
  expect_sound(*cache, {&all});
  all.kv.close(KvTail::kDrop);
  EXPECT_EQ(cache->drop_cached(), 32);
  TestSequence again = open_sequence(*cache, "", iota_tokens(1), 1);
  EXPECT_TRUE(again.kv.reserve(32 * 128).ok());
  expect_sound(*cache, {&again});
}

TEST(KvCache, TakesFreeBlocksOfOtherShardsBeforeItEvicts) {
  const auto cache = make_cache(test_options(8, 4));
  run_sequence(*cache, "", iota_tokens(4 * kTilePositions));
  for (int i = 0; i < 16; ++i) {
    // Another home each time; what it had is then free there.
    TestSequence sequence = open_sequence(*cache, "", iota_tokens(10, 1000 * i), 0);
    ASSERT_TRUE(sequence.kv.reserve(4 * kTilePositions).ok());
  }
  EXPECT_EQ(cache->stats().counters.evictions, 0);
}

TEST(KvCache, EvictionOrderIsOneOverAllShards) {
  const auto cache = make_cache(test_options(32, 8));
  for (int i = 0; i < 32; ++i) run_sequence(*cache, "", iota_tokens(128, 1000 * i));
  TestSequence busy = open_sequence(*cache, "", {}, 0);
  ASSERT_TRUE(busy.kv.reserve(16 * kTilePositions).ok());
  for (int i = 0; i < 32; ++i) {
    const KvPrefix prefix = cache->announce("", "", iota_tokens(128, 1000 * i));
    EXPECT_EQ(cache->cached(prefix, {.max_cached = 128}), i < 16 ? 0 : 128) << i;
  }
}

TEST(KvCache, FindsACommonStartInWhicheverShardItLies) {
  const auto cache = make_cache(test_options(32, 8));
  for (int i = 0; i < 16; ++i) {
    Tokens text = iota_tokens(200);
    text[60 + i] = -1;
    TestSequence sequence = open_sequence(*cache, "", text, 200);
    EXPECT_EQ(sequence.kv.length(), i == 0 ? 0 : 59 + i);
    ASSERT_TRUE(sequence.append(std::span(text).subspan(sequence.text.size())).ok());
    sequence.kv.close(KvTail::kKeep);
  }
  int shards_used = 0;
  for (const KvShardStats& shard : cache->stats().shards) shards_used += shard.indexed_blocks > 0;
  EXPECT_GT(shards_used, 2);
  expect_sound(*cache);
}

TEST(KvCache, PinnedBlocksStay) {
  const auto cache = make_cache(test_options(8));
  ASSERT_TRUE(run_sequence(*cache, "", iota_tokens(300)).kv.close_pinned().ok());
  EXPECT_EQ(cache->stats().pinned_blocks, 3);
  run_sequence(*cache, "", iota_tokens(384)).kv.close(KvTail::kKeep);
  EXPECT_EQ(cache->stats().pinned_blocks, 3);
  TestSequence busy = open_sequence(*cache, "", {}, 0);
  EXPECT_FALSE(busy.kv.reserve(6 * kTilePositions).ok());
  EXPECT_TRUE(busy.kv.reserve(5 * kTilePositions).ok());
  EXPECT_EQ(cache->drop_cached(), 0);
  busy.kv.close(KvTail::kDrop);
  TestSequence again = open_sequence(*cache, "", iota_tokens(384), 384);
  EXPECT_EQ(again.kv.length(), 300);
  EXPECT_EQ(again.first_wrong(), -1);
  expect_sound(*cache, {&again});
  again.kv.close(KvTail::kDrop);
  EXPECT_EQ(cache->stats().pinned_blocks, 3);

  const Status full = run_sequence(*cache, "", iota_tokens(256, 9000)).kv.close_pinned();
  ASSERT_FALSE(full.ok());
  EXPECT_EQ(full.error().message,
            "3 KV blocks are pinned and 2 more would be, of 8 at most 4; warm up less or raise --kv-memory");
  EXPECT_EQ(cache->stats().cached_blocks, 2);
  expect_sound(*cache);
}

TEST(KvCache, ForksShareWholeBlocksAndCopyTheTail) {
  const auto cache = make_cache(test_options(16));
  TestSequence a = run_sequence(*cache, "", iota_tokens(300));
  TestSequence b{a.kv.fork().value(), a.tenant, a.text};
  EXPECT_EQ(b.kv.length(), 300);
  EXPECT_EQ(b.kv.draft_length(), 300);
  EXPECT_EQ(b.kv.table()[1], a.kv.table()[1]);
  EXPECT_NE(b.kv.table()[2], a.kv.table()[2]);
  ASSERT_TRUE(a.append(iota_tokens(100, 700)).ok());
  ASSERT_TRUE(b.append(iota_tokens(100, 800)).ok());
  EXPECT_EQ(a.first_wrong(), -1);
  EXPECT_EQ(b.first_wrong(), -1);
  EXPECT_EQ(cache->stats().used_blocks, 6);
  expect_sound(*cache, {&a, &b});
  a.kv.close(KvTail::kDrop);
  EXPECT_EQ(b.first_wrong(), -1);
  expect_sound(*cache, {&b});
}

TEST(KvCache, TruncatesPrivateAndSharedBlocks) {
  const auto cache = make_cache(test_options(16));
  TestSequence a = run_sequence(*cache, "", iota_tokens(300));
  ASSERT_TRUE(a.kv.reserve(500).ok());
  ASSERT_TRUE(a.kv.truncate(300).ok());
  EXPECT_EQ(a.kv.reserved(), 384);
  ASSERT_TRUE(a.kv.truncate(280).ok());
  a.truncate_text();
  ASSERT_TRUE(a.append(iota_tokens(40, 900)).ok());
  EXPECT_EQ(a.first_wrong(), -1);
  TestSequence b = open_sequence(*cache, "", iota_tokens(256), 256);
  ASSERT_TRUE(a.kv.truncate(200).ok());
  a.truncate_text();
  EXPECT_EQ(a.kv.draft_length(), 200);
  EXPECT_NE(a.kv.table()[1], b.kv.table()[1]);
  ASSERT_TRUE(a.append(iota_tokens(100, 950)).ok());
  EXPECT_EQ(a.first_wrong(), -1);
  EXPECT_EQ(b.first_wrong(), -1);
  expect_sound(*cache, {&a, &b});
  ASSERT_TRUE(a.kv.truncate(0).ok());
  EXPECT_EQ(a.kv.reserved(), 0);
  expect_sound(*cache, {&a, &b});
}

TEST(KvCache, DraftingRequestsNeedTheDraftersKvToo) {
  const auto cache = make_cache(test_options(16));
  const Tokens prompt = iota_tokens(300);
  run_sequence(*cache, "", prompt, false).kv.close(KvTail::kKeep);
  EXPECT_EQ(open_sequence(*cache, "", prompt, 300, false).kv.length(), 300);
  EXPECT_EQ(open_sequence(*cache, "", prompt, 300, false).kv.draft_length(), 0);
  TestSequence drafting = open_sequence(*cache, "", prompt, 300, true);
  EXPECT_EQ(drafting.kv.length(), 0);
  ASSERT_TRUE(drafting.append(prompt).ok());
  drafting.kv.close(KvTail::kKeep);
  // Each block is there once, and now with the drafter's part.
  EXPECT_EQ(cache->stats().cached_blocks, 3);
  TestSequence again = open_sequence(*cache, "", prompt, 300, true);
  EXPECT_EQ(again.kv.length(), 300);
  EXPECT_EQ(again.kv.draft_length(), 300);
  EXPECT_EQ(again.first_wrong(), -1);
  again.kv.close(KvTail::kDrop);

  Sha256Digest other = {};
  other[0] = 2;
  cache->set_drafter(other);
  TestSequence plain = open_sequence(*cache, "", prompt, 300, false);
  EXPECT_EQ(plain.kv.length(), 300);
  EXPECT_EQ(plain.kv.draft_length(), 0);
  TestSequence newer = open_sequence(*cache, "", prompt, 300, true);
  EXPECT_EQ(newer.kv.length(), 0);
  ASSERT_TRUE(newer.append(std::span(prompt).first(280), true, 2).ok());
  // From there on without: the drafter's part ends, the target's goes on.
  ASSERT_TRUE(newer.append(std::span(prompt).subspan(280), false).ok());
  EXPECT_EQ(newer.kv.draft_length(), 280);
  EXPECT_EQ(newer.first_wrong(2), -1);
  newer.kv.close(KvTail::kKeep);
  EXPECT_EQ(open_sequence(*cache, "", prompt, 300, true).kv.length(), 280);
  EXPECT_EQ(open_sequence(*cache, "", prompt, 300, true).first_wrong(2), -1);
  expect_sound(*cache, {&plain});
}

TEST(KvCache, CollisionsAreCountedAndNeverServed) {
  KvCacheOptions options = test_options(32, 2);
  options.block_digest = short_digest(1);
  const auto cache = make_cache(options);
  run_sequence(*cache, "a", iota_tokens(128));
  EXPECT_EQ(open_sequence(*cache, "a", iota_tokens(128), 128).kv.length(), 128);
  EXPECT_EQ(cache->stats().counters.hash_collisions, 0);
  // Another text, the same text of another tenant, and the same tokens further behind.
  EXPECT_EQ(open_sequence(*cache, "a", iota_tokens(128, 500), 128).kv.length(), 0);
  EXPECT_EQ(open_sequence(*cache, "b", iota_tokens(128), 128).kv.length(), 0);
  EXPECT_EQ(cache->stats().counters.hash_collisions, 2);
  Tokens twice = iota_tokens(128);
  twice.insert(twice.end(), twice.begin(), twice.begin() + 128);
  TestSequence second = open_sequence(*cache, "a", twice, 256);
  EXPECT_EQ(second.kv.length(), 128);
  EXPECT_EQ(cache->stats().counters.hash_collisions, 3);
  // Such blocks stay private and go when their sequence closes, tail included.
  ASSERT_TRUE(second.append(std::span(twice).subspan(128)).ok());
  ASSERT_TRUE(second.append(iota_tokens(150)).ok());
  EXPECT_EQ(cache->stats().counters.hash_collisions, 4);
  TestSequence fork{second.kv.fork().value(), second.tenant, second.text};
  EXPECT_EQ(fork.first_wrong(), -1);
  ASSERT_TRUE(second.kv.truncate(200).ok());
  second.truncate_text();
  ASSERT_TRUE(second.append(iota_tokens(100)).ok());
  EXPECT_EQ(second.first_wrong(), -1);
  EXPECT_EQ(fork.first_wrong(), -1);
  expect_sound(*cache, {&second, &fork});
  second.kv.close(KvTail::kKeep);
  fork.kv.close(KvTail::kKeep);
  EXPECT_EQ(cache->stats().cached_blocks, 1);
  expect_sound(*cache);
}

TEST(KvCache, CountsConflicts) {
  const auto cache = make_cache(test_options(4));
  const Tokens prompt = iota_tokens(256);
  run_sequence(*cache, "", prompt);
  const auto evict_all = [&] {
    TestSequence busy = open_sequence(*cache, "", {}, 0);
    ASSERT_TRUE(busy.kv.reserve(4 * kTilePositions).ok());
  };
  evict_all();
  // Evicted while nobody wanted it.
  open_sequence(*cache, "", prompt, 256);
  EXPECT_EQ(cache->stats().counters.conflicts, 0);

  run_sequence(*cache, "", prompt);
  KvPrefix queued = cache->announce("", "", prompt);
  evict_all();
  EXPECT_EQ(cache->open(queued, {.max_cached = 256}).length(), 0);
  EXPECT_EQ(cache->stats().counters.conflicts, 2);
  // Back again, and no conflict any more.
  run_sequence(*cache, "", prompt);
  EXPECT_EQ(cache->stats().counters.conflicts, 4);
  EXPECT_EQ(cache->open(queued, {.max_cached = 256}).length(), 256);
  queued = {};
  evict_all();
  open_sequence(*cache, "", prompt, 256);
  EXPECT_EQ(cache->stats().counters.conflicts, 4);
}

TEST(KvCache, ResumedSequencesAreNoPrompts) {
  const auto cache = make_cache(test_options(8));
  run_sequence(*cache, "", iota_tokens(150)).kv.close(KvTail::kKeep);
  const KvPrefix prefix = cache->announce("", "", iota_tokens(150));
  EXPECT_EQ(cache->open(prefix, {.max_cached = 150, .resumed = true}).length(), 150);
  const KvCounters counters = cache->stats().counters;
  EXPECT_EQ(counters.prompt_tokens, 150);
  EXPECT_EQ(counters.hit_tokens, 0);
  EXPECT_EQ(counters.block_hits, 1);
}

TEST(KvCache, CompactionMovesBlocksDownAndKeepsWhatTheyHold) {
  for (const int shards : {1, 3}) {
    const auto cache = make_cache(test_options(64, shards));
    std::vector<Tokens> texts;
    {
      std::vector<TestSequence> open;
      for (int i = 0; i < 12; ++i) {
        texts.push_back(iota_tokens(128 + 40 + 17 * i, 1000 * (i % 4)));  // beginnings in common
        texts.back()[130] += i;
        open.push_back(run_sequence(*cache, i % 2 == 0 ? "a" : "b", texts.back()));
      }
      TestSequence pinned = run_sequence(*cache, "a", iota_tokens(300, 50'000));
      texts.push_back(pinned.text);
      ASSERT_TRUE(pinned.kv.close_pinned().ok());
      EXPECT_FALSE(cache->compact_step()) << "sequences are open";
      for (size_t i = 0; i < open.size(); ++i) open[i].kv.close(i % 3 == 1 ? KvTail::kDrop : KvTail::kKeep);
    }
    const KvStats before = cache->stats();
    ASSERT_GT(before.scatter_ratio(), 0.0);
    const auto cached = [&] {
      std::vector<int> out;
      for (size_t i = 0; i < texts.size(); ++i) {
        const KvPrefix prefix = cache->announce(i == 12 || i % 2 == 0 ? "a" : "b", "", texts[i]);
        out.push_back(cache->cached(prefix, {.max_cached = static_cast<int>(texts[i].size()), .drafts = true}));
      }
      return out;
    };
    const std::vector<int> found = cached();
    int steps = 0;
    while (cache->compact_step()) {
      ASSERT_LT(++steps, 1000);
      const Status status = cache->check();
      ASSERT_TRUE(status.ok()) << status.error().message;
    }
    const Status status = cache->check();
    ASSERT_TRUE(status.ok()) << status.error().message;
    const KvStats after = cache->stats();
    EXPECT_EQ(after.scatter_ratio(), 0.0);
    EXPECT_LT(after.fragmentation_ratio(), before.fragmentation_ratio());
    EXPECT_EQ(after.pinned_blocks, before.pinned_blocks);
    const std::vector<int> still = cached();
    for (size_t i = 0; i < texts.size(); ++i) {
      EXPECT_LE(found[i] - still[i], 32) << "only short tails may go";
      TestSequence again =
          open_sequence(*cache, i == 12 || i % 2 == 0 ? "a" : "b", texts[i], static_cast<int>(texts[i].size()), true);
      EXPECT_EQ(again.kv.length(), still[i]);
      EXPECT_EQ(again.first_wrong(), -1);
    }
    TestSequence more = run_sequence(*cache, "c", iota_tokens(500, 90'000));
    EXPECT_EQ(more.first_wrong(), -1);
  }
}

TEST(KvCache, FragmentationIsSlackAndScatter) {
  const auto cache = make_cache(test_options(16));
  EXPECT_EQ(cache->stats().fragmentation_ratio(), 0.0);
  TestSequence a = run_sequence(*cache, "", iota_tokens(100));
  TestSequence b = run_sequence(*cache, "", iota_tokens(128, 1000));
  TestSequence c = run_sequence(*cache, "", iota_tokens(64, 2000));
  EXPECT_DOUBLE_EQ(cache->stats().slack_ratio(), (28.0 + 64.0) / 384.0);
  EXPECT_EQ(cache->stats().scatter_ratio(), 0.0);
  a.kv.close(KvTail::kDrop);
  EXPECT_DOUBLE_EQ(cache->stats().slack_ratio(), 64.0 / 384.0);
  EXPECT_DOUBLE_EQ(cache->stats().scatter_ratio(), 128.0 / 384.0);
  // The hole is filled first.
  TestSequence d = run_sequence(*cache, "", iota_tokens(128, 3000));
  EXPECT_EQ(cache->stats().scatter_ratio(), 0.0);
  EXPECT_DOUBLE_EQ(cache->stats().fragmentation_ratio(), 64.0 / 384.0);
}

}  // namespace
}  // namespace dspark
