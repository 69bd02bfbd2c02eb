// What drafting leaves behind: the KV of target and drafter after thousands of rejections, and what a drafter says
// after cache hits, preemption and pauses: what it says without them. On tiny models. Test thread.
#include <gtest/gtest.h>

#include <future>

#include "engine/loop_harness.h"

namespace dspark {
namespace {

const std::string kTarget = DSPARK_TEST_DATA "/models/llama/hf";
constexpr int kFixed = 3;

LoopSetting drafting(const std::string& head) {
  LoopSetting setting;
  setting.drafter = DSPARK_TEST_DATA "/drafters/" + head;
  setting.loop.schedule.max_rows = 64;
  setting.loop.schedule.step_budget = 64;
  setting.loop.speculation.fixed = kFixed;
  setting.loop.speculation.pauses = false;
  setting.loop.check_accounting = true;
  return setting;
}

std::vector<Request> greedy_requests(size_t count, int prompt, int answer) {
  std::mt19937 random(5);
  std::vector<Request> out(count);
  for (Request& request : out) {
    for (int i = 0; i < prompt; ++i) request.prompt.push_back(static_cast<int32_t>(random() % 250));
    request.sampling.temperature = 0.0;
    request.sampling.ignore_eos = true;
    request.max_tokens = answer;
  }
  return out;
}

// The bytes of all whole KV blocks of a sequence, the drafter's part included.
std::vector<std::vector<uint8_t>> kv_of(LoopUnderTest& test, const Request& request, const Outcome& outcome) {
  EXPECT_TRUE(test.loop().wait_until_idle(std::chrono::minutes(1)));
  std::vector<int32_t> tokens = request.prompt;
  const std::vector<int32_t>& answer = outcome.choices[0].tokens;
  tokens.insert(tokens.end(), answer.begin(), answer.end());
  tokens.resize(tokens.size() - tokens.size() % kTilePositions);
  KvCache& cache = test.runner().kv();
  const KvPrefix prefix = cache.announce("", "", tokens);
  const SequenceKv kv = cache.open(prefix, {.max_cached = static_cast<int>(tokens.size()), .drafts = true});
  EXPECT_EQ(kv.length(), static_cast<int>(tokens.size()));
  EXPECT_EQ(kv.draft_length(), kv.length());
  std::vector<std::vector<uint8_t>> out;
  for (const uint8_t* block : kv.table()) out.emplace_back(block, block + cache.block_bytes());
  return out;
}

// Thousands of rejected drafts, then drafts of which a varying part is accepted: nothing of them stays in the KV.
TEST(DraftingKv, RejectedDraftsLeaveNothingInTheKv) {
  const std::vector<Request> requests = greedy_requests(8, 30, 450);
  std::vector<Request> opted_out = requests;
  for (Request& request : opted_out) request.draft_tokens = 0;
  LoopUnderTest plain(kTarget, drafting("markov"));
  const std::vector<Outcome> expected = plain.run_alone(opted_out);
  KnownAnswers known;
  for (size_t i = 0; i < requests.size(); ++i) known.add(requests[i].prompt, expected[i].choices[0].tokens);
  for (const bool partly : {false, true}) {
    LoopSetting setting = drafting("markov");
    setting.loop.speculation.fixed = 5;
    setting.loop.drafters = {std::make_shared<ScriptedDrafter>([&](std::span<const int32_t> tokens) {
      std::vector<int32_t> out = known.after(tokens);
      out.resize(5, 7);
      // From a place on, that moves with the length, everything is wrong.
      for (size_t i = partly ? tokens.size() * 7919 % 6 : 0; i < out.size(); ++i) out[i] = (out[i] + 1) % 200;
      return out;
    })};
    LoopUnderTest test(kTarget, setting);
    expect_same(test.run_together(requests), expected, partly ? "partly accepted" : "all rejected");
    const LoopStats stats = test.loop().stats();
    EXPECT_GT(stats.speculation.verifications, partly ? 500 : 3500);
    if (partly) {
      EXPECT_GT(stats.accepted, 1000);
    }
    if (!partly) {
      EXPECT_EQ(stats.accepted, 0);
    }
    for (size_t i = 0; i < requests.size(); ++i) {
      plain.runner().kv().drop_cached();
      plain.run(opted_out[i]);  // its KV alone is in the cache now
      const auto clean = kv_of(plain, requests[i], expected[i]);
      const auto drafted = kv_of(test, requests[i], expected[i]);
      ASSERT_EQ(clean.size(), 3u);
      for (size_t block = 0; block < clean.size(); ++block) {
        EXPECT_TRUE(clean[block] == drafted[block]) << "request " << i << ", block " << block;
      }
    }
  }
}

// Keeps what a drafter proposed for each sequence of tokens, and hands on what `wanted` says.
class ProposalKeeper final : public Drafter {
 public:
  enum class Use { kDraft, kHear, kSilent };  // hand on, only keep, not even ask
  using Proposals = std::map<std::pair<std::vector<int32_t>, int>, std::vector<int32_t>>;

