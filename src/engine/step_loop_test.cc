// The step loop's behaviour: ends, stops, errors, faults, cancellation, limits. Same tokens in company are
// step_loop_same_tokens_test.cc's.
#include "engine/step_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "base/noise.h"
#include "engine/loop_harness.h"

namespace dspark {
namespace {

using testing::HasSubstr;

const std::string kTiny = DSPARK_TEST_DATA "/models/qwen3/qwen3.gguf";

Request greedy(std::vector<int32_t> prompt, int max_tokens) {
  Request request;
  request.prompt = std::move(prompt);
  request.sampling.temperature = 0.0;
  request.sampling.ignore_eos = true;
  request.max_tokens = max_tokens;
  return request;
}

std::vector<int32_t> numbers(int count, int from = 10) {
  std::vector<int32_t> out;
  for (int i = 0; i < count; ++i) out.push_back((from + i * 7) % 250);
  return out;
}

LoopSetting checked() {
  LoopSetting setting;
  setting.loop.check_accounting = true;
  return setting;
}

ErrorCode submit_error(LoopUnderTest& test, const Request& request) {
  const auto id = test.loop().submit(request, std::make_shared<Recorder>(1));
  EXPECT_FALSE(id.ok());
  return id.ok() ? ErrorCode::kInternal : id.error().code;
}

TEST(StepLoop, EndsWhereItShould) {
  LoopUnderTest test(kTiny, checked());
  const Request plain = greedy(numbers(20), 12);
  const Outcome whole = test.run(plain);
  ASSERT_EQ(whole.choices[0].tokens.size(), 12u);
  EXPECT_EQ(whole.choices[0].reason, FinishReason::kLength);
  const std::vector<int32_t>& tokens = whole.choices[0].tokens;

  // A token that did not stand before the fifth.
  size_t at = 4;
  while (std::count(tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(at), tokens[at]) > 0) ++at;
  Request stops = plain;
  stops.sampling.stop_token_ids = {tokens[at]};
  Outcome::Choice choice = test.run(stops).choices[0];
  EXPECT_EQ(choice.tokens, std::vector<int32_t>(tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(at)));
  EXPECT_EQ(choice.reason, FinishReason::kStop);
  EXPECT_EQ(choice.stop_token, tokens[at]);

  stops.sampling.min_tokens = static_cast<int64_t>(at) + 3;  // not yet
  choice = test.run(stops).choices[0];
  EXPECT_GE(choice.tokens.size(), at + 3);

  const std::string& text = whole.choices[0].text;
  ASSERT_GT(text.size(), 6u);
  stops = plain;
  stops.stop = {"never said", text.substr(3, 3)};
  choice = test.run(stops).choices[0];
  EXPECT_EQ(choice.text, text.substr(0, text.find(stops.stop[1])));
  EXPECT_EQ(choice.stop_text, 1);
  EXPECT_EQ(choice.reason, FinishReason::kStop);
  stops.include_stop_text = true;
  EXPECT_EQ(test.run(stops).choices[0].text, choice.text + stops.stop[1]);
  test.expect_idle();
}

TEST(StepLoop, TheContextEndsAnAnswer) {
  LoopSetting setting = checked();
  setting.loop.context = 40;
  LoopUnderTest test(kTiny, setting);
  const Outcome outcome = test.run(greedy(numbers(30), 500));
  EXPECT_EQ(outcome.choices[0].tokens.size(), 10u);
  EXPECT_EQ(outcome.choices[0].reason, FinishReason::kLength);
  EXPECT_EQ(submit_error(test, greedy(numbers(40), 1)), ErrorCode::kTooLong);
  EXPECT_TRUE(test.run(greedy(numbers(40), 0)).choices[0].tokens.empty());  // nothing is to follow
}

TEST(StepLoop, ModelEndsAreNotCounted) {
  LoopUnderTest test(kTiny, checked());
  const Request plain = greedy(numbers(20), 12);
  const int32_t third = test.run(plain).choices[0].tokens[2];
  // A model's end token is a stop without a name; here one is asked for, so it has one.
  Request ends = plain;
  ends.sampling.stop_token_ids = {third};
  const auto recorder = test.start(ends);
  const Outcome outcome = recorder->wait();
  EXPECT_EQ(static_cast<size_t>(recorder->stats().output_tokens), outcome.choices[0].tokens.size());
  EXPECT_LE(outcome.choices[0].tokens.size(), 2u);
}

TEST(StepLoop, ChoicesHaveSeedsOfTheirOwnThatGiveThemAlone) {
  LoopUnderTest test(kTiny, checked());
  Request request = greedy(numbers(150), 20);
  request.sampling.temperature = 1.0;
  request.sampling.seed = 99;
  request.choices = 5;
  const Outcome together = test.run(request);
  std::set<std::vector<int32_t>> different;
  for (size_t i = 0; i < together.choices.size(); ++i) {
    EXPECT_EQ(together.choices[i].seed, choice_seed(99, i));
    Request one = request;
    one.choices = 1;
    one.sampling.seed = together.choices[i].seed;
    EXPECT_EQ(test.run(one).choices[0], together.choices[i]);
    different.insert(together.choices[i].tokens);
  }
  EXPECT_GT(different.size(), 3u);
  test.expect_idle();
}

TEST(StepLoop, ASecondTurnReusesTheFirst) {
  LoopUnderTest test(kTiny, checked());
  const Request first = greedy(numbers(200), 30);
  const Outcome answer = test.run(first);
  Request second = first;
  second.prompt.insert(second.prompt.end(), answer.choices[0].tokens.begin(), answer.choices[0].tokens.end());
  for (const int32_t token : {5, 6, 7}) second.prompt.push_back(token);
  const auto recorder = test.start(second);
  recorder->wait();
  EXPECT_EQ(recorder->stats().cached_tokens, 200 + 30 - 1);  // the last token of the answer was never computed
  second.tenant = "another";
  const auto stranger = test.start(second);
  stranger->wait();
  EXPECT_EQ(stranger->stats().cached_tokens, 0);
}

// Against the logits of the bare model, by library functions in double.
TEST(StepLoop, PromptLogprobsAreTheModels) {
  LoopUnderTest test(kTiny, checked());
  Request request = greedy(numbers(60), 1);
  request.prompt_logprobs = 2;
  const Outcome outcome = test.run(request);
  ASSERT_EQ(outcome.prompt_logprobs.size(), 59u);
  EXPECT_EQ(test.run(request), outcome);  // with a warm cache, too
  test.expect_idle();
  SequenceKv sequence = test.runner().new_sequence();
  std::vector<RunRow> rows;
  for (const int32_t token : request.prompt) rows.push_back({&sequence, token, true});
  const auto step = test.runner().run(rows);
  ASSERT_TRUE(step.ok());
  const size_t vocab = static_cast<size_t>(test.vocab());
  for (size_t i = 0; i + 1 < request.prompt.size(); ++i) {
    const float* logits = step->logits + i * vocab;
    const float max = *std::max_element(logits, logits + vocab);
    double sum = 0.0;
    for (size_t v = 0; v < vocab; ++v) sum += std::exp(static_cast<double>(logits[v]) - static_cast<double>(max));
    const double expected = static_cast<double>(logits[request.prompt[i + 1]] - max) - std::log(sum);
    EXPECT_NEAR(static_cast<double>(std::bit_cast<float>(outcome.prompt_logprobs[i])), expected, 1e-5);
    EXPECT_EQ(outcome.prompt_tops[i].size(), 2u);
    EXPECT_EQ(outcome.prompt_tops[i][0].first, std::max_element(logits, logits + vocab) - logits);
  }
}

// Against the last layer's output, normed by hand in double.
TEST(StepLoop, EmbeddingsAreTheFinalStates) {
  LoopUnderTest test(kTiny, checked());
  Request request = greedy(numbers(70), 1);
  request.work = Work::kEmbed;
  const Outcome mean = test.run(request);
  request.pooling = Pooling::kLast;
  const Outcome last = test.run(request);
  test.expect_idle();
  SequenceKv sequence = test.runner().new_sequence();
  std::vector<RunRow> rows;
  for (const int32_t token : request.prompt) rows.push_back({&sequence, token});
  const ModelConfig& config = test.runner().config();
  const int layers[] = {config.layers - 1};
  const auto step = test.runner().run(rows, layers);
  ASSERT_TRUE(step.ok());
  const size_t hidden = static_cast<size_t>(config.hidden);
  const float* norm = test.runner().model().weights().final_norm.data();
  std::vector<double> sum(hidden), state(hidden);
  for (size_t r = 0; r < rows.size(); ++r) {
    const float* x = step->hidden + r * hidden;
    double squares = 0.0;
    for (size_t d = 0; d < hidden; ++d) squares += static_cast<double>(x[d]) * static_cast<double>(x[d]);
    const double scale = 1.0 / std::sqrt(squares / static_cast<double>(hidden) + static_cast<double>(config.norm_eps));
    for (size_t d = 0; d < hidden; ++d) {
      state[d] = static_cast<double>(x[d]) * scale * static_cast<double>(norm[d]);
      sum[d] += state[d];
    }
  }
  ASSERT_EQ(mean.embedding.size(), hidden);
  ASSERT_EQ(last.embedding.size(), hidden);
  for (size_t d = 0; d < hidden; ++d) {
    EXPECT_NEAR(static_cast<double>(std::bit_cast<float>(mean.embedding[d])), sum[d] / 70.0, 1e-5);
    EXPECT_NEAR(static_cast<double>(std::bit_cast<float>(last.embedding[d])), state[d], 1e-5);
  }
}

TEST(StepLoop, RefusesWhatCanNeverRun) {
  LoopSetting setting = checked();
  setting.kv_blocks = 2;
  setting.loop.schedule.max_running = 4;
  LoopUnderTest test(kTiny, setting);
  EXPECT_EQ(submit_error(test, greedy({}, 1)), ErrorCode::kInvalidArgument);
  EXPECT_EQ(submit_error(test, greedy({1, -1}, 1)), ErrorCode::kInvalidArgument);
  EXPECT_EQ(submit_error(test, greedy({test.vocab()}, 1)), ErrorCode::kInvalidArgument);
  EXPECT_EQ(submit_error(test, greedy({1}, -1)), ErrorCode::kInvalidArgument);
  EXPECT_EQ(submit_error(test, greedy(numbers(600), 1)), ErrorCode::kTooLong);
  EXPECT_EQ(submit_error(test, greedy(numbers(256), 1)), ErrorCode::kExhausted);
  Request request = greedy({1}, 1);
  request.choices = 5;
  EXPECT_EQ(submit_error(test, request), ErrorCode::kInvalidArgument);
  request = greedy({1}, 1);
  request.sampling.top_p = 2.0;
  EXPECT_EQ(submit_error(test, request), ErrorCode::kInvalidArgument);
  request = greedy({1}, 1);
  request.prompt_logprobs = 101;
  EXPECT_EQ(submit_error(test, request), ErrorCode::kInvalidArgument);
  test.expect_idle();
}

// Holds the loop in a request's first draw until it is let go.
struct Gate {
  void open() {
    const std::lock_guard lock(mutex);
    opened = true;
    changed.notify_all();
  }
  void wait_here() {
    std::unique_lock lock(mutex);
    reached = true;
    changed.notify_all();
    changed.wait(lock, [&] { return opened; });
  }
  void wait_reached() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return reached; });
  }
  std::mutex mutex;
  std::condition_variable changed;
  bool reached = false, opened = false;
};

