// See compute.h. Main thread.
#include "tools/compute.h"

#include "base/cpu.h"

namespace dspark {

ThreadPool::Options pool_options(const Settings& settings) {
  const int64_t threads = settings.get<"threads">();
  return {.threads = threads == 0 ? usable_cores() : static_cast<int>(threads), .pin = settings.get<"pin">()};
}

Result<Isa> chosen_isa(const Settings& settings) { return isa_from_name(settings.get<"isa">()); }

}  // namespace dspark
