// See service.h.
#include "server/service.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/log.h"
#include "base/noise.h"
#include "server/page.h"

namespace dspark {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kModelsPrefix = "/v1/models/";
constexpr std::string_view kHealthPath = "/health";
constexpr std::string_view kLivePath = "/health/live";
constexpr std::string_view kReadyPath = "/health/ready";
constexpr std::string_view kConfigPath = "/api/v1/config";
constexpr size_t kMaxConfigBytes = 64 << 10;
constexpr size_t kLongBody = 64 << 10;  // takes milliseconds to read and tokenise, or seconds
constexpr auto kDrainLook = std::chrono::milliseconds(20);
constexpr auto kLastWrites = std::chrono::seconds(5);

enum class Right { kNone, kKey, kMetrics, kAdmin };
enum class Task { kAtOnce, kChat, kCompletions, kEmbeddings, kTokenize, kDetokenize, kApplyTemplate };

ApiError shutting_down() {
  return {.status = 503, .message = "the server is shutting down", .code = "shutting_down", .retry_after_s = 5};
}

// An id of the caller's that may stand in a header and a log line.
bool usable_id(std::string_view id) {
  return !id.empty() && id.size() <= 128 &&
         std::all_of(id.begin(), id.end(), [](char c) { return c > ' ' && c < 127; });
}

// A part of a path as it was before its bytes were written as %2F (RFC 3986); OpenAI's client does that to "org/model".
std::string percent_decoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    uint8_t byte = 0;
    const char* digits = text.data() + i + 1;
    if (text[i] == '%' && i + 2 < text.size() && std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2) {
      out += static_cast<char>(byte);
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

// Names of headers with commas between them.
bool is_header_list(std::string_view text) {
  return !text.empty() && text.size() <= 4096 && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
           c == ',' || c == ' ';
  });
}

}  // namespace

struct Service::Route {
  std::string_view path;
  std::string_view method;
  Right right;
  Task task;
  HttpResponse (Service::*answer)(const HttpHead& head, std::string_view body);  // of what is answered at once
};

// One request from its arrival until the engine has it.
struct Service::Job {
  uint64_t number = 0;
  Task task = Task::kAtOnce;
  Caller caller;
  std::string body;
  HttpHeaders headers;
  std::shared_ptr<HttpExchange> exchange;
  std::shared_ptr<const ServedModel> model;
  bool closed = false;
  std::atomic<bool> taken = false;  // by the thread that prepares it, or by the client's going

  void drop_body() { std::string().swap(body); }
};

// The route of this path, for this method if there is one.
const Service::Route* Service::find_route(std::string_view path, std::string_view method) {
  static constexpr std::array kRoutes = std::to_array<Route>({
      {"/v1/chat/completions", "POST", Right::kKey, Task::kChat, nullptr},
      {"/v1/completions", "POST", Right::kKey, Task::kCompletions, nullptr},
      {"/v1/embeddings", "POST", Right::kKey, Task::kEmbeddings, nullptr},
      {"/tokenize", "POST", Right::kKey, Task::kTokenize, nullptr},
      {"/detokenize", "POST", Right::kKey, Task::kDetokenize, nullptr},
      {"/apply-template", "POST", Right::kKey, Task::kApplyTemplate, nullptr},
      {"/v1/models", "GET", Right::kKey, Task::kAtOnce, &Service::list_models},
      {"/", "GET", Right::kNone, Task::kAtOnce, &Service::page},
      {"/page/page.css", "GET", Right::kNone, Task::kAtOnce, &Service::page},
      {"/page/page.js", "GET", Right::kNone, Task::kAtOnce, &Service::page},
      {kHealthPath, "GET", Right::kNone, Task::kAtOnce, &Service::health},
      {kLivePath, "GET", Right::kNone, Task::kAtOnce, &Service::health},
      {kReadyPath, "GET", Right::kNone, Task::kAtOnce, &Service::health},
      {"/metrics", "GET", Right::kMetrics, Task::kAtOnce, &Service::show_metrics},
      {"/debug/cache", "GET", Right::kAdmin, Task::kAtOnce, &Service::debug_cache},
      {kConfigPath, "GET", Right::kAdmin, Task::kAtOnce, &Service::config},
      {kConfigPath, "POST", Right::kAdmin, Task::kAtOnce, &Service::config},
      {"/api/v1/config/dflash", "GET", Right::kAdmin, Task::kAtOnce, &Service::config},
      {"/api/v1/config/dflash", "POST", Right::kAdmin, Task::kAtOnce, &Service::config},
  });
  if (path.starts_with(kModelsPrefix)) path = "/v1/models";
  if (method == "HEAD") method = "GET";
  const Route* found = nullptr;
  for (const Route& route : kRoutes) {
    if (route.path == path && (found == nullptr || route.method == method)) found = &route;
  }
  return found;
}

