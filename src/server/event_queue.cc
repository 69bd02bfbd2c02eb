// See event_queue.h.
#include "server/event_queue.h"

#include <utility>

namespace dspark {

bool EventQueue::push(QueuedEvent event, size_t bytes) {
  bool wake = false, wanted = true;
  {
    const std::lock_guard lock(mutex_);
    const bool end = std::holds_alternative<RequestEnded>(event.what);
    bytes_ += bytes + sizeof(QueuedEvent);
    // Who does not read may never take what waits: an overflow wakes again.
    const bool overflows = bytes_ > max_bytes_ && !std::exchange(overflowed_, true);
    wanted = !cancelled_ && !overflowed_;
    if (wanted || end) {
      events_.push_back(std::move(event));
      wake = end && !std::exchange(waking_, true);
    }
    wake |= overflows;
  }
  if (wake) wake_();
  return wanted;
}

void EventQueue::flush() {
  {
    const std::lock_guard lock(mutex_);
    if (events_.empty() || std::exchange(waking_, true)) return;
  }
  wake_();
}

std::vector<QueuedEvent> EventQueue::take() {
  const std::lock_guard lock(mutex_);
  waking_ = false;
  bytes_ = 0;
  return std::exchange(events_, {});
}

void EventQueue::cancel() {
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
}

bool EventQueue::overflowed() const {
  const std::lock_guard lock(mutex_);
  return overflowed_;
}

template <class What>
bool QueueListener::push(What what, size_t bytes) {
  return queue_->push({part_, std::chrono::steady_clock::now(), std::move(what)}, bytes);
}

void QueueListener::on_prompt(const RequestStats& stats, std::span<const PromptLogprob> logprobs) {
  push(PromptReady{stats, {logprobs.begin(), logprobs.end()}}, 0);
}

bool QueueListener::on_token(const TokenEvent& event) {
  return push(AnswerToken{.choice = event.choice,
                          .token = event.token,
                          .text = std::string(event.text),
                          .logprob = event.logprob,
                          .top = {event.top.begin(), event.top.end()},
                          .drafted = event.drafted},
              event.text.size() + event.top.size_bytes());
}

void QueueListener::on_choice_end(const ChoiceEnd& end) {
  ChoiceEnded ended{end, std::string(end.text)};
  ended.end.text = {};  // the engine's bytes; the copy is beside it
  push(std::move(ended), end.text.size());
}

void QueueListener::on_embedding(std::span<const float> values) {
  push(std::vector<float>(values.begin(), values.end()), 0);
}

void QueueListener::on_end(const Status& status, const RequestStats& stats) { push(RequestEnded{status, stats}, 0); }

}  // namespace dspark
