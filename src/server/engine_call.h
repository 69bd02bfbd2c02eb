// EngineCall: one HTTP request on its way through the engine: it submits the engine's requests, hands on their events
// on the network thread, gives up when the client does, and reports when all is over. Network thread.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "engine/request.h"
#include "server/api_error.h"
#include "server/event_queue.h"
#include "server/http.h"
#include "server/request_record.h"

namespace dspark {

class Metrics;

// What calls share.
struct CallContext {
  HttpServer& http;
  Serving& serving;
  Metrics& metrics;
  size_t max_waiting_bytes;  // of an answer whose client does not read
  HttpHeaders headers;       // of every answer to this request
  // The call is over, its requests have ended, nothing refers to the engine any more.
  std::function<void(RequestRecord)> done;
};

class EngineCall : public std::enable_shared_from_this<EngineCall> {
 public:
  EngineCall(CallContext context, RequestRecord record, std::shared_ptr<HttpExchange> exchange);
  virtual ~EngineCall() = default;

  // Submits all; if one is refused, the answer is its error.
  void start(std::vector<Request> requests);
  // Ends the call with an error, as far as it has not ended.
  void stop(const ApiError& error);

 protected:
  // Whether events can go out now; if not, on_sent of the exchange goes on.
  virtual bool ready() const { return true; }
  virtual void on_event(QueuedEvent& event) = 0;
  virtual void on_failed(const ApiError& error) = 0;  // answers with the error
  virtual void on_finished() = 0;                     // all requests have ended well
  virtual void after_events() {}                      // of one wake-up

  HttpExchange& exchange() { return *exchange_; }
  bool sending() const { return exchange_->sending(); }
  void respond(HttpResponse response);
  RequestRecord& record() { return record_; }
  const CallContext& context() const { return context_; }
  std::chrono::steady_clock::time_point arrival() const { return arrival_; }

 private:
  void drain();
  void request_ended(const RequestEnded& ended);
  void fail(const ApiError& error);
  void cancel_all();
  void finish_record();

  CallContext context_;
  RequestRecord record_;
  std::shared_ptr<HttpExchange> exchange_;
  std::shared_ptr<EventQueue> queue_;
  std::vector<RequestId> ids_;
  size_t running_ = 0;
  bool answered_ = false;  // nothing more goes to the client
  std::chrono::steady_clock::time_point arrival_;
};

}  // namespace dspark
