// Service: the endpoints. Checks who asks, sends the work where it belongs, and knows when nothing runs any more.
// Network thread, but for set_model and drain.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "server/access_log.h"
#include "server/api_keys.h"
#include "server/engine_call.h"
#include "server/http.h"
#include "server/metrics.h"
#include "server/prepare.h"
#include "server/served_model.h"
#include "server/work_queue.h"

namespace dspark {

struct ServiceOptions {
  ServingNames names;
  ApiKeys keys = {};
  std::vector<std::string> cors_origins = {};  // "*" is every one; none: no page of another origin may ask
  bool metrics = true;                         // answer /metrics
  size_t max_waiting_bytes = 4 << 20;          // of an answer that its client does not read
  int work_threads = 2;
  size_t max_waiting_work = 4096;
};

class Service final : public HttpHandler {
 public:
  // `log` may be null; both must outlive the service.
  Service(HttpServer& http, ServiceOptions options, AccessLog* log);
  ~Service() override;

  // From now on requests are answered; before, they get 503. Any thread.
  void set_model(std::shared_ptr<const ServedModel> model);
  // New requests get 503; `done` is called once on the network thread when nothing runs any more, which is made so
  // after `patience`. Any thread.
  void drain(std::chrono::milliseconds patience, std::function<void()> done);

  std::variant<size_t, HttpResponse> admit(const HttpHead& head) override;
  void handle(HttpHead head, std::string body, std::shared_ptr<HttpExchange> exchange) override;
  HttpResponse refusal(int status, std::string_view message) override;

 private:
  struct Route;
  struct Job;
  static const Route* find_route(std::string_view path, std::string_view method);
  std::optional<ApiError> check_caller(const HttpHead& head, const Route& route) const;
  HttpHeaders common_headers(const HttpHead& head) const;
  HttpResponse refuse(const HttpHead& head, const ApiError& error);
  HttpResponse preflight(const HttpHead& head) const;
  bool allowed_origin(std::string_view origin) const;
  bool same_origin(const HttpHead& head) const;

  HttpResponse page(const HttpHead& head, std::string_view body);
  HttpResponse health(const HttpHead& head, std::string_view body);
  HttpResponse list_models(const HttpHead& head, std::string_view body);
  HttpResponse show_metrics(const HttpHead& head, std::string_view body);
  HttpResponse debug_cache(const HttpHead& head, std::string_view body);
  HttpResponse config(const HttpHead& head, std::string_view body);
  void start_job(std::shared_ptr<Job> job);
  void work_safely(const std::shared_ptr<Job>& job);
  void work_on(const std::shared_ptr<Job>& job);
  void launch(const std::shared_ptr<Job>& job, std::shared_ptr<EngineCall> call, std::vector<Request> requests);
  CallContext call_context(const std::shared_ptr<Job>& job);
  void job_failed(const std::shared_ptr<Job>& job, const ApiError& error);
  void job_done(const Job& job);
  void report_if_drained();

  HttpServer& http_;
  const ServiceOptions options_;
  AccessLog* log_;
  const int64_t created_;
  Metrics metrics_;
  std::shared_ptr<const ServedModel> model_;
  bool draining_ = false;
  bool patience_over_ = false;  // what runs was told to end
  std::function<void()> drained_;
  std::chrono::steady_clock::time_point drain_deadline_;  // then nobody is waited for who does not read his answer
  std::map<const ApiKey*, KeyUse> uses_;
  uint64_t next_job_ = 0;
  std::map<uint64_t, std::weak_ptr<EngineCall>> running_;  // jobs that have not ended; empty while they are prepared
  WorkQueue work_;                                         // last: its threads end first
};

}  // namespace dspark
