// Result<T>: the value of a call that may fail for reasons outside the program (files, requests, limits).
// Programmer errors use DSPARK_CHECK (check.h) instead. Any thread.
#pragma once

#include <string>
#include <utility>
#include <variant>

#include "base/check.h"

namespace dspark {

// What kind of failure it is; tools map it to an exit code, the server to an HTTP status.
enum class ErrorCode {
  kInvalidArgument,  // the caller's value is bad
  kNotFound,         // a file, model or name does not exist
  kCorrupt,          // a file or message breaks its format
  kUnsupported,      // valid, but not something this build can do
  kExhausted,        // out of memory, blocks or another bounded thing
  kCancelled,        // the caller stopped it
  kTooLong,          // a prompt beyond the context
  kBusy,             // the queue is full; later it may go
  kUnavailable,      // not ready yet, or shutting down
  kDeadline,         // the request's time is up
  kInternal,         // a bug or a broken machine
};

// One line for a person: it names the value found, the one expected, and what to do next.
struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & {
    DSPARK_CHECK(ok(), "value() of a failed Result: {}", error().message);
    return std::get<0>(state_);
  }
  const T& value() const& {
    DSPARK_CHECK(ok(), "value() of a failed Result: {}", error().message);
    return std::get<0>(state_);
  }
  T&& value() && {
    DSPARK_CHECK(ok(), "value() of a failed Result: {}", error().message);
    return std::get<0>(std::move(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const { return std::get<1>(state_); }

 private:
  std::variant<T, Error> state_;
};

// Success without a value.
struct Ok {};
using Status = Result<Ok>;

template <class... Args>
Error make_error(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  return Error{code, fmt::format(format, std::forward<Args>(args)...)};
}

}  // namespace dspark

#define DSPARK_CONCAT_INNER(a, b) a##b
#define DSPARK_CONCAT(a, b) DSPARK_CONCAT_INNER(a, b)

// DSPARK_TRY(auto x, call()): x is the value, or the enclosing function returns the error.
#define DSPARK_TRY(declaration, expression) DSPARK_TRY_IMPL(DSPARK_CONCAT(result_, __LINE__), declaration, expression)
#define DSPARK_TRY_IMPL(result, declaration, expression) \
  auto result = (expression);                            \
  if (!result.ok()) return result.error();               \
  declaration = std::move(result).value()

// DSPARK_RETURN_IF_ERROR(call()): for a Status.
#define DSPARK_RETURN_IF_ERROR(expression)                                                          \
  if (auto DSPARK_CONCAT(status_, __LINE__) = (expression); !DSPARK_CONCAT(status_, __LINE__).ok()) \
  return DSPARK_CONCAT(status_, __LINE__).error()
