// How long work tells its caller how far it is, and learns that it should stop. The callee's thread calls it.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace dspark {

// `what` is being done, `done` of `total` bytes (0: not known) are there. Returning false cancels the work, which then
// fails with kCancelled. An empty function is allowed.
using ReportProgress = std::function<bool(std::string_view what, int64_t done, int64_t total)>;

// False if the caller wants to stop.
inline bool report(const ReportProgress& progress, std::string_view what, int64_t done, int64_t total) {
  return !progress || progress(what, done, total);
}

}  // namespace dspark
