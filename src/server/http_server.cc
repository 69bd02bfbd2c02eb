// HttpServer of http.h: listening, accepting, the network thread. The only file besides http_connection.cc that knows
// Boost.
#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/steady_timer.hpp>
#include <thread>

#include "base/log.h"
#include "base/printable.h"
#include "server/http_connection.h"

namespace dspark {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using Tcp = asio::ip::tcp;

constexpr auto kSweepTime = std::chrono::milliseconds(200);

class PlainWire final : public HttpWire {
 public:
  explicit PlainWire(Tcp::socket socket) : socket_(std::move(socket)) {}
  void handshake(Done done) override { done({}, 0); }
  void read_some(asio::mutable_buffer buffer, Done done) override { socket_.async_read_some(buffer, std::move(done)); }
  void write_some(asio::const_buffer buffer, Done done) override { socket_.async_write_some(buffer, std::move(done)); }
  void finish_writing() override {
    error_code ignored;
    socket_.shutdown(Tcp::socket::shutdown_send, ignored);
  }
  void close() override {
    error_code ignored;
    socket_.close(ignored);
  }

 private:
  Tcp::socket socket_;
};

class TlsWire final : public HttpWire {
 public:
  TlsWire(Tcp::socket socket, asio::ssl::context& context) : stream_(std::move(socket), context) {}
  void handshake(Done done) override {
    stream_.async_handshake(asio::ssl::stream_base::server,
                            [done = std::move(done)](error_code error) { done(error, 0); });
  }
  void read_some(asio::mutable_buffer buffer, Done done) override { stream_.async_read_some(buffer, std::move(done)); }
  void write_some(asio::const_buffer buffer, Done done) override { stream_.async_write_some(buffer, std::move(done)); }
  // A close_notify would be one more thing to wait for; every answer says itself where it ends.
  void finish_writing() override {
    error_code ignored;
    stream_.lowest_layer().shutdown(Tcp::socket::shutdown_send, ignored);
  }
  void close() override {
    error_code ignored;
    stream_.lowest_layer().close(ignored);
  }

 private:
  asio::ssl::stream<Tcp::socket> stream_;
};

Result<std::unique_ptr<asio::ssl::context>> tls_context(const HttpOptions& options) {
  if (options.tls_certificate.empty() && options.tls_key.empty()) return std::unique_ptr<asio::ssl::context>();
  if (options.tls_certificate.empty() || options.tls_key.empty()) {
    return make_error(ErrorCode::kInvalidArgument,
                      "TLS needs both a certificate and a key; give --tls-cert and --tls-key");
  }
  auto context = std::make_unique<asio::ssl::context>(asio::ssl::context::tls_server);
  error_code error;
  context->set_options(asio::ssl::context::default_workarounds | asio::ssl::context::no_sslv2 |
                           asio::ssl::context::no_sslv3 | asio::ssl::context::no_tlsv1 | asio::ssl::context::no_tlsv1_1,
                       error);
  if (!error) context->use_certificate_chain_file(options.tls_certificate, error);
  if (error) {
    return make_error(ErrorCode::kInvalidArgument, "cannot use {} as a certificate in PEM: {}",
                      quote(options.tls_certificate), error.message());
  }
  context->use_private_key_file(options.tls_key, asio::ssl::context::pem, error);
  if (error) {
    return make_error(ErrorCode::kInvalidArgument, "cannot use {} as the private key in PEM of that certificate: {}",
                      quote(options.tls_key), error.message());
  }
  return context;
}

}  // namespace

struct HttpServer::Impl {
  Impl() : io(1), work(io.get_executor()), acceptor(io), sweep(io) {}

