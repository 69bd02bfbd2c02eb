// See machine_memory.h.
#include "base/machine_memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace dspark {

int64_t machine_memory_bytes() {
  const int64_t bytes = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  std::ifstream limit_file("/sys/fs/cgroup/memory.max");
  int64_t limit = 0;
  return limit_file >> limit && limit > 0 ? std::min(bytes, limit) : bytes;  // "max" is no number
}

}  // namespace dspark
