// What a failed DSPARK_CHECK does. Any thread.
#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace dspark {

void check_failed(const char* file, int line, const char* condition, const std::string& message) {
  std::fprintf(stderr, "dspark: bug at %s:%d: %s: %s\n", file, line, condition, message.c_str());
  std::abort();
}

}  // namespace dspark
