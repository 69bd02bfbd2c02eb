// What the tests of the step loop share: a model with a loop, a listener that keeps what it hears, and random requests.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <condition_variable>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "engine/drafter_choice.h"
#include "engine/model_text.h"
#include "engine/step_loop.h"

namespace dspark {

// What a request gave, floats as bits, so that == means the same bits.
struct Outcome {
  struct Choice {
    std::vector<int32_t> tokens;
    std::string text;
    std::vector<uint32_t> logprobs;                               // of the tokens
    std::vector<std::vector<std::pair<int32_t, uint32_t>>> tops;  // with each token
    FinishReason reason = FinishReason::kStop;
    std::optional<int> stop_text;
    std::optional<int32_t> stop_token;
    uint64_t seed = 0;
    bool operator==(const Choice&) const = default;
  };
  std::vector<Choice> choices;
  std::vector<uint32_t> prompt_logprobs;
  std::vector<std::vector<std::pair<int32_t, uint32_t>>> prompt_tops;
  std::vector<uint32_t> embedding;
  std::optional<ErrorCode> error;
  bool operator==(const Outcome&) const = default;
};

inline uint32_t bits(float x) { return x == x ? std::bit_cast<uint32_t>(x) : 0x7fc00000u; }

inline std::vector<std::pair<int32_t, uint32_t>> bits_of(std::span<const LogprobEntry> entries) {
  std::vector<std::pair<int32_t, uint32_t>> out;
  for (const LogprobEntry& entry : entries) out.push_back({entry.token, bits(entry.logprob)});
  return out;
}

class Recorder : public RequestListener {
 public:
  explicit Recorder(size_t choices) { outcome_.choices.resize(choices); }

  void on_prompt(const RequestStats&, std::span<const PromptLogprob> entries) override {
    for (const PromptLogprob& entry : entries) {
      outcome_.prompt_logprobs.push_back(bits(entry.logprob));
      outcome_.prompt_tops.push_back(bits_of(entry.top));
    }
  }
  bool on_token(const TokenEvent& event) override {
    Outcome::Choice& choice = outcome_.choices.at(static_cast<size_t>(event.choice));
    choice.tokens.push_back(event.token);
    choice.text += event.text;
    choice.logprobs.push_back(bits(event.logprob));
    choice.tops.push_back(bits_of(event.top));
    return --tokens_until_cancel_ != 0;
  }
  void on_choice_end(const ChoiceEnd& end) override {
    Outcome::Choice& choice = outcome_.choices.at(static_cast<size_t>(end.choice));
    choice.text += end.text;
    choice.reason = end.reason;
    choice.stop_text = end.stop_text;
    choice.stop_token = end.stop_token;
    choice.seed = end.seed;
  }
  void on_embedding(std::span<const float> values) override {
    for (const float value : values) outcome_.embedding.push_back(bits(value));
  }
  void on_end(const Status& status, const RequestStats& stats) override {
    const std::lock_guard lock(mutex_);
    EXPECT_FALSE(done_) << "on_end twice";
    if (!status.ok()) outcome_.error = status.error().code, message_ = status.error().message;
    stats_ = stats;
    done_ = true;
    ended_.notify_all();
  }

  void cancel_after(int tokens) { tokens_until_cancel_ = tokens; }  // before it is submitted
  const Outcome& wait() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(ended_.wait_for(lock, std::chrono::hours(2), [&] { return done_; })) << "the request never ended";
    return outcome_;
  }
  // After wait().
  const RequestStats& stats() const { return stats_; }
  const std::string& message() const { return message_; }

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  Outcome outcome_;
  RequestStats stats_;
  std::string message_;
  int tokens_until_cancel_ = 0;
  bool done_ = false;
};

struct LoopSetting {
  int threads = 2;
  int64_t kv_blocks = 4000;
  int kv_shards = 1;
  std::string draft_model = {};  // file of a model that drafts, too, behind all others
  std::string drafter = {};      // file of a DSpark drafter that drafts, too, behind those of `loop`
  // Stands between each drafter and the loop.
  std::function<std::shared_ptr<Drafter>(std::shared_ptr<Drafter>)> watch = {};
  StepLoopOptions loop = {};
};

// What follows each beginning of sequences whose answers are known: for drafters that are always right, or wrong on
// purpose.
class KnownAnswers {
 public:
  void add(std::vector<int32_t> prompt, const std::vector<int32_t>& answer) {
    for (size_t t = 0; t < answer.size(); ++t) {
      next_[prompt] = {answer.begin() + static_cast<ptrdiff_t>(t), answer.end()};
      prompt.push_back(answer[t]);
    }
  }
  // Empty for what is not known.
  std::vector<int32_t> after(std::span<const int32_t> tokens) const {
    const auto found = next_.find({tokens.begin(), tokens.end()});
    return found == next_.end() ? std::vector<int32_t>() : found->second;
  }

