// See http_call.h.
#include "tools/http_call.h"

#include <fmt/format.h>

#include <memory>

#include "model/curl_api.h"
#include "model/fetch_url.h"

namespace dspark {
namespace {

constexpr size_t kMaxBytes = 16 << 20;
constexpr long kTimeoutSeconds = 30;

size_t append(char* data, size_t size, size_t count, void* out) {
  std::string& body = *static_cast<std::string*>(out);
  if (size * count > kMaxBytes - body.size()) return 0;
  body.append(data, size * count);
  return size * count;
}

}  // namespace

Result<HttpAnswer> http_call(const std::string& url, const std::optional<std::string>& body, const std::string& api_key,
                             const std::string& trusted) {
  DSPARK_TRY(const CurlApi* const api, curl_api());
  const std::unique_ptr<CURL, FreeCurl> curl(api->init(), FreeCurl{api});
  if (curl == nullptr) return make_error(ErrorCode::kInternal, "libcurl did not start");
  HttpAnswer answer;
  char message[CURL_ERROR_SIZE] = "";
  std::unique_ptr<curl_slist, FreeCurlList> headers(nullptr, FreeCurlList{api});
  if (!api_key.empty()) {
    headers.reset(api->slist_append(nullptr, fmt::format("Authorization: Bearer {}", api_key).c_str()));
  }
  if (body) headers.reset(api->slist_append(headers.release(), "Content-Type: application/json"));
  const auto set = [&](CURLoption option, auto value) { return api->setopt(curl.get(), option, value) == CURLE_OK; };
  bool ok = set(CURLOPT_URL, url.c_str()) && set(CURLOPT_PROTOCOLS_STR, "http,https") && set(CURLOPT_NOSIGNAL, 1L) &&
            set(CURLOPT_USERAGENT, "dspark") && set(CURLOPT_TIMEOUT, kTimeoutSeconds) && set(CURLOPT_PROXY, "") &&
            set(CURLOPT_ERRORBUFFER, message) && set(CURLOPT_WRITEFUNCTION, append) &&
            set(CURLOPT_WRITEDATA, static_cast<void*>(&answer.body)) && set(CURLOPT_HTTPHEADER, headers.get());
  if (body) {
    ok = ok && set(CURLOPT_POSTFIELDSIZE, static_cast<long>(body->size())) && set(CURLOPT_POSTFIELDS, body->c_str());
  }
  if (!trusted.empty()) ok = ok && set(CURLOPT_CAINFO, trusted.c_str());
  if (!ok) return make_error(ErrorCode::kInternal, "libcurl refused an option; is it older than 7.85?");
  const CURLcode code = api->perform(curl.get());
  if (code != CURLE_OK) {
    return make_error(ErrorCode::kUnavailable, "{}: {}", url_for_messages(url),
                      *message != 0 ? message : api->strerror(code));
  }
  long status = 0;
  api->getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &status);
  answer.status = static_cast<int>(status);
  return answer;
}

}  // namespace dspark
