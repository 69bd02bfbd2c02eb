// See interrupt.h. The handler runs on whichever thread the signal reaches.
#include "tools/interrupt.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "base/check.h"
#include "tools/command.h"

namespace dspark {
namespace {

std::atomic<bool> interrupted{false};
std::atomic<int> wake_pipe{-1};
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free,
              "a signal handler may only touch lock-free atomics");

void on_interrupt(int) {
  const int saved = errno;
  if (interrupted.exchange(true)) _exit(static_cast<int>(ExitCode::kInterrupted));
  const char byte = 0;
  [[maybe_unused]] const ssize_t written = write(wake_pipe, &byte, 1);  // full means awake already
  errno = saved;
}

}  // namespace

InterruptScope::InterruptScope(bool and_terminate) : and_terminate_(and_terminate) {
  DSPARK_CHECK(wake_pipe == -1, "a second InterruptScope");
  DSPARK_CHECK(pipe2(pipe_, O_CLOEXEC | O_NONBLOCK) == 0, "no pipe: errno {}", errno);
  interrupted = false;
  wake_pipe = pipe_[1];
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  DSPARK_CHECK(sigaction(SIGINT, &action, &before_) == 0, "SIGINT cannot be handled");
  if (and_terminate_) DSPARK_CHECK(sigaction(SIGTERM, &action, &before_terminate_) == 0, "SIGTERM cannot be handled");
}

InterruptScope::~InterruptScope() {
  sigaction(SIGINT, &before_, nullptr);
  if (and_terminate_) sigaction(SIGTERM, &before_terminate_, nullptr);
  wake_pipe = -1;
  close(pipe_[0]);
  close(pipe_[1]);
}

bool InterruptScope::requested() const { return interrupted; }

void InterruptScope::clear() {
  char bytes[16];
  while (read(pipe_[0], bytes, sizeof(bytes)) > 0) {
  }
  interrupted = false;
}

}  // namespace dspark
