// See interrupt.h. The handler runs on whichever thread the signal reaches.
#include "tools/interrupt.h"

#include <unistd.h>

#include <atomic>

#include "base/check.h"
#include "tools/command.h"

namespace dspark {
namespace {

std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may only touch lock-free atomics");

void on_interrupt(int) {
  if (interrupted.exchange(true)) _exit(static_cast<int>(ExitCode::kInterrupted));
}

}  // namespace

InterruptScope::InterruptScope() {
  interrupted = false;
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  sigemptyset(&action.sa_mask);
  DSPARK_CHECK(sigaction(SIGINT, &action, &before_) == 0, "SIGINT cannot be handled");
}

InterruptScope::~InterruptScope() { sigaction(SIGINT, &before_, nullptr); }

bool InterruptScope::requested() const { return interrupted; }

void InterruptScope::clear() { interrupted = false; }

}  // namespace dspark
