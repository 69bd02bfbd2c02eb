// SocketClient: a bare TCP client, for tests that must send what no proper HTTP client would. Tests only, one thread.
#pragma once

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <string_view>
#include <utility>

#include "base/check.h"

namespace dspark {

struct ClientResponse {
  int status = 0;  // 0: none came
  std::string head;
  std::string body;  // chunks joined
};

class SocketClient {
 public:
  explicit SocketClient(int port, int receive_buffer = 0) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    if (receive_buffer > 0) setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    DSPARK_CHECK(connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0, "cannot connect");
  }
  ~SocketClient() { hang_up(); }
  SocketClient(const SocketClient&) = delete;
  SocketClient& operator=(const SocketClient&) = delete;

  void hang_up() {
    if (fd_ >= 0) close(std::exchange(fd_, -1));
  }

  // False when the other side does not take it any more.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }

  // Reads until `text` has come; false at the end, or after some seconds without it. What came stays in received().
  bool read_until(std::string_view text, int timeout_ms = 20'000) {
    while (received_.find(text) == std::string::npos) {
      if (!read_some(timeout_ms)) return false;
    }
    return true;
  }
  void read_to_end() {
    while (read_some(20'000)) {
    }
  }
  std::string& received() { return received_; }

  // The next response, whole.
  ClientResponse response() {
    ClientResponse out;
    if (!read_until("\r\n\r\n")) return out;
    size_t end = received_.find("\r\n\r\n") + 4;
    out.head = received_.substr(0, end);
    received_.erase(0, end);
    out.status = std::stoi(out.head.substr(9, 3));
    if (out.head.find("chunked") != std::string::npos) {
      for (;;) {
        if (!read_until("\r\n")) return out;
        const size_t size = std::stoul(received_, nullptr, 16);
        received_.erase(0, received_.find("\r\n") + 2);
        while (received_.size() < size + 2 && read_some(20'000)) {
        }
        out.body += received_.substr(0, size);
        received_.erase(0, size + 2);
        if (size == 0) return out;
      }
    }
    const size_t at = out.head.find("Content-Length: ");
    const size_t size = at == std::string::npos ? 0 : std::stoul(out.head.substr(at + 16));
    while (received_.size() < size && read_some(20'000)) {
    }
    out.body = received_.substr(0, size);
    received_.erase(0, size);
    return out;
  }

 private:
  bool read_some(int timeout_ms) {
    pollfd wait{fd_, POLLIN, 0};
    if (poll(&wait, 1, timeout_ms) <= 0) return false;
    char bytes[16384];
    const ssize_t got = recv(fd_, bytes, sizeof(bytes), 0);
    if (got <= 0) return false;
    received_.append(bytes, static_cast<size_t>(got));
    return true;
  }

  int fd_;
  std::string received_;
};

}  // namespace dspark
