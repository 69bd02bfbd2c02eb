// StandinServing: a Serving that answers from a script, one token of every request a step, for tests only. Its step
// thread calls the listeners as the engine's would.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "base/check.h"
#include "base/noise.h"
#include "engine/model_text.h"
#include "engine/request.h"
#include "engine/tiny_goldens.h"
#include "model/model_file.h"
#include "text/stream_decoder.h"

namespace dspark {

// The tokenizer of a tiny model: bytes and a few pairs, ChatML's special tokens.
inline const Tokenizer& standin_tokenizer() {
  static const Tokenizer kTokenizer = [] {
    const auto file = ModelFile::open(tiny_path("qwen3/hf"));
    DSPARK_CHECK(file.ok(), "{}", file.error().message);
    auto tokenizer = load_tokenizer(*file);
    DSPARK_CHECK(tokenizer.ok(), "{}", tokenizer.error().message);
    return std::move(tokenizer).value();
  }();
  return kTokenizer;
}

struct Script {
  std::string text = "Hello, world";      // the answer, if max_tokens allow
  bool endless = false;                   // over and over
  std::chrono::microseconds step_time{};  // between tokens
  std::optional<Error> refuse = {};       // what submit() says
  int fail_after = -1;                    // tokens, and then:
  Error failure = {ErrorCode::kInternal, "the logits of this request are not numbers"};
};

class StandinServing final : public Serving {
 public:
  explicit StandinServing(Script script)
      : script_(std::move(script)),
        tokens_(standin_tokenizer().encode(script_.text, {.add_special = false, .parse_special = false})),
        thread_([this] { run(); }) {}

  ~StandinServing() override {
    stop_ = true;
    changed_.notify_all();
    thread_.join();
  }

  Result<RequestId> submit(Request request, std::shared_ptr<RequestListener> listener) override {
    const std::lock_guard lock(mutex_);
    if (script_.refuse) return *script_.refuse;
    const RequestId id = next_++;
    seen_.push_back(request);
    auto running = std::make_unique<Running>(std::move(request), std::move(listener));
    for (int i = 0; i < running->request.choices; ++i)
      running->decoders.emplace_back(standin_tokenizer(), StreamDecoder::Options{});
    arrived_[id] = std::move(running);
    changed_.notify_all();
    return id;
  }

  void cancel(RequestId id) override {
    const std::lock_guard lock(mutex_);
    cancelled_.push_back(id);
    changed_.notify_all();
  }

  std::vector<Request> seen() const {
    const std::lock_guard lock(mutex_);
    return seen_;
  }
  size_t running() const { return count_; }

 private:
  struct Running {
    Running(Request r, std::shared_ptr<RequestListener> l) : request(std::move(r)), listener(std::move(l)) {}
    Request request;
    std::shared_ptr<RequestListener> listener;
    std::vector<StreamDecoder> decoders;
    RequestStats stats;
    int step = 0;
  };

  void run() {
    std::map<RequestId, std::unique_ptr<Running>> running;
    std::vector<RequestId> cancelled;
    for (;;) {
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return stop_ || !running.empty() || !arrived_.empty() || !cancelled_.empty(); });
        if (stop_) break;
        running.merge(arrived_);
        arrived_.clear();
        cancelled = std::exchange(cancelled_, {});
      }
      for (const RequestId id : cancelled) {
        if (const auto it = running.find(id); it != running.end()) {
          end(*it->second, make_error(ErrorCode::kCancelled, "cancelled"));
          running.erase(it);
        }
      }
      std::erase_if(running, [&](auto& entry) { return !step(*entry.second); });
      count_ = running.size();
      if (script_.step_time.count() > 0) std::this_thread::sleep_for(script_.step_time);
    }
    for (auto& [id, request] : running) end(*request, make_error(ErrorCode::kUnavailable, "stopped"));
  }

  static void end(Running& r, const Status& status) { r.listener->on_end(status, r.stats); }

  // One step of one request; false when it is over.
  bool step(Running& r) {
    if (r.request.deadline && std::chrono::steady_clock::now() > *r.request.deadline) {
      return end(r, make_error(ErrorCode::kDeadline, "the request's time is up")), false;
    }
    if (r.step == 0) {
      r.stats.prompt_tokens = static_cast<int>(r.request.prompt.size());
      r.stats.cached_tokens = r.stats.prompt_tokens / 2;
      r.stats.queue_seconds = 0.001;
      if (script_.fail_after != 0) begin(r);
      if (r.request.work == Work::kEmbed) {
        const float values[] = {3.0f, 4.0f};
        r.listener->on_embedding(values);
        return end(r, Ok{}), false;
      }
    }
    if (r.step == script_.fail_after) return end(r, script_.failure), false;
    const bool over = !script_.endless && r.step == static_cast<int>(tokens_.size());
    if (over || r.step == r.request.max_tokens) {
      for (int i = 0; i < r.request.choices; ++i) {
        const std::string rest = r.decoders[static_cast<size_t>(i)].flush();
        r.listener->on_choice_end({.choice = i,
                                   .reason = over ? FinishReason::kStop : FinishReason::kLength,
                                   .text = rest,
                                   .seed = choice_seed(r.request.sampling.seed, static_cast<uint64_t>(i))});
      }
      return end(r, Ok{}), false;
    }
    if (!tokens(r)) return false;
    r.listener->on_step_end();
    return true;
  }

  void begin(Running& r) {
    std::vector<PromptLogprob> logprobs;
    if (r.request.prompt_logprobs >= 0) {
      for (size_t i = 1; i < r.request.prompt.size(); ++i) {
        PromptLogprob& entry = logprobs.emplace_back(PromptLogprob{-1.5f, {}});
        for (int k = 0; k < r.request.prompt_logprobs; ++k)
          entry.top.push_back({k, -0.25f * static_cast<float>(k + 1)});
      }
    }
    r.listener->on_prompt(r.stats, logprobs);
  }

  bool tokens(Running& r) {
    const int32_t token = tokens_[static_cast<size_t>(r.step) % tokens_.size()];
    const std::vector<LogprobEntry> all = {{token, -0.5f}, {5, -2.0f}, {6, -3.0f}};
    for (int i = 0; i < r.request.choices; ++i) {
      const std::string text = r.decoders[static_cast<size_t>(i)].push(token);
      TokenEvent event{.choice = i, .token = token, .text = text, .top = {}};
      if (r.request.sampling.logprobs >= 0) {
        event.logprob = -0.5f;
        event.top =
            std::span(all).first(std::min<size_t>(all.size(), static_cast<size_t>(r.request.sampling.logprobs)));
      }
      ++r.stats.output_tokens;
      if (!r.listener->on_token(event)) return end(r, make_error(ErrorCode::kCancelled, "cancelled")), false;
    }
    ++r.step;
    return true;
  }

  const Script script_;
  const std::vector<int32_t> tokens_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<RequestId, std::unique_ptr<Running>> arrived_;
  std::vector<RequestId> cancelled_;
  std::vector<Request> seen_;
  RequestId next_ = 1;
  std::atomic<bool> stop_{false};
  std::atomic<size_t> count_{0};
  std::thread thread_;
};

}  // namespace dspark
