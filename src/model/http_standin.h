// HttpStandin: runs tests/http_standin.py while it lives. For tests only; one thread.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>  // NOLINT: kill is POSIX
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace dspark {

class HttpStandin {
 public:
  HttpStandin() = default;
  HttpStandin(const HttpStandin&) = delete;
  HttpStandin& operator=(const HttpStandin&) = delete;
  ~HttpStandin() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  void start(std::string folder, std::string log) {
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    std::string python = "python3";
    std::string script = DSPARK_TEST_DATA "/../http_standin.py";
    char* const arguments[] = {python.data(), script.data(), folder.data(), log.data(), nullptr};
    ASSERT_EQ(posix_spawnp(&pid_, python.c_str(), &actions, nullptr, arguments, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    char c = 0;
    while (::read(ends[0], &c, 1) == 1 && c != '\n') port_ += c;
    ::close(ends[0]);
    ASSERT_FALSE(port_.empty()) << "tests/http_standin.py did not start";
  }

  std::string url(const std::string& path) const { return "http://127.0.0.1:" + port_ + path; }

 private:
  pid_t pid_ = -1;
  std::string port_;
};

}  // namespace dspark
