// How many threads are worth starting on this machine. Reads the system once a call; any thread.
#pragma once

#include <string>
#include <vector>

namespace dspark {

// Physical cores that this process may use: those of its affinity mask, hyperthreads of one core counted once, and no
// more than its control group's CPU limit (rounded up). At least 1.
int usable_cores();

// The processor's name as the kernel shows it; "unknown processor" where it does not.
std::string cpu_name();

// The parts of it, with the folders that the kernel shows them in as arguments.
// Cores behind `cpus`, by DIR/cpuN/topology/thread_siblings_list; a CPU without that file counts as a core.
int physical_cores(const std::vector<int>& cpus, const std::string& cpu_folder);
// The limit in `cpu_max_file` ("max 100000" or "150000 100000", cgroup v2), in CPUs rounded up; 0 if there is none.
int cgroup_cpus(const std::string& cpu_max_file);

}  // namespace dspark