  ProposalKeeper(std::shared_ptr<Drafter> drafter, std::function<Use(const DraftRequest&)> use, Proposals* kept)
      : drafter_(std::move(drafter)), use_(std::move(use)), kept_(kept) {}

  std::string_view name() const override { return drafter_->name(); }
  int max_tokens() const override { return drafter_->max_tokens(); }
  std::span<const int> hidden_layers() const override { return drafter_->hidden_layers(); }
  std::vector<KvLayout> kv_layouts() const override { return drafter_->kv_layouts(); }
  void computed(std::span<const ComputedRow> rows, const float* hidden, int hidden_rows) override {
    drafter_->computed(rows, hidden, hidden_rows);
  }
  void settle() override { drafter_->settle(); }
  void propose(std::span<DraftRequest* const> requests) override {
    std::vector<DraftRequest*> asked;
    for (DraftRequest* request : requests) {
      if (use_(*request) != Use::kSilent) asked.push_back(request);
    }
    if (asked.empty()) return;
    drafter_->propose(asked);
    for (DraftRequest* request : asked) {
      EXPECT_FALSE(request->broken);
      auto& kept = (*kept_)[{{request->tokens.begin(), request->tokens.end()}, request->max_tokens}];
      kept.clear();
      for (DraftToken& token : request->draft) {
        kept.push_back(token.token);
        token.survival = 1.0f;
      }
      if (use_(*request) == Use::kHear) request->draft.clear();
    }
  }
  void release(uint64_t sequence) override { drafter_->release(sequence); }

