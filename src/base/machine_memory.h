// How much memory this process may use. Reads the system once a call; any thread.
#pragma once

#include <cstdint>

namespace dspark {

// The machine's memory, or its control group's limit (cgroup v2) where that is less; bytes.
int64_t machine_memory_bytes();

}  // namespace dspark
