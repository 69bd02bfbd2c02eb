// The command line of `dspark`: finds the command, parses its flags by the settings schema, runs it, and turns its
// result into an exit code. Main thread.
#pragma once

#include <string>
#include <vector>

namespace dspark {

// Runs `dspark ARGUMENTS...` and returns the process's exit code. `environment` has "NAME=value" lines.
int run_command_line(const std::vector<std::string>& arguments, const std::vector<std::string>& environment);

}  // namespace dspark
