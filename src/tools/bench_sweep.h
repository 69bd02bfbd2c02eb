// `dspark bench sweep`: servers and settings side by side, for numbers of clients. Main thread.
#pragma once

#include "base/settings.h"
#include "tools/command.h"

namespace dspark {

// Runs scripts/bench_sweep.py, which lies beside the program, with these settings; it takes this process's place. Only
// returns where that fails: kNotFound for a missing script, kUnsupported without python3.
Result<ExitCode> bench_sweep(const Settings& settings);

}  // namespace dspark
