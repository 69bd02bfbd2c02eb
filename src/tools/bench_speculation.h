// `dspark bench speculation`: what guessing ahead brings on prompts, for numbers of clients, each way of guessing in
// turn. Main thread; the engines' workers compute.
#pragma once

#include "base/settings.h"
#include "tools/command.h"

namespace dspark {

Result<ExitCode> bench_speculation(const Settings& settings);

}  // namespace dspark
