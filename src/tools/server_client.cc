// See server_client.h.
#include "tools/server_client.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/printable.h"
#include "tools/http_call.h"

namespace dspark {
namespace {

constexpr JsonLimits kLimits = {.max_bytes = 16 << 20, .max_depth = 16};

std::string url_of(const Settings& settings) {
  std::string host = settings.get<"host">();
  if (host == "0.0.0.0" || host == "::" || host.empty()) host = "localhost";
  if (host.find(':') != std::string::npos) host = "[" + host + "]";
  return fmt::format("{}://{}:{}", settings.get<"tls-cert">().empty() ? "http" : "https", host, settings.get<"port">());
}

}  // namespace

ServerClient::ServerClient(std::string url, std::string api_key, std::string trusted)
    : url_(std::move(url)), api_key_(std::move(api_key)), trusted_(std::move(trusted)) {}

Result<ServerClient> ServerClient::create(const Settings& settings, std::string url) {
  if (url.empty()) url = url_of(settings);
  if (!url.starts_with("http://") && !url.starts_with("https://")) {
    return make_error(ErrorCode::kInvalidArgument, "{}, expected a URL like http://127.0.0.1:8000", quote(url));
  }
  while (url.ends_with('/')) url.pop_back();
  return ServerClient(std::move(url), settings.get<"api-key">(), settings.get<"tls-cert">());
}

Result<std::string> ServerClient::call(std::string_view path, const std::string* body) const {
  auto answer = http_call(fmt::format("{}{}", url_, path), body == nullptr ? std::nullopt : std::optional(*body),
                          api_key_, trusted_);
  if (!answer.ok()) {
    return make_error(answer.error().code, "{}; is `dspark serve` running there? --host and --port say where",
                      answer.error().message);
  }
  if (answer->status == 200) return std::move(answer->body);
  std::string why = "no reason given";
  if (const auto json = parse_json(answer->body, url_, kLimits); json.ok()) {
    why = json->value("/error/message"_json_pointer, why);
  }
  const bool key = answer->status == 401 || answer->status == 403;
  const bool ours = key || answer->status == 400 || answer->status == 409;
  return make_error(ours ? ErrorCode::kInvalidArgument : ErrorCode::kUnavailable, "{} answers {}: {}{}", url_,
                    answer->status, printable(why, 400), key ? "; give a key with the right in DSPARK_API_KEY" : "");
}

Result<nlohmann::json> ServerClient::object(std::string_view path, const std::string* body) const {
  DSPARK_TRY(const std::string text, call(path, body));
  DSPARK_TRY(nlohmann::json json, parse_json(text, url_, kLimits));
  if (json.is_object()) return json;
  return make_error(ErrorCode::kUnavailable, "{} does not answer as dspark does", url_);
}

Result<nlohmann::json> ServerClient::get(std::string_view path) const { return object(path, nullptr); }

Result<nlohmann::json> ServerClient::post(std::string_view path, const nlohmann::json& body) const {
  const std::string text = body.dump();
  return object(path, &text);
}

Result<std::string> ServerClient::get_text(std::string_view path) const { return call(path, nullptr); }

}  // namespace dspark
