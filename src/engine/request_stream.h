// RequestStream: many requests of one caller at once, whose answers come back as they complete. Which of them share a
// step changes no token. One thread uses it; the step thread fills it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "engine/request.h"

namespace dspark {

// The answer to a request of one choice.
struct StreamedAnswer {
  uint64_t tag = 0;
  std::vector<int32_t> prompt = {};
  std::vector<int32_t> tokens = {};       // without the one that ended it
  std::vector<float> logprobs = {};       // of each token, as TokenEvent has them
  std::vector<bool> drafted = {};         // of each token: a drafter had guessed it
  std::optional<int32_t> end_token = {};  // that ended it; nothing: a limit did
  RequestStats stats = {};
};

class RequestStream {
 public:
  // At most `slots` requests at once. `engine` must outlive this.
  RequestStream(Serving& engine, int slots)
      : engine_(engine), slots_(static_cast<size_t>(slots)), inbox_(std::make_shared<Inbox>()) {}
  // What is still on its way is cancelled.
  ~RequestStream();
  RequestStream(const RequestStream&) = delete;
  RequestStream& operator=(const RequestStream&) = delete;

  bool has_room() const { return asked_.size() < slots_; }
  size_t active() const { return asked_.size(); }

  // `tag` is the caller's. Errors as Serving::submit has them. Needs has_room().
  Status add(uint64_t tag, Request request);

  // Waits until some are complete, and takes them; an error if the engine failed one of them. Needs active() > 0.
  Result<std::vector<StreamedAnswer>> take();

 private:
  struct Inbox {
    std::mutex mutex;
    std::condition_variable filled;
    std::vector<std::pair<StreamedAnswer, Status>> finished;
  };
  class Listener;

  Serving& engine_;
  const size_t slots_;
  std::shared_ptr<Inbox> inbox_;  // outlives this in the listeners of requests that are being cancelled
  std::vector<std::pair<uint64_t, RequestId>> asked_;
};

}  // namespace dspark
