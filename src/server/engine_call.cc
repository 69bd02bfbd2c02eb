// See engine_call.h.
#include "server/engine_call.h"

#include <algorithm>

#include "server/metrics.h"

namespace dspark {
namespace {

// The request was fine, or it would not have run: what breaks its format now is the model's file.
ApiError failure_of_run(const Error& error) {
  ApiError out = api_error(error);
  if (error.code == ErrorCode::kCorrupt) out = {.status = 500, .message = error.message, .code = "model_error"};
  return out;
}

}  // namespace

EngineCall::EngineCall(CallContext context, RequestRecord record, std::shared_ptr<HttpExchange> exchange)
    : context_(std::move(context)),
      record_(std::move(record)),
      exchange_(std::move(exchange)),
      // When the request arrived, on the other clock.
      arrival_(std::chrono::steady_clock::now() - std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                                      std::chrono::system_clock::now() - record_.arrival)) {}

void EngineCall::start(std::vector<Request> requests) {
  const std::weak_ptr<EngineCall> weak = weak_from_this();
  exchange_->on_closed = [self = shared_from_this()] {
    self->record_.status = 499;  // as nginx has it: the client closed the request
    self->record_.error = "the client closed the connection";
    self->answered_ = true;
    self->cancel_all();
    // The engine may be done with it already: then its last events wait here, and nobody will wake us for them.
    self->context_.http.post([self] { self->drain(); });
  };
  exchange_->on_sent = [weak] {
    if (const auto self = weak.lock()) self->drain();
  };
  // The queue keeps the call alive as long as the engine may call it.
  HttpServer* http = &context_.http;
  queue_ = std::make_shared<EventQueue>([http, self = shared_from_this()] { http->post([self] { self->drain(); }); },
                                        context_.max_waiting_bytes);
  for (Request& request : requests) {
    auto id = context_.serving.submit(std::move(request),
                                      std::make_shared<QueueListener>(queue_, static_cast<int>(ids_.size())));
    if (!id.ok()) {
      fail(api_error(id.error()));
      break;
    }
    ids_.push_back(*id);
    ++running_;
  }
  if (running_ == 0) finish_record();
}

void EngineCall::stop(const ApiError& error) {
  fail(error);
  drain();
}

void EngineCall::drain() {
  if (!queue_) return;
  if (!answered_ && queue_->overflowed()) {
    exchange_->abort();  // and with it on_closed
    record_.error = "the client reads too slowly";
  }
  if (!answered_ && !ready()) return;
  for (QueuedEvent& event : queue_->take()) {
    if (const auto* ended = std::get_if<RequestEnded>(&event.what)) {
      request_ended(*ended);
    } else if (!answered_) {
      on_event(event);
    }
    if (!queue_) return;
  }
  if (!answered_) after_events();
}

void EngineCall::request_ended(const RequestEnded& ended) {
  RequestStats& all = record_.stats;
  const RequestStats& stats = ended.stats;
  all.prompt_tokens += stats.prompt_tokens;
  all.cached_tokens += stats.cached_tokens;
  all.output_tokens += stats.output_tokens;
  all.drafted += stats.drafted;
  all.accepted += stats.accepted;
  all.preemptions += stats.preemptions;
  all.queue_seconds = std::max(all.queue_seconds, stats.queue_seconds);
  all.prefill_seconds = std::max(all.prefill_seconds, stats.prefill_seconds);
  all.decode_seconds = std::max(all.decode_seconds, stats.decode_seconds);
  --running_;
  if (!ended.status.ok()) fail(failure_of_run(ended.status.error()));
  if (running_ > 0) return;
  if (!answered_) {
    answered_ = true;
    on_finished();
  }
  finish_record();
}

void EngineCall::fail(const ApiError& error) {
  cancel_all();
  if (answered_) return;
  answered_ = true;
  record_.status = error.status;
  record_.error = error.message;
  on_failed(error);
}

void EngineCall::respond(HttpResponse response) {
  response.headers.insert(response.headers.end(), context_.headers.begin(), context_.headers.end());
  exchange_->respond(std::move(response));
}

void EngineCall::cancel_all() {
  if (!queue_) return;
  queue_->cancel();
  for (const RequestId id : ids_) context_.serving.cancel(id);
}

void EngineCall::finish_record() {
  queue_.reset();  // and with it the circle from the queue to here
  exchange_->on_closed = nullptr;
  exchange_->on_sent = nullptr;
  if (record_.status != 200 && !ids_.empty()) record_.finish_reasons.emplace_back("abort");
  record_.e2e_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - arrival_).count();
  if (const auto done = std::exchange(context_.done, nullptr)) done(std::move(record_));
}

}  // namespace dspark
