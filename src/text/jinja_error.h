// The exception of the template interpreter. It is thrown by the files jinja_* only and never leaves them:
// ChatTemplate (chat_template.h) turns it into a Result. An interpreter fails at any depth of two recursions, the
// template's and its own; an exception keeps a hundred small filters free of plumbing. Any thread.
#pragma once

#include <fmt/format.h>

#include <exception>
#include <string>
#include <utility>

#include "base/result.h"

namespace dspark::jinja {

struct TemplateError : std::exception {
  TemplateError(ErrorCode error_code, int error_line, std::string text)
      : code(error_code), line(error_line), message(std::move(text)) {}
  const char* what() const noexcept override { return message.c_str(); }

  ErrorCode code;
  int line;  // 1 is the first; 0: the line that the interpreter is at
  std::string message;
};

// A failure while rendering, in the words of Python where Python has some.
template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw TemplateError(ErrorCode::kInvalidArgument, 0, fmt::format(format, std::forward<Args>(args)...));
}

// A template that cannot be parsed.
template <class... Args>
[[noreturn]] void fail_syntax(int line, fmt::format_string<Args...> format, Args&&... args) {
  throw TemplateError(ErrorCode::kCorrupt, line, fmt::format(format, std::forward<Args>(args)...));
}

// A limit of jinja_limits.h that the template ran into.
template <class... Args>
[[noreturn]] void fail_limit(fmt::format_string<Args...> format, Args&&... args) {
  throw TemplateError(ErrorCode::kExhausted, 0, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace dspark::jinja
