// `dspark bench replay`: a recorded log played on these settings. Main thread; the engine's workers compute.
#pragma once

#include "base/settings.h"
#include "tools/command.h"

namespace dspark {

// Plays the whole of --access-log --repeats times, as `dspark tune` plays its busiest stretch, and once before for
// nobody.
Result<ExitCode> bench_replay(const Settings& settings);

}  // namespace dspark
