// kv_cache.h under random sequences of calls (RapidCheck), against a model that knows only the texts: what each
// position must hold, and, where nothing is ever evicted, how long the longest reusable prefix is.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <list>
#include <string>
#include <vector>

#include "kvcache/kv_test_cache.h"

namespace dspark {
namespace {

struct Call {
  int what = 0;
  uint32_t a = 0, b = 0, c = 0;
};

struct Setup {
  int64_t blocks = 0;
  int shards = 1;
  int digests = 0;      // different ones; 0: the real digest
  bool evicts = false;  // then reuse can be less than the model's
};

int common(std::span<const int32_t> a, std::span<const int32_t> b) {
  int n = 0;
  while (static_cast<size_t>(n) < std::min(a.size(), b.size()) && a[n] == b[n]) ++n;
  return n;
}

class Player {
 public:
  explicit Player(const Setup& setup) : setup_(setup) {
    KvCacheOptions options = test_options(setup.blocks, setup.shards);
    if (setup.digests > 0) options.block_digest = short_digest(setup.digests);
    cache_ = std::move(KvCache::create(std::move(options)).value());
  }

  void play(const Call& call) {
    const bool any = !open_.empty();
    switch (call.what) {
      case 0:
      case 1:
        if (open_.size() < 6) open(call);
        break;
      case 2:
      case 3:
      case 4:
        if (any) append(pick(call.a), few_tokens(1 + call.b % 200, call.c), call.c);
        break;
      case 5:
        if (any && open_.size() < 6) fork(pick(call.a));
        break;
      case 6:
        if (any) truncate(pick(call.a), call.b);
        break;
      case 7:
      case 8:
        if (any) close(pick(call.a), call.b % 2 == 0);
        break;
      case 9:
        if (any) (void)pick(call.a)->kv.reserve(static_cast<int>(call.b % 400));
        break;
      default:
        rare(call);
    }
    check();
    if (++played_ % 4 == 0) compare();
  }

  void finish() {
    compare();
    while (!open_.empty()) close(open_.begin(), true);
    const KvStats stats = cache_->stats();
    RC_ASSERT(stats.used_blocks == 0);
    RC_ASSERT(cache_->drop_cached() == stats.cached_blocks);
    RC_ASSERT(cache_->stats().free_blocks + stats.pinned_blocks == setup_.blocks);
    check();
  }

 private:
  using Iterator = std::list<TestSequence>::iterator;

  Iterator pick(uint32_t a) { return std::next(open_.begin(), a % open_.size()); }

  // Of few kinds, so that texts meet again.
  static Tokens few_tokens(uint32_t count, uint32_t seed) {
    Tokens out;
    for (uint32_t i = 0; i < count; ++i) out.push_back(static_cast<int32_t>((seed >> (i % 5)) % 3));
    return out;
  }

  // A prompt that begins as some earlier text did, whole blocks of it mostly, then goes its own way.
  Tokens prompt(const Call& call) {
    Tokens out;
    if (!texts_.empty() && call.a % 5 != 0) {
      out = texts_[call.a % texts_.size()].second;
      const size_t cut = call.b % 3 == 0 ? out.size() / 128 * 128 : call.b % (out.size() + 1);
      out.resize(cut);
    }
    const Tokens more = few_tokens(call.c % 250, call.b);
    out.insert(out.end(), more.begin(), more.end());
    if (out.size() > 600) out.resize(600);
    return out;
  }

  void open(const Call& call) {
    const std::string tenant = call.b % 4 == 0 ? "b" : "a";
    const Tokens text = prompt(call);
    // Sometimes nothing, so that blocks which are there already are computed again.
    const int most = call.b % 5 == 0 ? 0 : static_cast<int>(text.size()) - (call.c % 2 == 0 && !text.empty() ? 1 : 0);
    const bool drafts = call.c % 3 == 0;
    const KvOpenOptions options{.max_cached = most, .drafts = drafts};
    const KvPrefix prefix = cache_->announce(tenant, "", text);
    const int promised = cache_->cached(prefix, options);
    TestSequence sequence{cache_->open(prefix, options), tenant, text};
    sequence.truncate_text();
    RC_ASSERT(sequence.first_wrong(drafter_) == -1);
    const int reused = sequence.kv.length();
    const int longest = reusable(tenant, text, most);
    RC_ASSERT(reused <= promised);
    RC_ASSERT(reused <= longest);
    if (!setup_.evicts && !drafts) RC_ASSERT(reused == longest);
    if (!setup_.evicts) RC_ASSERT(reused == promised);
    if (drafts) RC_ASSERT(sequence.kv.draft_length() == reused);
    remember(tenant, text);
    open_.push_back(std::move(sequence));
    if (call.a % 3 != 0) append(std::prev(open_.end()), std::span(text).subspan(static_cast<size_t>(reused)), call.c);
  }

  // The longest common start with any text that was ever made reachable.
  int reusable(const std::string& tenant, const Tokens& text, int most) const {
    int longest = 0;
    for (const auto& [owner, published] : published_) {
      if (owner == tenant) longest = std::max(longest, common(std::span(text).first(most), published));
    }
    return longest;
  }

  void remember(const std::string& tenant, const Tokens& text) {
    if (!text.empty()) texts_.emplace_back(tenant, text);
  }

  void publish(const TestSequence& sequence, bool with_tail) {
    Tokens reachable = sequence.text;
    if (!with_tail) reachable.resize(reachable.size() / 128 * 128);
    published_.emplace_back(sequence.tenant, reachable);
  }

