// The functions of libcurl that dspark calls, from the library as loaded at the first request. Any thread.
#pragma once

#include <curl/curl.h>

#include "base/result.h"

namespace dspark {

struct CurlApi {
  decltype(&::curl_easy_init) init = nullptr;
  decltype(&::curl_easy_cleanup) cleanup = nullptr;
  decltype(&::curl_easy_perform) perform = nullptr;
  decltype(&::curl_easy_setopt) setopt = nullptr;
  decltype(&::curl_easy_getinfo) getinfo = nullptr;
  decltype(&::curl_easy_strerror) strerror = nullptr;
  decltype(&::curl_slist_append) slist_append = nullptr;
  decltype(&::curl_slist_free_all) slist_free_all = nullptr;
};

// Loaded and started once; the same answer, or the same error, ever after.
Result<const CurlApi*> curl_api();

struct FreeCurl {
  const CurlApi* api = nullptr;
  void operator()(CURL* curl) const { api->cleanup(curl); }
};
struct FreeCurlList {
  const CurlApi* api = nullptr;
  void operator()(curl_slist* list) const { api->slist_free_all(list); }
};

}  // namespace dspark