Service::Service(HttpServer& http, ServiceOptions options, AccessLog* log)
    : http_(http),
      options_(std::move(options)),
      log_(log),
      created_(std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
                   .count()),
      metrics_(options_.names.models.front()),
      work_(options_.work_threads, options_.max_waiting_work) {}

Service::~Service() = default;

void Service::set_model(std::shared_ptr<const ServedModel> model) {
  http_.post([this, model = std::move(model)]() mutable { model_ = std::move(model); });
}

void Service::drain(std::chrono::milliseconds patience, std::function<void()> done) {
  http_.post([this, patience, done = std::move(done)]() mutable {
    draining_ = true;
    drained_ = std::move(done);
    drain_deadline_ = std::chrono::steady_clock::now() + patience + kLastWrites;
    http_.after(patience, [this] {
      patience_over_ = true;
      for (const auto& [number, weak] : std::map(running_)) {
        if (const auto call = weak.lock()) call->stop(shutting_down());
      }
    });
    report_if_drained();
  });
}

void Service::report_if_drained() {
  if (!draining_ || !drained_ || !running_.empty()) return;
  if (http_.answering() > 0 && std::chrono::steady_clock::now() < drain_deadline_) {
    http_.after(kDrainLook, [this] { report_if_drained(); });
    return;
  }
  if (const auto done = std::exchange(drained_, nullptr)) done();
}

std::variant<size_t, HttpResponse> Service::admit(const HttpHead& head) {
  const Route* route = find_route(head.path, head.method);
  if (route == nullptr) {
    return refuse(head, {.status = 404, .message = fmt::format("no such endpoint: {}", shown(Json(head.path)))});
  }
  if (head.method == "OPTIONS" && allowed_origin(head.header("Origin"))) return preflight(head);
  if (head.method != route->method && !(head.method == "HEAD" && route->method == "GET")) {
    ApiError error{.status = 405, .message = fmt::format("{} takes {}", route->path, route->method)};
    HttpResponse response = refuse(head, error);
    response.headers.emplace_back("Allow", std::string(route->method));
    return response;
  }
  if (const auto error = check_caller(head, *route)) return refuse(head, *error);
  if (route->task != Task::kAtOnce) return options_.names.limits.max_body_bytes;
  return route->method == "POST" ? kMaxConfigBytes : size_t{0};
}

std::optional<ApiError> Service::check_caller(const HttpHead& head, const Route& route) const {
  // A page of another origin speaks with the rights of whoever looks at it, and may reach what listens here only.
  const std::string_view origin = head.header("Origin");
  if (!origin.empty() && !allowed_origin(origin) && !same_origin(head)) {
    return ApiError{.status = 403, .message = "pages of this origin may not ask here; see --cors-origin"};
  }
  if (route.right != Right::kNone) {
    const ApiKey* key = options_.keys.find(head.header("Authorization"));
    if (key == nullptr) {
      return ApiError{.status = 401,
                      .message = "no valid API key; send one as 'Authorization: Bearer KEY'",
                      .code = "invalid_api_key"};
    }
    if ((route.right == Right::kMetrics && !key->metrics && !key->admin) ||
        (route.right == Right::kAdmin && !key->admin)) {
      return ApiError{.status = 403, .message = fmt::format("this key may not read {}", route.path)};
    }
  }
  if (route.task == Task::kAtOnce) return std::nullopt;
  if (draining_) return shutting_down();
  if (!model_) {
    return ApiError{.status = 503, .message = "the model is still loading", .code = "loading", .retry_after_s = 1};
  }
  if (model_->health != nullptr && !model_->health->health().ready) {
    return ApiError{.status = 503,
                    .message = "a step of the engine does not end; see /health",
                    .code = "stuck",
                    .retry_after_s = 5};
  }
  return std::nullopt;
}