  void append(Iterator sequence, std::span<const int32_t> tokens, uint32_t seed) {
    const int before = sequence->kv.length();
    const int64_t available = cache_->available_blocks();
    const int count = static_cast<int>(tokens.size());
    const int needed = count - (sequence->kv.reserved() - before);
    const Status done = sequence->append(tokens, seed % 4 != 0, drafter_);
    RC_ASSERT(done.ok() == (needed <= available * kTilePositions));
    RC_ASSERT(sequence->kv.length() == before + (done.ok() ? count : 0));
    if (done.ok()) publish(*sequence, false);
    remember(sequence->tenant, sequence->text);
  }

  void fork(Iterator sequence) {
    Result<SequenceKv> made = sequence->kv.fork();
    if (!made.ok()) {
      RC_ASSERT(made.error().code == ErrorCode::kExhausted);
      return;
    }
    RC_ASSERT(made->length() == sequence->kv.length());
    open_.push_back({std::move(*made), sequence->tenant, sequence->text});
  }

  void truncate(Iterator sequence, uint32_t b) {
    const int length = static_cast<int>(b % static_cast<uint32_t>(sequence->kv.length() + 1));
    if (sequence->kv.truncate(length).ok()) {
      RC_ASSERT(sequence->kv.reserved() - length < kTilePositions);
      RC_ASSERT(sequence->kv.length() == length);
    } else {
      RC_ASSERT(cache_->available_blocks() == 0);
    }
    sequence->truncate_text();
  }

  void close(Iterator sequence, bool keep) {
    RC_ASSERT(sequence->first_wrong(drafter_) == -1);
    if (keep) publish(*sequence, true);
    sequence->kv.close(keep ? KvTail::kKeep : KvTail::kDrop);
    open_.erase(sequence);
  }

  void rare(const Call& call) {
    if (call.a % 4 == 0 && !open_.empty()) {
      const auto sequence = pick(call.b);
      publish(*sequence, true);
      (void)sequence->kv.close_pinned();
      open_.erase(sequence);
    } else if (call.a % 4 == 1 && setup_.evicts) {
      cache_->drop_cached();
    } else if (call.a % 4 == 2) {
      // A change of drafter while sequences are open: what they drafted before is no longer theirs to use.
      while (!open_.empty()) close(open_.begin(), true);
      Sha256Digest digest = {};
      digest[0] = static_cast<uint8_t>(++drafter_);
      cache_->set_drafter(digest);
    }
  }

  // What every open sequence holds with what it must hold.
  void compare() {
    for (const TestSequence& sequence : open_) RC_ASSERT(sequence.first_wrong(drafter_) == -1);
  }

  void check() {
    std::vector<const SequenceKv*> sequences;
    for (const TestSequence& sequence : open_) sequences.push_back(&sequence.kv);
    const Status status = cache_->check(sequences);
    if (!status.ok()) RC_FAIL(status.error().message);
    const KvStats stats = cache_->stats();
    RC_ASSERT(stats.sequences == static_cast<int64_t>(open_.size()));
    RC_ASSERT(stats.capacity_blocks ==
              stats.free_blocks + stats.used_blocks + stats.cached_blocks + stats.pinned_blocks);
    RC_ASSERT(cache_->available_blocks() == stats.free_blocks + stats.cached_blocks);
    RC_ASSERT(stats.fragmentation_ratio() <= 1.0);
  }

  Setup setup_;
  std::unique_ptr<KvCache> cache_;
  std::list<TestSequence> open_;
  std::vector<std::pair<std::string, Tokens>> texts_;
  std::vector<std::pair<std::string, Tokens>> published_;
  uint32_t drafter_ = 1;
  int played_ = 0;
};

// From the start over the whole ranges, which RapidCheck else widens case by case.
template <class T>
rc::Gen<T> uniform(T min, T max) {
  return rc::gen::resize(rc::kNominalSize, rc::gen::inRange<T>(min, max));
}

std::vector<Call> calls() {
  const auto word = uniform<uint32_t>(0, 1u << 30);
  const auto one = rc::gen::build<Call>(rc::gen::set(&Call::what, uniform(0, 11)), rc::gen::set(&Call::a, word),
                                        rc::gen::set(&Call::b, word), rc::gen::set(&Call::c, word));
  return *rc::gen::container<std::vector<Call>>(static_cast<size_t>(*uniform(20, 100)), one);
}

[[maybe_unused]] void showValue(const Call& call, std::ostream& out) {
  out << "{" << call.what << ", " << call.a << "u, " << call.b << "u, " << call.c << "u}";
}

void play_all(const Setup& setup) {
  Player player(setup);
  for (const Call& call : calls()) player.play(call);
  player.finish();
}

RC_GTEST_PROP(KvCacheModel, ReusesExactlyTheLongestPrefixWhileNothingIsEvicted, ()) {
  play_all({.blocks = 2000, .shards = *rc::gen::element(1, 3, 8)});
}

RC_GTEST_PROP(KvCacheModel, HoldsEveryTextWhileMemoryIsShort, ()) {
  play_all({.blocks = *uniform(4, 24), .shards = *rc::gen::element(1, 3, 8), .evicts = true});
}

RC_GTEST_PROP(KvCacheModel, HoldsEveryTextWhileDigestsCollide, ()) {
  play_all({.blocks = *uniform(8, 40), .shards = *rc::gen::element(1, 2), .digests = 3, .evicts = true});
}

}  // namespace
}  // namespace dspark
