// See bus_error.h. The handler runs on the thread that read, and calls only what is safe in a signal handler.
#include "tools/bus_error.h"

#include <signal.h>
#include <unistd.h>

#include "base/check.h"
#include "tools/command.h"

namespace dspark {
namespace {

void on_bus_error(int) {
  constexpr char kLine[] =
      "dspark: a file lost bytes while it was read: another program truncated it, or its disk failed; replace model "
      "files by rename, then start again\n";
  (void)!::write(STDERR_FILENO, kLine, sizeof(kLine) - 1);
  ::_exit(static_cast<int>(ExitCode::kBadFile));
}

}  // namespace

void explain_bus_errors() {
  struct sigaction action = {};
  action.sa_handler = on_bus_error;
  DSPARK_CHECK(sigaction(SIGBUS, &action, nullptr) == 0, "SIGBUS cannot be handled");
}

}  // namespace dspark