TEST(StepLoop, AFullQueueRefusesAndDrainingLetsEveryoneFinish) {
  LoopSetting setting = checked();
  const auto gate = std::make_shared<Gate>();
  setting.loop.max_queue = 2;
  setting.loop.schedule.max_running = 1;
  setting.loop.disturb = [gate](RequestId id, int, std::span<float>) {
    if (id == 1) gate->wait_here();
  };
  LoopUnderTest test(kTiny, setting);
  const auto running = test.start(greedy(numbers(5), 5));
  gate->wait_reached();
  const auto second = test.start(greedy(numbers(6), 5));
  const auto third = test.start(greedy(numbers(7), 5));
  EXPECT_EQ(submit_error(test, greedy({1}, 1)), ErrorCode::kBusy);
  EXPECT_EQ(test.loop().stats().requests_waiting, 2);
  test.loop().drain();
  EXPECT_EQ(submit_error(test, greedy({1}, 1)), ErrorCode::kUnavailable);
  EXPECT_FALSE(test.loop().wait_until_idle(std::chrono::milliseconds(1)));
  gate->open();
  for (const auto& recorder : {running, second, third}) {
    EXPECT_EQ(recorder->wait().choices[0].tokens.size(), 5u) << recorder->message();
  }
  test.expect_idle();
}

