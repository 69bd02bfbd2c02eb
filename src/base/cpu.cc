// See cpu.h. Any thread.
#include "base/cpu.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>

namespace dspark {

int physical_cores(const std::vector<int>& cpus, const std::string& cpu_folder) {
  std::set<std::string> cores;
  for (const int cpu : cpus) {
    std::ifstream file(fmt::format("{}/cpu{}/topology/thread_siblings_list", cpu_folder, cpu));
    std::string siblings;
    if (!std::getline(file, siblings)) siblings = fmt::format("{}", cpu);
    cores.insert(siblings);
  }
  return static_cast<int>(cores.size());
}

int cgroup_cpus(const std::string& cpu_max_file) {
  std::ifstream file(cpu_max_file);
  double quota_us = 0, period_us = 0;  // "max" is no number
  if (!(file >> quota_us >> period_us) || quota_us <= 0 || period_us <= 0) return 0;
  return static_cast<int>(std::ceil(std::min(quota_us / period_us, 1e6)));
}

std::string cpu_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown processor";
}

int usable_cores() {
  std::vector<int> cpus;
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &allowed)) cpus.push_back(cpu);
    }
  }
  const int cores = std::max(1, physical_cores(cpus, "/sys/devices/system/cpu"));
  const int limit = cgroup_cpus("/sys/fs/cgroup/cpu.max");
  return limit > 0 ? std::min(cores, limit) : cores;
}

}  // namespace dspark
