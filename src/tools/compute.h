// From the settings to what computes: the thread pool's options and the instruction set. Main thread.
#pragma once

#include "base/settings.h"
#include "base/thread_pool.h"
#include "kernels/isa.h"

namespace dspark {

ThreadPool::Options pool_options(const Settings& settings);
Result<Isa> chosen_isa(const Settings& settings);

}  // namespace dspark