 private:
  std::shared_ptr<Drafter> drafter_;
  std::function<Use(const DraftRequest&)> use_;
  Proposals* kept_;
};

using Use = ProposalKeeper::Use;
using Proposals = ProposalKeeper::Proposals;

LoopSetting keeping(const std::string& head, Proposals* kept, std::function<Use(const DraftRequest&)> use) {
  LoopSetting setting = drafting(head);
  setting.watch = [=](std::shared_ptr<Drafter> drafter) {
    return std::make_shared<ProposalKeeper>(drafter, use, kept);
  };
  return setting;
}

// Compares the proposals that both have; how many.
size_t expect_same_proposals(const Proposals& got, const Proposals& cold, const std::string& what) {
  size_t compared = 0;
  for (const auto& [key, tokens] : got) {
    const auto found = cold.find(key);
    if (found == cold.end()) continue;
    ++compared;
    EXPECT_EQ(tokens, found->second) << what << ", at token " << key.first.size();
  }
  return compared;
}

const auto kAlways = [](const DraftRequest&) { return Use::kDraft; };
const auto kOnlyHear = [](const DraftRequest&) { return Use::kHear; };

// What the drafter proposes behind every token of every answer, in an undisturbed run.
Proposals cold_proposals(const std::string& head, const std::vector<Request>& requests) {
  Proposals cold;
  LoopUnderTest test(kTarget, keeping(head, &cold, kOnlyHear));
  test.run_alone(requests);
  return cold;
}

// At a fixed length: whatever part of the prompt came from the cache, the drafter says and gets the same.
TEST(DraftingKv, ACachedPrefixLeavesTheDrafterItsWholeContext) {
  for (const std::string head : {"markov", "lookup"}) {
    const Request request = greedy_requests(1, 200, 60)[0];
    const size_t length = request.prompt.size();
    Proposals cold;
    int64_t drafted = 0, accepted = 0;
    for (const size_t share : {0u, 50u, 90u}) {
      Proposals kept;
      LoopUnderTest test(kTarget, keeping(head, &kept, kAlways));
      Request first = request;
      first.prompt.resize(length * share / 100);
      first.prompt.push_back(request.prompt[first.prompt.size()] + 1);  // from there on another
      first.max_tokens = 1;
      if (share > 0) test.run(first);
      kept.clear();
      const auto recorder = test.start(request);
      recorder->wait();
      const RequestStats& stats = recorder->stats();
      EXPECT_EQ(stats.cached_tokens, static_cast<int>(length * share / 100)) << head;
      if (share == 0) {
        cold = kept;
        drafted = stats.drafted;
        accepted = stats.accepted;
        EXPECT_GT(drafted, 100);
      }
      EXPECT_EQ(stats.drafted, drafted) << head << ", " << share << " % cached";
      EXPECT_EQ(stats.accepted, accepted) << head << ", " << share << " % cached";
      EXPECT_EQ(expect_same_proposals(kept, cold, head), cold.size());
    }
  }
}

TEST(DraftingKv, PreemptionAndCompanyLeaveTheDrafterItsWholeContext) {
  const std::vector<Request> requests = greedy_requests(12, 60, 250);
  const Proposals cold = cold_proposals("markov", requests);
  Proposals kept;
  LoopSetting setting = keeping("markov", &kept, kAlways);
  setting.kv_blocks = 12;
  LoopUnderTest test(kTarget, setting);
  test.run_together(requests);
  EXPECT_GT(test.loop().stats().preemptions, 5);
  EXPECT_GT(expect_same_proposals(kept, cold, "preempted"), 1000u);
}

// Nothing is drafted for a while in the middle of an answer: the very first draft after that is what it would have
// been.
TEST(DraftingKv, DraftingThatIsOffForAWhileIsAsGoodAsBeforeAtOnce) {
  const std::vector<Request> requests = greedy_requests(4, 60, 200);
  const Proposals cold = cold_proposals("markov", requests);
  Proposals kept;
  LoopUnderTest test(kTarget, keeping("markov", &kept, [](const DraftRequest& request) {
                       const size_t tokens = request.tokens.size();
                       return tokens >= 100 && tokens < 180 ? Use::kSilent : Use::kDraft;
                     }));
  test.run_together(requests);
  size_t after = 0;
  for (const auto& [key, tokens] : kept) {
    EXPECT_TRUE(key.first.size() < 100 || key.first.size() >= 180);
    after += key.first.size() >= 180;
  }
  EXPECT_GT(after, 100u);
  EXPECT_EQ(expect_same_proposals(kept, cold, "off for a while"), kept.size());
}

// In the middle of answers another drafter takes over: not a token changes, and it looks at nothing that the first one
// has written; whoever comes later gets what it says in an engine of its own.
TEST(DraftingKv, AnotherDrafterUsesNothingOfTheOneBefore) {
  constexpr size_t kPrompt = 200, kSwitch = 240;
  const std::vector<Request> requests = greedy_requests(6, kPrompt, 180);
  LoopSetting off;
  off.loop.speculation.enabled = false;
  LoopUnderTest plain(kTarget, off);
  const std::vector<Outcome> expected = plain.run_alone(requests);
  const Proposals cold = cold_proposals("lookup", requests);

  Proposals first, second;
  LoopUnderTest* loop = nullptr;
  NewDrafter next;
  int least_context = std::numeric_limits<int>::max();
  size_t behind = 0;            // drafts of sequences that were running, and look at what was computed since
  std::promise<void> all_here;  // or those that come late are drafted for by the second alone
  LoopUnderTest test(kTarget,
                     keeping("none", &first, [&, here = all_here.get_future().share()](const DraftRequest& request) {
                       here.wait();
                       if (request.tokens.size() >= kSwitch && next.drafter != nullptr) {
                         loop->loop().replace_drafter(std::exchange(next, {}));
                       }
                       return Use::kDraft;
                     }));
  loop = &test;
  next = test.new_drafter(DSPARK_TEST_DATA "/drafters/lookup");
  next.drafter = std::make_shared<ProposalKeeper>(
      next.drafter,
      [&](const DraftRequest& request) {
        if (request.context_begin < static_cast<int>(request.tokens.size()) - 1) {
          least_context = std::min(least_context, request.context_begin);
          ++behind;
        }
        return Use::kDraft;
      },
      &second);
  std::vector<std::shared_ptr<Recorder>> recorders;
  for (const Request& request : requests) recorders.push_back(test.start(request));
  all_here.set_value();
  for (size_t i = 0; i < requests.size(); ++i) EXPECT_TRUE(recorders[i]->wait() == expected[i]) << i;
  EXPECT_GT(first.size(), 20u);
  EXPECT_GT(second.size(), 100u);
  EXPECT_EQ(least_context, next_block(kSwitch));
  EXPECT_GT(behind, 50u);

  for (const bool warm : {false, true}) {
    second.clear();
    int64_t cached = 0;
    for (size_t i = 0; i < requests.size(); ++i) {
      const auto recorder = test.start(requests[i]);
      EXPECT_TRUE(recorder->wait() == expected[i]) << i;
      cached += recorder->stats().cached_tokens;
    }
    // Of all prompts but the last token.
    EXPECT_EQ(cached, warm ? static_cast<int64_t>(requests.size() * (kPrompt - 1)) : 0);
    EXPECT_EQ(expect_same_proposals(second, cold, warm ? "warm" : "cold"), second.size());
    EXPECT_GT(second.size(), 300u);
  }
  test.expect_idle();
}

}  // namespace
}  // namespace dspark
