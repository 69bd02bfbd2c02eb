// HttpConnection: one client's connection, from its first byte to its last (RFC 9112). Parses with Beast, writes plain
// bytes. For http_server.cc and http_connection.cc only. Network thread.
#pragma once

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "server/http.h"

namespace dspark {

using HttpClock = std::chrono::steady_clock;

// The bytes of a connection, plain or TLS.
class HttpWire {
 public:
  using Done = std::function<void(boost::system::error_code, size_t bytes)>;
  virtual ~HttpWire() = default;
  virtual void handshake(Done done) = 0;
  virtual void read_some(boost::asio::mutable_buffer buffer, Done done) = 0;
  virtual void write_some(boost::asio::const_buffer buffer, Done done) = 0;
  virtual void finish_writing() = 0;  // tells the peer that nothing follows
  virtual void close() = 0;           // ends all operations with an error
};

// What connections share.
struct HttpShared {
  HttpOptions options;
  HttpHandler* handler = nullptr;
  size_t body_bytes = 0;  // of options.max_body_total, reserved
};

class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  HttpConnection(std::unique_ptr<HttpWire> wire, HttpShared& shared, std::string peer);
  ~HttpConnection();

  void start();
  void refuse(int status, std::string_view message);  // instead of start()
  void close();
  // Closes the connection if its time is up; called a few times a second.
  void check_time(HttpClock::time_point now);
  bool answering() const { return state_ == State::kAnswer; }

 private:
  friend class HttpConnectionExchange;
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;
  enum class State { kIdle, kHeader, kBody, kAnswer, kLinger, kClosed };

  void read_more();
  void read_ahead();
  void on_read(boost::system::error_code error, size_t bytes);
  void parse();
  void skip_empty_lines();
  bool parse_header_done();
  void dispatch();
  void fail(int status, std::string_view message);
  void answer_and_close(const HttpResponse& response);
  std::string head_text(const HttpResponse& response, std::optional<size_t> length) const;
  void write(std::string_view bytes);
  void write_more();
  void on_written(boost::system::error_code error, size_t bytes);
  void finish_answer();
  void next_request();
  void linger();
  void release_body();

  std::unique_ptr<HttpWire> wire_;
  HttpShared& shared_;
  std::string peer_;
  State state_ = State::kIdle;
  std::array<char, 16 << 10> piece_;  // what is being read; `in_` may be parsed meanwhile
  boost::beast::flat_buffer in_;
  std::optional<Parser> parser_;
  bool reading_ = false;
  bool admitted_ = false;
  size_t body_limit_ = 0;
  size_t body_reserved_ = 0;
  bool keep_alive_ = false;
  bool chunked_ = true;        // how a stream is framed; HTTP/1.0 ends it by closing
  bool head_only_ = false;     // HEAD
  bool answer_whole_ = false;  // all bytes of the answer were given to write()
  std::string out_;            // being written, from out_done_ on
  size_t out_done_ = 0;
  std::string out_next_;
  bool writing_ = false;
  HttpClock::time_point read_deadline_ = HttpClock::time_point::max();
  HttpClock::time_point write_deadline_ = HttpClock::time_point::max();
  std::shared_ptr<class HttpConnectionExchange> exchange_;
  // Itself, from a request to the end of its answer: where the next request has come already, nothing is being read or
  // written that would keep the connection.
  std::shared_ptr<HttpConnection> answering_self_;
};

}  // namespace dspark
