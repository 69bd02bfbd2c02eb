// One HTTP(S) request of a command to a running server, over libcurl. Blocking; main thread.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"

namespace dspark {

struct HttpAnswer {
  int status = 0;
  std::string body;
};

// GET, or POST of `body` as JSON. `api_key` goes along as a bearer token unless it is empty; `trusted`: a file of
// certificates in PEM instead of the system's, or empty. kUnavailable if there is no answer within some seconds. At
// most 16 MiB are read.
Result<HttpAnswer> http_call(const std::string& url, const std::optional<std::string>& body, const std::string& api_key,
                             const std::string& trusted);

}  // namespace dspark