bool Service::allowed_origin(std::string_view origin) const {
  const auto& origins = options_.cors_origins;
  return !origin.empty() && std::any_of(origins.begin(), origins.end(), [&](const std::string& allowed) {
    return allowed == "*" || allowed == origin;
  });
}

// Our own page. Only under an address or as localhost: a foreign name may have been made to point here.
bool Service::same_origin(const HttpHead& head) const {
  std::string_view host = head.header("Host");
  const std::string_view origin = head.header("Origin");
  if (host.empty() || (origin != fmt::format("http://{}", host) && origin != fmt::format("https://{}", host))) {
    return false;
  }
  if (host.starts_with('[')) return true;  // IPv6
  host = host.substr(0, host.rfind(':'));
  return host == "localhost" || std::ranges::all_of(host, [](char c) { return c == '.' || (c >= '0' && c <= '9'); });
}

HttpHeaders Service::common_headers(const HttpHead& head) const {
  const std::string_view id = head.header("X-Request-Id");
  HttpHeaders out = {{"X-Request-Id", usable_id(id) ? std::string(id) : fmt::format("{:014x}", random_seed())}};
  if (const std::string_view origin = head.header("Origin"); allowed_origin(origin)) {
    out.emplace_back("Access-Control-Allow-Origin", std::string(origin));
    out.emplace_back("Access-Control-Expose-Headers", "Retry-After, X-Request-Id");
    out.emplace_back("Vary", "Origin");
  }
  return out;
}

HttpResponse Service::refuse(const HttpHead& head, const ApiError& error) {
  metrics_.refused(error.status);
  HttpResponse response = error_response(error);
  for (auto& header : common_headers(head)) response.headers.push_back(std::move(header));
  return response;
}

HttpResponse Service::refusal(int status, std::string_view message) {
  metrics_.refused(status);
  return error_response({.status = status, .message = std::string(message), .retry_after_s = status == 503 ? 1 : 0});
}

HttpResponse Service::preflight(const HttpHead& head) const {
  HttpResponse response{.status = 204, .content_type = "", .headers = common_headers(head)};
  response.headers.emplace_back("Access-Control-Allow-Methods", "GET, POST");
  // OpenAI's client for browsers adds a dozen headers of its own, and others others: none of them means anything here
  // that a page of an allowed origin may not say.
  const std::string_view asked = head.header("Access-Control-Request-Headers");
  response.headers.emplace_back("Access-Control-Allow-Headers",
                                is_header_list(asked) ? asked : "Authorization, Content-Type, X-Task, X-Prompt-Type");
  response.headers.emplace_back("Access-Control-Max-Age", "600");
  return response;
}

void Service::handle(HttpHead head, std::string body, std::shared_ptr<HttpExchange> exchange) {
  const Route& route = *find_route(head.path, head.method);  // admit() found it
  if (route.task == Task::kAtOnce) {
    HttpResponse response = (this->*route.answer)(head, body);
    for (auto& header : common_headers(head)) response.headers.push_back(std::move(header));
    exchange->respond(std::move(response));
    return;
  }
  auto job = std::make_shared<Job>();
  job->task = route.task;
  job->caller = {.key = options_.keys.find(head.header("Authorization")),
                 .task = std::string(head.header("X-Task")),
                 .prompt_type = std::string(head.header("X-Prompt-Type")),
                 .arrival = std::chrono::system_clock::now(),
                 .keep_prompts = log_ != nullptr,
                 .keep_text = log_ != nullptr && log_->with_text()};
  job->body = std::move(body);
  job->headers = common_headers(head);
  job->exchange = std::move(exchange);
  job->model = model_;
  start_job(std::move(job));
}

void Service::start_job(std::shared_ptr<Job> job) {
  job->number = next_job_++;
  auto error = uses_[job->caller.key].enter(*job->caller.key, KeyUse::Clock::now());
  if (!error) {
    running_[job->number];
    // Bodies of those who went must not pile up behind the one that is being prepared.
    job->exchange->on_closed = [job] {
      job->closed = true;
      if (!job->taken.exchange(true)) job->drop_body();
    };
    if (work_.push([this, job] { work_safely(job); }, job->body.size() > kLongBody)) return;
    job_done(*job);
    error = ApiError{.status = 503, .message = "too many requests wait; try again soon", .retry_after_s = 1};
  }
  metrics_.refused(error->status);
  HttpResponse response = error_response(*error);
  response.headers.insert(response.headers.end(), job->headers.begin(), job->headers.end());
  job->exchange->respond(std::move(response));
}

