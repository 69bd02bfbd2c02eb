// The log: one line an event on standard error, through spdlog. Any thread; set_log_level once at the start.
#pragma once

#include <fmt/format.h>

#include <string_view>

namespace dspark {

enum class LogLevel { kError, kWarning, kInfo, kDebug };

// Events below `level` are dropped before they are formatted. Until it is called: kWarning.
void set_log_level(LogLevel level);
bool log_enabled(LogLevel level);
void log_line(LogLevel level, std::string_view message);

template <class... Args>
void log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(level)) log_line(level, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace dspark
