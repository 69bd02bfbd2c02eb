// DSPARK_CHECK: programmer errors end the process with the values in the message. Any thread.
#pragma once

#include <fmt/format.h>

#include <string>

namespace dspark {

[[noreturn]] void check_failed(const char* file, int line, const char* condition, const std::string& message);

}  // namespace dspark

#define DSPARK_CHECK(condition, ...)      \
  (static_cast<bool>(condition) ? (void)0 \
                                : ::dspark::check_failed(__FILE__, __LINE__, #condition, fmt::format(__VA_ARGS__)))
