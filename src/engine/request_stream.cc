// See request_stream.h.
#include "engine/request_stream.h"

#include "base/check.h"

namespace dspark {

// One request's ear; on the step thread.
class RequestStream::Listener final : public RequestListener {
 public:
  Listener(std::shared_ptr<Inbox> inbox, uint64_t tag, std::vector<int32_t> prompt)
      : inbox_(std::move(inbox)), answer_({.tag = tag, .prompt = std::move(prompt)}) {}

  bool on_token(const TokenEvent& event) override {
    answer_.tokens.push_back(event.token);
    answer_.logprobs.push_back(event.logprob);
    answer_.drafted.push_back(event.drafted);
    return true;
  }
  void on_choice_end(const ChoiceEnd& end) override { answer_.end_token = end.end_token; }
  void on_end(const Status& status, const RequestStats& stats) override {
    answer_.stats = stats;
    const std::lock_guard lock(inbox_->mutex);
    inbox_->finished.emplace_back(std::move(answer_), status);
    inbox_->filled.notify_one();
  }

 private:
  std::shared_ptr<Inbox> inbox_;
  StreamedAnswer answer_;
};

RequestStream::~RequestStream() {
  for (const auto& [tag, id] : asked_) engine_.cancel(id);
}

Status RequestStream::add(uint64_t tag, Request request) {
  DSPARK_CHECK(has_room(), "{} requests are on their way, at most {} may", asked_.size(), slots_);
  auto listener = std::make_shared<Listener>(inbox_, tag, request.prompt);
  DSPARK_TRY(const RequestId id, engine_.submit(std::move(request), std::move(listener)));
  asked_.emplace_back(tag, id);
  return Ok{};
}

Result<std::vector<StreamedAnswer>> RequestStream::take() {
  DSPARK_CHECK(active() > 0, "nothing was asked for");
  std::vector<std::pair<StreamedAnswer, Status>> finished;
  {
    std::unique_lock lock(inbox_->mutex);
    inbox_->filled.wait(lock, [&] { return !inbox_->finished.empty(); });
    finished.swap(inbox_->finished);
  }
  std::vector<StreamedAnswer> out;
  for (auto& [answer, status] : finished) {
    std::erase_if(asked_, [tag = answer.tag](const auto& asked) { return asked.first == tag; });
    DSPARK_RETURN_IF_ERROR(status);
    out.push_back(std::move(answer));
  }
  return out;
}

}  // namespace dspark
