// What the rest of the server knows of HTTP: requests, responses, and the exchange over which an answer leaves. No
// Boost in here. Everything but HttpServer::post and stop runs on the server's one network thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"

namespace dspark {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpHead {
  std::string method;  // "GET"
  std::string path;    // what stands before a '?', not decoded
  HttpHeaders headers;
  std::string peer;  // the client's address

  // The first header of this name, in any case; empty if there is none.
  std::string_view header(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string body = {};
  std::string content_type = "application/json";
  HttpHeaders headers = {};
};

// One request that waits for its answer: either one respond(), or begin_stream(), any number of send() and
// end_stream(). Once the client is gone, on_closed has been called and all of these do nothing.
class HttpExchange {
 public:
  virtual ~HttpExchange() = default;
  virtual void respond(HttpResponse response) = 0;
  virtual void begin_stream(const HttpResponse& head) = 0;  // its body is not sent
  virtual void send(std::string_view bytes) = 0;
  virtual void end_stream() = 0;
  virtual void abort() = 0;  // closes the connection at once
  // Bytes of this answer wait for the client to read them.
  virtual bool sending() const = 0;

  std::function<void()> on_closed;  // the client went, or its time was up, before the answer was whole
  std::function<void()> on_sent;    // sending() has become false
};

class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  // Before the body is read: how many bytes it may have, or the answer to a request that goes no further.
  virtual std::variant<size_t, HttpResponse> admit(const HttpHead& head) = 0;
  virtual void handle(HttpHead head, std::string body, std::shared_ptr<HttpExchange> exchange) = 0;
  // The body of an answer to what is no proper request.
  virtual HttpResponse refusal(int status, std::string_view message) = 0;
};

struct HttpOptions {
  std::string host = "127.0.0.1";
  int port = 0;                      // 0: any free one
  std::string tls_certificate = {};  // files in PEM; both or none
  std::string tls_key = {};
  size_t max_connections = 1024;
  size_t max_header_bytes = 32 << 10;
  size_t max_body_total = 256u << 20;                // of all requests that are being read
  std::chrono::milliseconds client_timeout{30'000};  // for a request to arrive, and for each write to make progress
  std::chrono::milliseconds idle_timeout{75'000};    // of a connection without a request
};

class HttpServer {
 public:
  // Binds and listens; nobody is accepted before start(). kInvalidArgument names the address or file.
  static Result<std::unique_ptr<HttpServer>> listen(const HttpOptions& options);
  ~HttpServer();

  // Starts the network thread. `handler` must live until stop() has returned.
  void start(HttpHandler& handler);
  // Closes every connection and joins the network thread. Not from that thread.
  void stop();

  int port() const;
  size_t connections() const;  // network thread
  size_t answering() const;    // of them, those with a request that is not answered whole; network thread
  // Runs `work` on the network thread, in order; dropped once the server has stopped. Any thread.
  void post(std::function<void()> work);
  // Runs `work` on the network thread, not before `delay` has passed. Network thread.
  void after(std::chrono::milliseconds delay, std::function<void()> work);

 private:
  struct Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// "Not Found" for 404.
std::string_view status_text(int status);

}  // namespace dspark