  Status open() {
    error_code error;
    Tcp::resolver resolver(io);
    const auto found =
        resolver.resolve(shared.options.host, std::to_string(shared.options.port), Tcp::resolver::passive, error);
    const auto fails = [&](std::string_view what) {
      return make_error(ErrorCode::kInvalidArgument, "cannot {} {}:{}: {}; choose another --host or --port", what,
                        printable(shared.options.host), shared.options.port, error.message());
    };
    if (error || found.empty()) return fails("resolve");
    const Tcp::endpoint endpoint = found.begin()->endpoint();
    acceptor.open(endpoint.protocol(), error);
    if (!error) acceptor.set_option(Tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor.bind(endpoint, error);
    if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
    if (error) return fails("listen on");
    port = acceptor.local_endpoint().port();
    return Ok{};
  }

  void accept() {
    acceptor.async_accept([this](error_code error, Tcp::socket socket) {
      if (error == asio::error::operation_aborted || !acceptor.is_open()) return;
      if (error) {  // out of file descriptors, most likely: some will come back
        log(LogLevel::kWarning, "cannot accept a connection: {}", error.message());
        accept_later();
        return;
      }
      welcome(std::move(socket));
      accept();
    });
  }

  void accept_later() {
    auto timer = std::make_shared<asio::steady_timer>(io, kSweepTime);
    timer->async_wait([this, timer](error_code error) {
      if (!error) accept();
    });
  }

  void welcome(Tcp::socket socket) {
    error_code error;
    socket.set_option(Tcp::no_delay(true), error);
    const auto peer = socket.remote_endpoint(error);
    if (error) return;  // gone already
    if (connections.size() >= shared.options.max_connections) forget_closed();
    const bool full = connections.size() >= shared.options.max_connections;
    if (full && tls) return;
    std::unique_ptr<HttpWire> wire;
    if (tls) {
      wire = std::make_unique<TlsWire>(std::move(socket), *tls);
    } else {
      wire = std::make_unique<PlainWire>(std::move(socket));
    }
    const auto connection = std::make_shared<HttpConnection>(std::move(wire), shared, peer.address().to_string());
    connections.push_back(connection);
    if (full) return connection->refuse(503, "too many connections; try again soon");
    connection->start();
  }

  void forget_closed() {
    std::erase_if(connections, [](const auto& connection) { return connection.expired(); });
  }

  void sweep_later() {
    sweep.expires_after(kSweepTime);
    sweep.async_wait([this](error_code error) {
      if (error) return;
      forget_closed();
      const auto now = HttpClock::now();
      for (const auto& weak : std::vector(connections)) {
        if (const auto connection = weak.lock()) connection->check_time(now);
      }
      sweep_later();
    });
  }

  // The network thread. An exception that nobody expected costs the work that threw it, not the server.
  void run() {
    for (;;) {
      try {
        io.run();
        return;
      } catch (const std::exception& error) {
        log(LogLevel::kError, "the network thread: {}", error.what());
      }
    }
  }

  void close_all() {
    error_code ignored;
    acceptor.close(ignored);
    sweep.cancel();
    for (const auto& weak : std::vector(connections)) {
      if (const auto connection = weak.lock()) connection->close();
    }
    io.stop();
  }

  HttpShared shared;
  asio::io_context io;
  asio::executor_work_guard<asio::io_context::executor_type> work;
  std::unique_ptr<asio::ssl::context> tls;
  Tcp::acceptor acceptor;
  asio::steady_timer sweep;
  std::vector<std::weak_ptr<HttpConnection>> connections;
  int port = 0;
  std::thread thread;
};

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpServer::~HttpServer() { stop(); }

Result<std::unique_ptr<HttpServer>> HttpServer::listen(const HttpOptions& options) {
  auto impl = std::make_unique<Impl>();
  impl->shared.options = options;
  DSPARK_TRY(impl->tls, tls_context(options));
  DSPARK_RETURN_IF_ERROR(impl->open());
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

void HttpServer::start(HttpHandler& handler) {
  impl_->shared.handler = &handler;
  impl_->accept();
  impl_->sweep_later();
  impl_->thread = std::thread([impl = impl_.get()] { impl->run(); });
}

void HttpServer::stop() {
  if (!impl_->thread.joinable()) return;
  post([impl = impl_.get()] { impl->close_all(); });
  impl_->thread.join();
}

int HttpServer::port() const { return impl_->port; }
size_t HttpServer::connections() const { return impl_->connections.size(); }

size_t HttpServer::answering() const {
  return static_cast<size_t>(std::count_if(impl_->connections.begin(), impl_->connections.end(), [](const auto& weak) {
    const auto connection = weak.lock();
    return connection && connection->answering();
  }));
}

void HttpServer::post(std::function<void()> work) { asio::post(impl_->io, std::move(work)); }

void HttpServer::after(std::chrono::milliseconds delay, std::function<void()> work) {
  auto timer = std::make_shared<asio::steady_timer>(impl_->io, delay);
  timer->async_wait([timer, work = std::move(work)](error_code error) {
    if (!error) work();
  });
}

}  // namespace dspark
