// The entry point of the `dspark` command. Main thread.
#include <unistd.h>

#include "tools/bus_error.h"
#include "tools/cli.h"

int main(int argc, char** argv) {
  dspark::explain_bus_errors();
  const std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
  std::vector<std::string> variables;
  for (char** line = environ; *line != nullptr; ++line) variables.emplace_back(*line);
  return dspark::run_command_line(arguments, variables);
}
