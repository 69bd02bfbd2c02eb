// See answer_stream.h.
#include "train/answer_stream.h"

#include <algorithm>
#include <utility>

namespace dspark {

// One request's ear; on the step thread.
class AnswerStream::Collector final : public RequestListener {
 public:
  Collector(std::shared_ptr<Inbox> inbox, uint64_t tag, std::vector<int32_t> prompt)
      : inbox_(std::move(inbox)), answer_({.tag = tag, .prompt = std::move(prompt)}) {}

  bool on_token(const TokenEvent& event) override {
    answer_.answer.push_back(event.token);
    return true;
  }
  void on_choice_end(const ChoiceEnd& end) override {
    if (!end.end_token) return;
    answer_.answer.push_back(*end.end_token);
    answer_.ended = true;
  }
  void on_end(const Status& status, const RequestStats&) override {
    const std::lock_guard lock(inbox_->mutex);
    inbox_->finished.push_back({std::move(answer_), status});
    inbox_->filled.notify_one();
  }

 private:
  std::shared_ptr<Inbox> inbox_;
  GeneratedAnswer answer_;
};

AnswerStream::~AnswerStream() {
  for (const auto& [tag, id] : asked_) engine_.loop().cancel(id);
}

Status AnswerStream::add(uint64_t tag, std::vector<int32_t> prompt, const SamplingParams& sampling, int max_tokens) {
  auto collector = std::make_shared<Collector>(inbox_, tag, prompt);
  Request request;
  request.prompt = std::move(prompt);
  request.sampling = sampling;
  request.max_tokens = max_tokens;
  DSPARK_TRY(const RequestId id, engine_.loop().submit(std::move(request), std::move(collector)));
  asked_.emplace_back(tag, id);
  return Ok{};
}

Result<std::vector<GeneratedAnswer>> AnswerStream::take() {
  std::vector<Finished> finished;
  {
    std::unique_lock lock(inbox_->mutex);
    inbox_->filled.wait(lock, [&] { return !inbox_->finished.empty(); });
    finished.swap(inbox_->finished);
  }
  std::vector<GeneratedAnswer> out;
  for (Finished& one : finished) {
    std::erase_if(asked_, [&](const auto& asked) { return asked.first == one.answer.tag; });
    DSPARK_RETURN_IF_ERROR(one.status);
    out.push_back(std::move(one.answer));
  }
  return out;
}

}  // namespace dspark