TEST(StepLoop, CancelsAtTheNextStep) {
  LoopSetting setting = checked();
  const auto gate = std::make_shared<Gate>();
  setting.loop.schedule.max_running = 2;
  setting.loop.schedule.max_rows = setting.loop.schedule.step_budget = 8;
  setting.loop.disturb = [gate](RequestId id, int, std::span<float>) {
    if (id == 1) gate->wait_here();
  };
  LoopUnderTest test(kTiny, setting);
  const auto decoding = test.start(greedy(numbers(3), 400));
  gate->wait_reached();
  const RequestId decoding_id = test.last_id();
  const auto prompt = test.start(greedy(numbers(400, 3), 50));  // it will be far from done
  const RequestId prompt_id = test.last_id();
  const auto waiting = test.start(greedy(numbers(10), 50));
  test.loop().cancel(test.last_id());
  test.loop().cancel(12345);  // nobody
  gate->open();
  EXPECT_EQ(waiting->wait().error, ErrorCode::kCancelled);
  test.loop().cancel(prompt_id);
  EXPECT_EQ(prompt->wait().error, ErrorCode::kCancelled);
  EXPECT_TRUE(prompt->wait().choices[0].tokens.empty());
  test.loop().cancel(decoding_id);
  const Outcome cancelled = decoding->wait();
  EXPECT_EQ(cancelled.error, ErrorCode::kCancelled);
  EXPECT_EQ(cancelled.choices[0].reason, FinishReason::kCancelled);
  test.loop().cancel(decoding_id);  // it has ended
  test.expect_idle();
}