 private:
  std::map<std::vector<int32_t>, std::vector<int32_t>> next_;
};

// Drafts what a function says follows the tokens, and is sure of it.
class ScriptedDrafter final : public Drafter {
 public:
  using Script = std::function<std::vector<int32_t>(std::span<const int32_t> tokens)>;
  explicit ScriptedDrafter(Script script) : script_(std::move(script)) {}

  std::string_view name() const override { return "scripted"; }
  int max_tokens() const override { return 16; }
  void propose(std::span<DraftRequest* const> requests) override {
    for (DraftRequest* request : requests) {
      request->draft.clear();
      for (const int32_t token : script_(request->tokens)) {
        if (static_cast<int>(request->draft.size()) == request->max_tokens) break;
        request->draft.push_back({token, 1.0f, std::numeric_limits<float>::quiet_NaN()});
      }
    }
  }

 private:
  Script script_;
};

// A model with its loop.
class LoopUnderTest {
 public:
  LoopUnderTest(const std::string& path, LoopSetting setting) {
    auto file = ModelFile::open(path);
    DSPARK_CHECK(file.ok(), "{}", file.error().message);
    auto tokenizer = load_tokenizer(*file);
    DSPARK_CHECK(tokenizer.ok(), "{}", tokenizer.error().message);
    tokenizer_ = std::make_unique<Tokenizer>(std::move(*tokenizer));
    RunnerOptions options = {
        .threads = setting.threads, .kv_memory_bytes = int64_t{1} << 40, .kv_shards = setting.kv_shards};
    const DrafterOptions drafting = {.with = DraftWith::kDspark, .file = setting.drafter};
    std::optional<DrafterFile> drafter;
    if (!setting.drafter.empty()) {
      drafter = std::move(choose_drafter(drafting, {}, "", 1)).value();
      options.draft_layers = drafter->kv_layouts(options.kv_type);
      options.drafter = drafter->digest;
    }
    auto runner = Runner::create(*file, options);
    DSPARK_CHECK(runner.ok(), "{}", runner.error().message);
    options.kv_memory_bytes = (*runner)->kv().block_bytes() * setting.kv_blocks;
    runner = Runner::create(*file, options);
    DSPARK_CHECK(runner.ok(), "{}", runner.error().message);
    runner_ = std::move(*runner);
    const auto add_drafters = [&](const DrafterOptions& with) {
      auto loaded =
          load_drafters(with, drafter && with.model.empty() ? &*drafter : nullptr, *runner_, *tokenizer_, store_, "");
      DSPARK_CHECK(loaded.ok(), "{}", loaded.error().message);
      for (auto& each : loaded->drafters) setting.loop.drafters.push_back(std::move(each));
    };
    if (drafter) add_drafters(drafting);
    if (!setting.draft_model.empty()) add_drafters({.with = DraftWith::kModel, .model = setting.draft_model});
    if (setting.watch) {
      for (auto& each : setting.loop.drafters) each = setting.watch(each);
    }
    if (setting.loop.context == 0) setting.loop.context = runner_->config().context;
    for (int32_t id = 0; id < tokenizer_->size(); ++id) {
      if (tokenizer_->is_end_of_generation(id)) setting.loop.end_tokens.push_back(id);
    }
    loop_ = std::make_unique<StepLoop>(*runner_, *tokenizer_, std::move(setting.loop));
  }

  Runner& runner() { return *runner_; }
  StepLoop& loop() { return *loop_; }
  // A file's drafter, for StepLoop::replace_drafter.
  NewDrafter new_drafter(const std::string& path) {
    auto loaded =
        load_new_drafter({.file = path}, loop_->options().drafters.back()->kv_layouts(), *runner_, store_, "");
    DSPARK_CHECK(loaded.ok(), "{}", loaded.error().message);
    return std::move(*loaded);
  }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  int vocab() const { return runner_->config().vocab; }

  std::shared_ptr<Recorder> start(const Request& request) {
    auto recorder = std::make_shared<Recorder>(static_cast<size_t>(request.choices));
    const auto id = loop_->submit(request, recorder);
    EXPECT_TRUE(id.ok()) << id.error().message;
    last_id_ = id.ok() ? *id : 0;
    return recorder;
  }
  RequestId last_id() const { return last_id_; }
  Outcome run(const Request& request) { return start(request)->wait(); }

  // All at once, in this order.
  std::vector<Outcome> run_together(const std::vector<Request>& requests) {
    std::vector<std::shared_ptr<Recorder>> recorders;
    for (const Request& request : requests) recorders.push_back(start(request));
    std::vector<Outcome> out;
    for (const auto& recorder : recorders) out.push_back(recorder->wait());
    return out;
  }
  // One after the other, each with an empty cache.
  std::vector<Outcome> run_alone(const std::vector<Request>& requests) {
    std::vector<Outcome> out;
    for (const Request& request : requests) {
      runner_->kv().drop_cached();
      out.push_back(run(request));
      EXPECT_TRUE(loop_->wait_until_idle(std::chrono::minutes(1)));
    }
    return out;
  }