// Worker thread. What work_on() does not expect ends its request, and nothing else.
void Service::work_safely(const std::shared_ptr<Job>& job) {
  if (job->taken.exchange(true)) {
    http_.post([this, job] { job_done(*job); });
    return;
  }
  std::string why = "an unknown exception";
  try {
    return work_on(job);
  } catch (const std::exception& error) {
    why = error.what();
  } catch (...) {
  }
  log(LogLevel::kError, "a request could not be prepared: {}", why);
  http_.post([this, job] { job_failed(job, {.status = 500, .message = "the request could not be prepared"}); });
}

// Worker thread: what of a job takes long. What follows goes back to the network thread.
void Service::work_on(const std::shared_ptr<Job>& job) {
  const ServedModel& model = *job->model;
  const auto fail = [&](ApiError error) {
    http_.post([this, job, error = std::move(error)] { job_failed(job, error); });
  };
  if (job->task == Task::kChat || job->task == Task::kCompletions) {
    auto prepared = prepare_generation(model, options_.names, job->caller, job->body, job->task == Task::kChat);
    job->drop_body();
    if (auto* error = std::get_if<ApiError>(&prepared)) return fail(std::move(*error));
    auto ready = std::make_shared<PreparedGeneration>(std::move(std::get<PreparedGeneration>(prepared)));
    http_.post([this, job, ready] {
      launch(job,
             make_generation(call_context(job), std::move(ready->record), job->exchange, std::move(ready->answer),
                             job->model->tokenizer, job->caller.keep_text),
             std::move(ready->requests));
    });
    return;
  }
  if (job->task == Task::kEmbeddings) {
    auto prepared = prepare_embedding(model, options_.names, job->caller, job->body);
    job->drop_body();
    if (auto* error = std::get_if<ApiError>(&prepared)) return fail(std::move(*error));
    auto ready = std::make_shared<PreparedEmbedding>(std::move(std::get<PreparedEmbedding>(prepared)));
    http_.post([this, job, ready] {
      launch(job, make_embedding(call_context(job), std::move(ready->record), job->exchange, std::move(ready->options)),
             std::move(ready->requests));
    });
    return;
  }
  HttpResponse response = job->task == Task::kTokenize     ? tokenize(model, options_.names, job->body)
                          : job->task == Task::kDetokenize ? detokenize(model, options_.names, job->body)
                                                           : apply_template(model, options_.names, job->body);
  response.headers.insert(response.headers.end(), job->headers.begin(), job->headers.end());
  http_.post([this, job, response = std::move(response)] {
    job_done(*job);
    job->exchange->respond(response);
  });
}

CallContext Service::call_context(const std::shared_ptr<Job>& job) {
  return {.http = http_,
          .serving = job->model->serving,
          .metrics = metrics_,
          .max_waiting_bytes = options_.max_waiting_bytes,
          .headers = job->headers,
          .done = [this, job](RequestRecord record) {
            metrics_.request_done(record);
            if (log_ != nullptr) log_->write(std::move(record));
            job_done(*job);
          }};
}

void Service::launch(const std::shared_ptr<Job>& job, std::shared_ptr<EngineCall> call, std::vector<Request> requests) {
  if (job->closed) return job_done(*job);
  running_[job->number] = call;
  call->start(std::move(requests));
  if (patience_over_) call->stop(shutting_down());
}

void Service::job_failed(const std::shared_ptr<Job>& job, const ApiError& error) {
  metrics_.refused(error.status);
  HttpResponse response = error_response(error);
  response.headers.insert(response.headers.end(), job->headers.begin(), job->headers.end());
  job_done(*job);
  job->exchange->respond(std::move(response));
}

void Service::job_done(const Job& job) {
  uses_[job.caller.key].leave();
  running_.erase(job.number);
  report_if_drained();
}

