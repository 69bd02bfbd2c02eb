// The texts of `dspark --help` and `dspark COMMAND --help`, made from the command table and the settings schema.
// Pure, any thread.
#pragma once

#include <string>

#include "tools/command.h"

namespace dspark {

std::string program_help();
std::string command_help(const CommandSpec& command);

// "--temp X" with its letter and value as help shows it, "-m, --model MODEL".
std::string flag_usage(const SettingSpec& spec);

}  // namespace dspark