  // Nothing is left behind.
  void expect_idle() {
    EXPECT_TRUE(loop_->wait_until_idle(std::chrono::minutes(1)));
    const LoopStats stats = loop_->stats();
    EXPECT_EQ(stats.requests_waiting, 0);
    const KvStats kv = runner_->kv().stats();
    EXPECT_EQ(kv.sequences, 0);
    EXPECT_EQ(kv.used_blocks, 0);
    EXPECT_EQ(kv.capacity_blocks, kv.free_blocks + kv.cached_blocks);
    const Status check = runner_->kv().check();
    EXPECT_TRUE(check.ok()) << check.error().message;
  }

 private:
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<Runner> runner_;
  std::shared_ptr<NgramStore> store_ = std::make_shared<NgramStore>();
  std::unique_ptr<StepLoop> loop_;
  RequestId last_id_ = 0;
};

// Requests of every kind: greedy and seeded, filters, penalties, several choices, log-probabilities, stops, embeddings,
// and prompts that share beginnings.
inline std::vector<Request> mixed_requests(size_t count, int vocab, int longest_prompt, int longest_answer) {
  std::mt19937 random(20261130);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  std::vector<std::vector<int32_t>> beginnings(5);
  for (auto& beginning : beginnings) {
    beginning.resize(static_cast<size_t>(1 + below(longest_prompt * 2 / 3)));
    for (int32_t& token : beginning) token = below(vocab);
  }
  std::vector<Request> out;
  for (size_t i = 0; i < count; ++i) {
    Request request;
    if (below(3) > 0) request.prompt = beginnings[static_cast<size_t>(below(5))];
    const int more = 1 + below(longest_prompt - static_cast<int>(request.prompt.size()));
    for (int n = below(4) == 0 ? 1 : more; n > 0; --n) request.prompt.push_back(below(vocab));
    request.max_tokens = 1 + below(longest_answer);
    SamplingParams& sampling = request.sampling;
    sampling.temperature = below(3) == 0 ? 0.0 : 0.5 + 0.25 * below(4);
    sampling.seed = random();
    if (below(3) == 0) sampling.top_k = 1 + below(40);
    if (below(3) == 0) sampling.top_p = 0.8;
    if (below(3) == 0) sampling.min_p = 0.05;
    if (below(4) == 0) sampling.repetition_penalty = 1.2, sampling.repetition_window = 30;
    if (below(4) == 0) sampling.presence_penalty = 0.5, sampling.frequency_penalty = 0.25;
    if (below(3) == 0) sampling.logprobs = below(4);
    if (below(4) == 0) sampling.ignore_eos = true;
    if (below(5) == 0) sampling.stop_token_ids = {below(vocab)};
    if (below(5) == 0) sampling.min_tokens = below(8);
    if (below(4) == 0) request.stop = {"the", "a", "e", "i", "o", "u", "n", "s", "t", "1"};
    if (below(4) == 0) request.choices = 2 + below(3);
    if (below(6) == 0) request.prompt_logprobs = below(3);
    if (below(8) == 0) {
      request.work = Work::kEmbed;
      request.choices = 1;
      request.prompt_logprobs = -1;
      request.pooling = below(2) == 0 ? Pooling::kMean : Pooling::kLast;
    }
    request.priority = below(3);
    request.pool = static_cast<RequestClass>(below(3));
    out.push_back(std::move(request));
  }
  return out;
}

inline void expect_same(const std::vector<Outcome>& got, const std::vector<Outcome>& expected,
                        const std::string& what) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_FALSE(got[i].error) << what << ", request " << i << ": error " << static_cast<int>(*got[i].error);
    ASSERT_EQ(got[i].choices.size(), expected[i].choices.size());
    for (size_t c = 0; c < got[i].choices.size(); ++c) {
      EXPECT_EQ(got[i].choices[c].tokens, expected[i].choices[c].tokens) << what << ", request " << i;
    }
    EXPECT_TRUE(got[i] == expected[i]) << what << ", request " << i << " differs in more than its tokens";
  }
}

// In company, with an empty cache and then with one that holds it all, the requests give what they gave alone.
inline LoopStats expect_as_alone(const std::string& path, LoopSetting setting, const std::vector<Request>& requests,
                                 const std::vector<Outcome>& alone, const std::string& what) {
  LoopUnderTest test(path, std::move(setting));
  expect_same(test.run_together(requests), alone, what + ", cold");
  expect_same(test.run_together(requests), alone, what + ", warm");
  test.expect_idle();
  return test.loop().stats();
}

}  // namespace dspark
