// See api_error.h.
#include "server/api_error.h"

#include <nlohmann/json.hpp>

namespace dspark {
namespace {

const char* error_type(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 429:
      return "rate_limit_error";
    default:
      return status < 500 ? "invalid_request_error" : "server_error";
  }
}

}  // namespace

ApiError api_error(const Error& error) {
  switch (error.code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kCorrupt:
    case ErrorCode::kUnsupported:
    case ErrorCode::kNotFound:
      return {.status = 400, .message = error.message};
    case ErrorCode::kTooLong:
      return {.status = 400, .message = error.message, .code = "context_length_exceeded"};
    case ErrorCode::kBusy:
      return {.status = 429, .message = error.message, .code = "queue_full", .retry_after_s = 1};
    case ErrorCode::kUnavailable:
    case ErrorCode::kExhausted:
      return {.status = 503, .message = error.message, .code = "unavailable", .retry_after_s = 1};
    case ErrorCode::kDeadline:
      return {.status = 504, .message = error.message, .code = "deadline_exceeded"};
    case ErrorCode::kCancelled:
      return {.status = 500, .message = error.message, .code = "cancelled"};
    case ErrorCode::kInternal:
      break;
  }
  return {.status = 500, .message = error.message, .code = "internal_error"};
}

nlohmann::ordered_json error_json(const ApiError& error) {
  const auto or_null = [](const std::string& text) {
    return text.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(text);
  };
  return {{"error",
           {{"message", error.message},
            {"type", error_type(error.status)},
            {"param", or_null(error.param)},
            {"code", or_null(error.code)}}}};
}

HttpResponse error_response(const ApiError& error) {
  HttpResponse response{.status = error.status, .body = dump_json(error_json(error))};
  if (error.retry_after_s > 0) response.headers.emplace_back("Retry-After", std::to_string(error.retry_after_s));
  if (error.status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

ApiError bad_field(std::string_view field, std::string_view found, std::string_view expected) {
  return {.status = 400,
          .message = fmt::format("{}: found {}, expected {}", field, found, expected),
          .param = std::string(field),
          .code = "invalid_value"};
}

ApiError unsupported_field(std::string_view field, std::string_view found, std::string_view expected,
                           std::string_view why) {
  ApiError error = bad_field(field, found, expected);
  error.message += fmt::format("; {}", why);
  error.code = "unsupported_parameter";
  return error;
}

std::string dump_json(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

void append_json_string(std::string& out, std::string_view text) {
  bool plain = true;
  for (const char c : text) plain &= c >= 0x20 && c != '"' && c != '\\' && static_cast<unsigned char>(c) < 0x7F;
  if (plain) {
    out.append("\"").append(text).append("\"");
  } else {
    out += dump_json(std::string(text));
  }
}

}  // namespace dspark
