// ServerClient: what commands ask a running `dspark serve`. Blocking; main thread.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "base/settings.h"

namespace dspark {

class ServerClient {
 public:
  // The server at `url`; "": the one that these settings would start, as this machine reaches it.
  static Result<ServerClient> create(const Settings& settings, std::string url);

  // The JSON object of an answer with status 200. Errors name the server's reason: kInvalidArgument for keys and for
  // what was asked wrongly, kUnavailable where nobody answers as dspark does.
  Result<nlohmann::json> get(std::string_view path) const;
  Result<nlohmann::json> post(std::string_view path, const nlohmann::json& body) const;
  // The text of an answer with status 200.
  Result<std::string> get_text(std::string_view path) const;

  const std::string& url() const { return url_; }

 private:
  ServerClient(std::string url, std::string api_key, std::string trusted);
  Result<std::string> call(std::string_view path, const std::string* body) const;
  Result<nlohmann::json> object(std::string_view path, const std::string* body) const;

  std::string url_, api_key_, trusted_;
};

}  // namespace dspark
