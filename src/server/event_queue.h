// EventQueue: carries a request's events from the engine's step thread to the network thread. It never makes the step
// thread wait, and it is bounded: who does not read loses the request.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <variant>
#include <vector>

#include "engine/request.h"
#include "server/answer.h"

namespace dspark {

struct PromptReady {
  RequestStats stats;
  std::vector<PromptLogprob> logprobs;
};

// A ChoiceEnd that owns its text.
struct ChoiceEnded {
  ChoiceEnd end;
  std::string text;
};

struct RequestEnded {
  Status status;
  RequestStats stats;
};

struct QueuedEvent {
  int part = 0;  // which of the call's requests
  std::chrono::steady_clock::time_point at;
  std::variant<PromptReady, AnswerToken, ChoiceEnded, std::vector<float>, RequestEnded> what;
};

class EventQueue {
 public:
  // `wake` is called when events wait, once until they are taken; on the step thread. A thread that is woken for each
  // event takes its core from the step that brings the next one.
  EventQueue(std::function<void()> wake, size_t max_bytes) : wake_(std::move(wake)), max_bytes_(max_bytes) {}

  // Step thread. False: nobody wants more, or too much waits. The end of a request always gets in. Wakes only for that
  // and for the overflow.
  bool push(QueuedEvent event, size_t bytes);
  void flush();                     // step thread: wakes for what waits
  std::vector<QueuedEvent> take();  // network thread
  void cancel();                    // any thread: push() gives false from now on
  bool overflowed() const;          // more than max_bytes waited

 private:
  std::function<void()> wake_;
  const size_t max_bytes_;
  mutable std::mutex mutex_;
  std::vector<QueuedEvent> events_;
  size_t bytes_ = 0;
  bool waking_ = false, cancelled_ = false, overflowed_ = false;
};

// What the engine calls for one request of a call.
class QueueListener final : public RequestListener {
 public:
  QueueListener(std::shared_ptr<EventQueue> queue, int part) : queue_(std::move(queue)), part_(part) {}
  void on_prompt(const RequestStats& stats, std::span<const PromptLogprob> logprobs) override;
  bool on_token(const TokenEvent& event) override;
  void on_choice_end(const ChoiceEnd& end) override;
  void on_embedding(std::span<const float> values) override;
  void on_step_end() override { queue_->flush(); }
  void on_end(const Status& status, const RequestStats& stats) override;

 private:
  template <class What>
  bool push(What what, size_t bytes);

  std::shared_ptr<EventQueue> queue_;
  int part_;
};

}  // namespace dspark