// It loads nothing from elsewhere, and no other page may frame it.
HttpResponse Service::page(const HttpHead& head, std::string_view) {
  const PageFile& file = *find_page_file(head.path);  // there is a route for each
  return {.body = std::string(file.text),
          .content_type = std::string(file.content_type),
          .headers = {{"Content-Security-Policy",
                       "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
                       "form-action 'none'; base-uri 'none'; frame-ancestors 'none'"},
                      {"X-Content-Type-Options", "nosniff"},
                      {"Cache-Control", "no-cache"}}};
}

// Whoever starts and routes wants to know three things: whether the process is of use (live), whether to send it
// requests (ready), and what is wrong with it.
HttpResponse Service::health(const HttpHead& head, std::string_view) {
  const bool only_live = head.path == kLivePath;
  if (!only_live && draining_) {
    return error_response(shutting_down());
  }
  if (!only_live && !model_) {
    return error_response({.status = 503, .message = "the model is still loading", .code = "loading"});
  }
  if (!model_ || model_->health == nullptr) return {.body = R"({"status":"ok"})"};
  const Health health = model_->health->health();
  return {.status = (only_live ? health.live : health.ready) ? 200 : 503, .body = dump_json(health_json(health))};
}

HttpResponse Service::list_models(const HttpHead& head, std::string_view) {
  Json data = Json::array();
  for (const std::string& name : options_.names.models) {
    data.push_back({{"id", name},
                    {"object", "model"},
                    {"created", created_},
                    {"owned_by", "dspark"},
                    {"root", options_.names.models.front()},
                    {"parent", nullptr},
                    {"max_model_len", model_ ? Json(model_->context) : Json()}});
  }
  if (!head.path.starts_with(kModelsPrefix))
    return {.body = dump_json({{"object", "list"}, {"data", std::move(data)}})};
  const std::string asked = percent_decoded(std::string_view(head.path).substr(kModelsPrefix.size()));
  for (const Json& model : data) {
    if (model["id"] == asked) return {.body = dump_json(model)};
  }
  return error_response(
      {.status = 404,
       .message = fmt::format("no model {}; there is {}", shown(Json(asked)), fmt::join(options_.names.models, ", ")),
       .code = "model_not_found"});
}

HttpResponse Service::show_metrics(const HttpHead&, std::string_view) {
  if (!options_.metrics) return error_response({.status = 404, .message = "this server has --no-enable-metrics"});
  std::vector<MetricSample> samples;
  if (model_ && model_->metrics) samples = model_->metrics();
  if (model_ && model_->health != nullptr) {
    for (MetricSample& sample : model_->health->metrics()) samples.push_back(std::move(sample));
  }
  if (model_ && model_->config) {
    samples.push_back({.name = "dspark_config_version",
                       .help = "Version of the live configuration",
                       .value = static_cast<double>(model_->config->version())});
  }
  samples.push_back({.name = "dspark_http_connections",
                     .help = "Open connections",
                     .value = static_cast<double>(http_.connections())});
  samples.push_back({.name = "dspark_calls_running",
                     .help = "HTTP requests that are being prepared or answered",
                     .value = static_cast<double>(running_.size())});
  return {.body = metrics_.text(samples), .content_type = "text/plain; version=0.0.4; charset=utf-8"};
}

HttpResponse Service::debug_cache(const HttpHead&, std::string_view) {
  if (!model_ || !model_->debug_cache) {
    return error_response({.status = 503, .message = "no cache yet", .code = "loading"});
  }
  return {.body = dump_json(model_->debug_cache())};
}

HttpResponse Service::config(const HttpHead& head, std::string_view body) {
  if (!model_ || !model_->config) {
    return error_response({.status = 503, .message = "the model is still loading", .code = "loading"});
  }
  const std::string_view prefix = head.path == kConfigPath ? "" : "dflash-";
  if (head.method != "POST") return {.body = dump_json(model_->config->show(prefix))};
  const ApiKey* key = options_.keys.find(head.header("Authorization"));
  const std::string by = key->name.empty() ? head.peer : fmt::format("{} ({})", key->name, head.peer);
  auto changed = model_->config->change(body, prefix, by);
  if (const auto* error = std::get_if<ApiError>(&changed)) return error_response(*error);
  return {.body = dump_json(std::get<Json>(changed))};
}

}  // namespace dspark