TEST(StepLoop, AListenerCancelsByFalse) {
  LoopUnderTest test(kTiny, checked());
  Request request = greedy(numbers(5), 50);
  request.choices = 3;
  const auto recorder = std::make_shared<Recorder>(3);
  recorder->cancel_after(7);
  ASSERT_TRUE(test.loop().submit(request, recorder).ok());
  const Outcome outcome = recorder->wait();
  EXPECT_EQ(outcome.error, ErrorCode::kCancelled);
  EXPECT_EQ(recorder->stats().output_tokens, 7);
  for (const Outcome::Choice& choice : outcome.choices) EXPECT_EQ(choice.reason, FinishReason::kCancelled);
  test.expect_idle();
}

TEST(StepLoop, DeadlinesEndRequests) {
  LoopUnderTest test(kTiny, checked());
  Request late = greedy(numbers(5), 50);
  late.deadline = std::chrono::steady_clock::now() - std::chrono::seconds(1);
  Request early = greedy(numbers(5), 5);
  early.deadline = std::chrono::steady_clock::now() + std::chrono::hours(1);
  const auto first = test.start(late), second = test.start(early);
  EXPECT_EQ(first->wait().error, ErrorCode::kDeadline);
  EXPECT_EQ(second->wait().choices[0].tokens.size(), 5u);
  test.expect_idle();
}

// What one request suffers is nobody else's trouble.
void check_fault(std::function<void(std::span<float>)> fault, ErrorCode code, const std::string& message) {
  std::vector<Request> requests = {greedy(numbers(40), 20), greedy(numbers(30), 20), greedy(numbers(200), 20)};
  requests[1].choices = 3;
  requests[1].sampling.temperature = 0.8;
  std::vector<Outcome> expected;
  {
    LoopUnderTest alone(kTiny, checked());
    expected = alone.run_alone(requests);
  }
  LoopSetting setting = checked();
  const auto draws = std::make_shared<std::atomic<int>>(0);
  setting.loop.disturb = [=](RequestId id, int choice, std::span<float> logits) {
    if (id == 1 && draws->fetch_add(1) == 6) fault(logits);
  };
  LoopUnderTest test(kTiny, setting);
  Request victim = greedy(numbers(50), 30);
  victim.choices = 2;
  const auto failing = test.start(victim);
  const std::vector<Outcome> others = test.run_together(requests);
  expect_same(others, expected, message);
  EXPECT_EQ(failing->wait().error, code);
  EXPECT_THAT(failing->message(), HasSubstr(message));
  EXPECT_LT(failing->wait().choices[0].tokens.size(), 30u);
  test.expect_idle();
  EXPECT_EQ(test.run(requests[0]), expected[0]);  // and the loop goes on
}

