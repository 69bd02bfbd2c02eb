// The entry point of the `dspark` command. Main thread.
#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>

#include "tools/bus_error.h"
#include "tools/cli.h"

namespace {

// Without a standard error a message would be an exception, and the next file that is opened would get its number.
void ensure_standard_error() {
  if (fcntl(STDERR_FILENO, F_GETFD) != -1) return;
  const int null = open("/dev/null", O_WRONLY);
  if (null != STDERR_FILENO && null >= 0) dup2(null, STDERR_FILENO);
}

// Large buffers that grow give their old memory back. As it is set out, the first one that is freed would move all
// later ones into the heap, whose holes stay resident.
void return_large_buffers() { mallopt(M_MMAP_THRESHOLD, 128 << 10); }

}  // namespace

int main(int argc, char** argv) {
  ensure_standard_error();
  return_large_buffers();
  dspark::explain_bus_errors();
  const std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
  std::vector<std::string> variables;
  for (char** line = environ; *line != nullptr; ++line) variables.emplace_back(*line);
  return dspark::run_command_line(arguments, variables);
}
