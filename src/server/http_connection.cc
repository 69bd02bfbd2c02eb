// See http_connection.h.
#include "server/http_connection.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace dspark {
namespace {

// Of the next requests, read while an answer is in the works. Reading on is how we notice that the client hung up.
constexpr size_t kMostAhead = 16 << 10;
constexpr auto kLingerTime = std::chrono::seconds(3);

bool same_name(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](char x, char y) { return lower(x) == lower(y); });
}

std::string text(boost::beast::string_view view) { return {view.data(), view.size()}; }

// "/v1/models" of "/v1/models?x" and of "http://host/v1/models", which proxies send.
std::string path_of(std::string target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!target.starts_with(scheme)) continue;
    target.erase(0, std::min(target.size(), target.find_first_of("/?", scheme.size())));
    if (!target.starts_with('/')) target.insert(0, "/");
  }
  target.resize(std::min(target.size(), target.find('?')));
  return target;
}

// Whoever stands before this server must see the same request in the same bytes (RFC 9112, 3.2 and 6.1): one host, and
// a body that ends by its length or by chunks alone. The error otherwise.
template <class Message>
std::optional<HttpResponse> find_ambiguity(const Message& message, bool chunked, HttpHandler& handler) {
  namespace http = boost::beast::http;
  const size_t hosts = message.count(http::field::host);
  if (hosts > 1 || (hosts == 0 && message.version() >= 11)) {
    return handler.refusal(400, fmt::format("{} Host headers, expected one", hosts));
  }
  if (message.count(http::field::transfer_encoding) > 0 &&
      !(chunked && message.version() >= 11 && same_name(text(message[http::field::transfer_encoding]), "chunked"))) {
    return handler.refusal(400, "a Transfer-Encoding other than 'chunked' alone; send Content-Length");
  }
  const std::string coding = text(message[http::field::content_encoding]);
  if (!coding.empty() && !same_name(coding, "identity")) {
    return handler.refusal(415, "bodies must come as they are, without Content-Encoding");
  }
  return std::nullopt;
}

template <class Message>
HttpHead head_of(const Message& message, const std::string& peer) {
  HttpHead head{text(message.method_string()), path_of(text(message.target())), {}, peer};
  for (const auto& field : message) head.headers.emplace_back(text(field.name_string()), text(field.value()));
  return head;
}

}  // namespace

std::string_view HttpHead::header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (same_name(key, name)) return value;
  }
  return {};
}

std::string_view status_text(int status) {
  const auto text = boost::beast::http::obsolete_reason(static_cast<boost::beast::http::status>(status));
  return {text.data(), text.size()};
}

// The handler's side of the request that a connection is answering. Outlives the connection at will.
class HttpConnectionExchange final : public HttpExchange {
 public:
  explicit HttpConnectionExchange(std::weak_ptr<HttpConnection> connection) : connection_(std::move(connection)) {}

  void respond(HttpResponse response) override {
    const auto connection = connection_.lock();
    if (!connection) return;
    std::string bytes = connection->head_text(response, response.body.size());
    if (!connection->head_only_) bytes += response.body;
    finish(*connection, bytes);
  }

  void begin_stream(const HttpResponse& head) override {
    if (const auto connection = connection_.lock()) {
      if (!connection->chunked_) connection->keep_alive_ = false;
      connection->write(connection->head_text(head, std::nullopt));
    }
  }

  void send(std::string_view bytes) override {
    const auto connection = connection_.lock();
    if (!connection || bytes.empty()) return;
    if (connection->chunked_) {
      connection->write(fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes));
    } else {
      connection->write(bytes);
    }
  }

  void end_stream() override {
    if (const auto connection = connection_.lock()) finish(*connection, connection->chunked_ ? "0\r\n\r\n" : "");
  }

  void abort() override {
    if (const auto connection = connection_.lock()) connection->close();
  }

  bool sending() const override {
    const auto connection = connection_.lock();
    return connection && connection->writing_;
  }

  // The connection is gone, or done with this answer. Dropping the callbacks breaks the circle of owners.
  void detach(bool tell) {
    connection_.reset();
    const auto closed = std::exchange(on_closed, nullptr);
    on_sent = nullptr;
    if (tell && closed) closed();
  }

 private:
  void finish(HttpConnection& connection, std::string_view bytes) {
    connection.answer_whole_ = true;
    detach(false);
    connection.write(bytes);
    if (!connection.writing_) connection.finish_answer();
  }

  std::weak_ptr<HttpConnection> connection_;
};

HttpConnection::HttpConnection(std::unique_ptr<HttpWire> wire, HttpShared& shared, std::string peer)
    : wire_(std::move(wire)), shared_(shared), peer_(std::move(peer)) {}

HttpConnection::~HttpConnection() { release_body(); }