TEST(StepLoopFaults, ANanRowFailsItsRequestOnly) {
  check_fault([](std::span<float> logits) { logits[5] = std::numeric_limits<float>::quiet_NaN(); }, ErrorCode::kCorrupt,
              "NaN");
}
TEST(StepLoopFaults, AnInfiniteRowFailsItsRequestOnly) {
  check_fault([](std::span<float> logits) { logits[5] = std::numeric_limits<float>::infinity(); }, ErrorCode::kCorrupt,
              "inf");
}
TEST(StepLoopFaults, AWorkersExceptionFailsItsRequestOnly) {
  check_fault([](std::span<float>) { throw std::runtime_error("a broken worker"); }, ErrorCode::kInternal,
              "a broken worker");
}

class ThrowingListener final : public Recorder {
 public:
  ThrowingListener() : Recorder(1) {}
  bool on_token(const TokenEvent& event) override {
    if (event.token >= 0 && ++tokens_ == 3) throw std::runtime_error("a broken listener");
    return Recorder::on_token(event);
  }

 private:
  int tokens_ = 0;
};

TEST(StepLoopFaults, AListenersExceptionFailsItsRequestOnly) {
  LoopUnderTest test(kTiny, checked());
  const Request request = greedy(numbers(40), 20);
  const Outcome expected = test.run(request);
  const auto broken = std::make_shared<ThrowingListener>();
  ASSERT_TRUE(test.loop().submit(request, broken).ok());
  EXPECT_EQ(test.run(request), expected);
  EXPECT_EQ(broken->wait().error, ErrorCode::kInternal);
  EXPECT_EQ(broken->wait().choices[0].tokens.size(), 2u);
  test.expect_idle();
}

TEST(StepLoopFaults, ANanInAPromptsLogprobsFailsTheRequest) {
  LoopSetting setting = checked();
  setting.loop.disturb = [](RequestId, int, std::span<float> logits) { logits[0] = std::nanf(""); };
  LoopUnderTest test(kTiny, setting);
  Request request = greedy(numbers(50), 5);
  request.prompt_logprobs = 0;
  EXPECT_EQ(test.run(request).error, ErrorCode::kCorrupt);
  test.expect_idle();
}

TEST(StepLoopFaults, MemoryThatNobodyCanGiveFailsOneRequest) {
  LoopSetting setting = checked();
  setting.kv_blocks = 3;
  LoopUnderTest test(kTiny, setting);
  const auto endless = test.start(greedy(numbers(100), 400));
  const auto modest = test.start(greedy(numbers(90, 4), 40));
  EXPECT_EQ(modest->wait().choices[0].tokens.size(), 40u) << modest->message();
  EXPECT_EQ(endless->wait().error, ErrorCode::kExhausted);
  EXPECT_EQ(endless->wait().choices[0].tokens.size(), 3u * 128 - 100 + 1);  // up to the last position
  EXPECT_THAT(endless->message(), HasSubstr("--kv-memory"));
  test.expect_idle();
}

TEST(StepLoopFaults, ClosingEndsWhoIsHere) {
  std::vector<std::shared_ptr<Recorder>> recorders;
  {
    LoopUnderTest test(kTiny, checked());
    for (int i = 0; i < 5; ++i) recorders.push_back(test.start(greedy(numbers(50 + i), 400)));
  }
  for (const auto& recorder : recorders) {
    const Outcome outcome = recorder->wait();
    EXPECT_EQ(outcome.error.value_or(ErrorCode::kUnavailable), ErrorCode::kUnavailable);
  }
}

TEST(StepLoop, ManyThreadsMaySubmitAndCancel) {
  LoopSetting setting = checked();
  setting.kv_blocks = 30;
  LoopUnderTest test(kTiny, setting);
  const Request request = greedy(numbers(60), 10);
  const Outcome expected = test.run(request);
  std::vector<std::thread> callers;
  std::atomic<int> finished = 0;
  for (int t = 0; t < 4; ++t) {
    callers.emplace_back([&, t] {
      for (int i = 0; i < 12; ++i) {
        const auto recorder = std::make_shared<Recorder>(1);
        const auto id = test.loop().submit(request, recorder);
        ASSERT_TRUE(id.ok());
        if ((i + t) % 3 == 0) test.loop().cancel(*id);
        (void)test.loop().stats();
        const Outcome outcome = recorder->wait();
        if (outcome.error) continue;
        EXPECT_EQ(outcome, expected);
        ++finished;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_GE(finished, 4 * 12 * 2 / 3);
  test.expect_idle();
  EXPECT_EQ(test.loop().stats().requests, 1 + 4 * 12);
}

}  // namespace
}  // namespace dspark
