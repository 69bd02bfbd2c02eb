// ApiError: what a caller hears when a request fails, in OpenAI's shape. Pure, any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "server/http.h"

namespace dspark {

struct ApiError {
  int status = 400;
  std::string message = {};
  std::string param = {};  // the field at fault; empty: null
  std::string code = {};   // "context_length_exceeded"; empty: null
  int retry_after_s = 0;   // 0: no Retry-After
};

// From a failed call of the engine: kInvalidArgument is 400, kTooLong 400 with code context_length_exceeded, kBusy 429,
// kUnavailable 503, kDeadline 504, the rest 500.
ApiError api_error(const Error& error);

// {"error": {"message", "type", "param", "code"}}; the type follows from the status.
nlohmann::ordered_json error_json(const ApiError& error);
HttpResponse error_response(const ApiError& error);

// A bad field: "temperature: found 3000, expected a number from 0 to 1000".
ApiError bad_field(std::string_view field, std::string_view found, std::string_view expected);
// The same of a value that would change the answer and is not supported, with the reason.
ApiError unsupported_field(std::string_view field, std::string_view found, std::string_view expected,
                           std::string_view why);

// JSON text whatever the bytes: what is not UTF-8 becomes U+FFFD.
std::string dump_json(const nlohmann::ordered_json& json);
// `text` as a JSON string with its quotes, appended.
void append_json_string(std::string& out, std::string_view text);

}  // namespace dspark