void HttpConnection::start() {
  read_deadline_ = HttpClock::now() + shared_.options.client_timeout;
  wire_->handshake([self = shared_from_this()](boost::system::error_code error, size_t) {
    if (error) return self->close();
    self->next_request();
  });
}

void HttpConnection::refuse(int status, std::string_view message) {
  answer_and_close(shared_.handler->refusal(status, message));
}

void HttpConnection::close() {
  if (state_ == State::kClosed) return;
  state_ = State::kClosed;
  const auto self = shared_from_this();  // the handler may let go of the last owner
  answering_self_.reset();
  wire_->close();
  release_body();
  if (const auto exchange = std::exchange(exchange_, nullptr)) exchange->detach(true);
}

void HttpConnection::check_time(HttpClock::time_point now) {
  if (state_ == State::kClosed) return;
  if (now > write_deadline_) return close();
  if (now <= read_deadline_) return;
  if (state_ == State::kHeader || state_ == State::kBody) {
    read_deadline_ = HttpClock::time_point::max();
    return fail(408, "the request did not arrive in time; send it whole");
  }
  close();
}

void HttpConnection::read_more() {
  if (reading_ || state_ == State::kClosed) return;
  reading_ = true;
  wire_->read_some(boost::asio::buffer(piece_),
                   [self = shared_from_this()](boost::system::error_code error, size_t n) { self->on_read(error, n); });
}

void HttpConnection::on_read(boost::system::error_code error, size_t bytes) {
  reading_ = false;
  if (state_ == State::kClosed) return;
  if (error) return close();                         // while an answer is in the works this is a client that hung up
  if (state_ == State::kLinger) return read_more();  // thrown away
  in_.commit(boost::asio::buffer_copy(in_.prepare(bytes), boost::asio::buffer(piece_, bytes)));
  if (state_ == State::kAnswer) return read_ahead();
  parse();
}

void HttpConnection::read_ahead() {
  if (in_.size() < kMostAhead) read_more();
}

// Goes as far as the bytes that are here reach.
void HttpConnection::parse() {
  namespace http = boost::beast::http;
  if (state_ == State::kIdle) skip_empty_lines();
  if (state_ == State::kIdle && in_.size() > 0) {
    state_ = State::kHeader;
    read_deadline_ = HttpClock::now() + shared_.options.client_timeout;
    parser_.emplace();
    parser_->header_limit(static_cast<uint32_t>(shared_.options.max_header_bytes));
    parser_->body_limit(std::numeric_limits<uint64_t>::max());  // until admitted; Beast 1.74 takes none for nothing
    admitted_ = false;
  }
  while (state_ == State::kHeader || state_ == State::kBody) {
    if (in_.size() == 0) return read_more();
    boost::system::error_code error;
    in_.consume(parser_->put(in_.data(), error));
    if (error == http::error::need_more) {
      // Neither sizes of chunks nor trailers count as header or body, and both have to be here whole.
      if (in_.size() > shared_.options.max_header_bytes) return fail(431, "the headers or trailers are too long");
      return read_more();
    }
    if (error == http::error::header_limit) return fail(431, "the headers are too long");
    if (error == http::error::body_limit) return fail(413, fmt::format("the body exceeds {} bytes", body_limit_));
    if (error) return fail(400, fmt::format("this is no HTTP request: {}", error.message()));
    if (parser_->is_header_done() && !admitted_ && !parse_header_done()) return;
    if (parser_->is_done()) return dispatch();
  }
  read_more();
}

// Some clients send an empty line behind a body (RFC 9112, 2.2).
void HttpConnection::skip_empty_lines() {
  for (;;) {
    const auto* bytes = static_cast<const char*>(in_.data().data());
    if (in_.size() < 2 || bytes[0] != '\r' || bytes[1] != '\n') return;
    in_.consume(2);
  }
}

// Whether the body may follow.
bool HttpConnection::parse_header_done() {
  admitted_ = true;
  state_ = State::kBody;
  const auto& message = parser_->get();
  HttpHead head = head_of(message, peer_);
  chunked_ = message.version() >= 11;
  keep_alive_ = parser_->keep_alive();
  head_only_ = head.method == "HEAD";
  if (parser_->upgrade()) {
    fail(400, "this server does not upgrade connections");
    return false;
  }

  if (const auto ambiguous = find_ambiguity(message, parser_->chunked(), *shared_.handler)) {
    answer_and_close(*ambiguous);
    return false;
  }

  auto admitted = shared_.handler->admit(head);
  const auto length = parser_->content_length();
  const bool has_body = parser_->chunked() || length.value_or(0) > 0;
  if (const auto* refused = std::get_if<HttpResponse>(&admitted)) {
    if (has_body) {
      answer_and_close(*refused);
      return false;
    }
    exchange_ = std::make_shared<HttpConnectionExchange>(weak_from_this());
    state_ = State::kAnswer;
    read_deadline_ = HttpClock::time_point::max();
    std::shared_ptr<HttpConnectionExchange>(exchange_)->respond(*refused);
    return false;
  }
  body_limit_ = std::get<size_t>(admitted);
  if (length.value_or(0) > body_limit_) {
    fail(413, fmt::format("the body has {} bytes, at most {} are allowed", *length, body_limit_));
    return false;
  }
  parser_->body_limit(body_limit_);
  const size_t wanted = has_body ? (length ? static_cast<size_t>(*length) : body_limit_) : 0;
  if (wanted > shared_.options.max_body_total - shared_.body_bytes) {
    fail(503, "too many long requests are being read; try again soon");
    return false;
  }
  shared_.body_bytes += body_reserved_ = wanted;
  if (has_body && same_name(head.header("Expect"), "100-continue")) write("HTTP/1.1 100 Continue\r\n\r\n");
  return true;
}

void HttpConnection::dispatch() {
  state_ = State::kAnswer;
  read_deadline_ = HttpClock::time_point::max();
  answer_whole_ = false;
  auto message = parser_->release();
  parser_.reset();
  HttpHead head = head_of(message, peer_);
  exchange_ = std::make_shared<HttpConnectionExchange>(weak_from_this());
  answering_self_ = shared_from_this();
  read_ahead();
  shared_.handler->handle(std::move(head), std::move(message.body()), exchange_);
}

void HttpConnection::fail(int status, std::string_view message) {
  answer_and_close(shared_.handler->refusal(status, message));
}

void HttpConnection::answer_and_close(const HttpResponse& response) {
  keep_alive_ = false;
  answer_whole_ = true;
  state_ = State::kAnswer;
  write(head_text(response, response.body.size()) + (head_only_ ? std::string() : response.body));
}

// `length`: of the body; without, it is a stream.
std::string HttpConnection::head_text(const HttpResponse& response, std::optional<size_t> length) const {
  std::string out = fmt::format("HTTP/1.1 {} {}\r\n", response.status, status_text(response.status));
  if (!response.content_type.empty()) out += fmt::format("Content-Type: {}\r\n", response.content_type);
  if (length) {
    out += fmt::format("Content-Length: {}\r\n", *length);
  } else if (chunked_) {
    out += "Transfer-Encoding: chunked\r\n";
  }
  out += keep_alive_ ? "Connection: keep-alive\r\n" : "Connection: close\r\n";
  for (const auto& [name, value] : response.headers) out += fmt::format("{}: {}\r\n", name, value);
  return out + "\r\n";
}

void HttpConnection::write(std::string_view bytes) {
  if (state_ == State::kClosed || bytes.empty()) return;
  out_next_ += bytes;
  if (!writing_) write_more();
}

void HttpConnection::write_more() {
  if (out_done_ == out_.size()) {
    out_.clear();
    out_done_ = 0;
    out_.swap(out_next_);
  }
  writing_ = true;
  write_deadline_ = HttpClock::now() + shared_.options.client_timeout;
  wire_->write_some(boost::asio::buffer(out_.data() + out_done_, out_.size() - out_done_),
                    [self = shared_from_this()](boost::system::error_code e, size_t n) { self->on_written(e, n); });
}

void HttpConnection::on_written(boost::system::error_code error, size_t bytes) {
  writing_ = false;
  write_deadline_ = HttpClock::time_point::max();
  if (state_ == State::kClosed) return;
  if (error) return close();
  out_done_ += bytes;
  if (out_done_ < out_.size() || !out_next_.empty()) return write_more();
  out_.clear();
  out_done_ = 0;
  if (answer_whole_) return finish_answer();
  const auto exchange = exchange_;
  if (exchange && exchange->on_sent) std::function<void()>(exchange->on_sent)();
}

void HttpConnection::finish_answer() {
  if (state_ != State::kAnswer) return;
  const auto self = std::exchange(answering_self_, nullptr);
  exchange_.reset();
  release_body();
  if (keep_alive_) return next_request();
  linger();
}

void HttpConnection::next_request() {
  state_ = State::kIdle;
  answer_whole_ = false;
  read_deadline_ = HttpClock::now() + shared_.options.idle_timeout;
  if (in_.size() > 0) {
    parse();
  } else {
    read_more();
  }
}

// Closing while the client still sends would reset the connection and lose the answer, so what comes is thrown away
// for a while.
void HttpConnection::linger() {
  state_ = State::kLinger;
  parser_.reset();
  in_.clear();
  read_deadline_ = HttpClock::now() + kLingerTime;
  wire_->finish_writing();
  read_more();
}

void HttpConnection::release_body() { shared_.body_bytes -= std::exchange(body_reserved_, 0); }

}  // namespace dspark
