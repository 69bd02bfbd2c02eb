// See curl_api.h.
#include "model/curl_api.h"

#include "base/shared_library.h"

namespace dspark {
namespace {

Result<CurlApi> load() {
  DSPARK_TRY(const SharedLibrary library, SharedLibrary::open("libcurl.so.4", "libcurl4"));
  CurlApi api;
  CURLcode (*start)(long) = nullptr;
  DSPARK_RETURN_IF_ERROR(library.bind("curl_global_init", start));
  DSPARK_RETURN_IF_ERROR(library.bind("curl_easy_init", api.init));
  DSPARK_RETURN_IF_ERROR(library.bind("curl_easy_cleanup", api.cleanup));
  DSPARK_RETURN_IF_ERROR(library.bind("curl_easy_perform", api.perform));
  DSPARK_RETURN_IF_ERROR(library.bind("curl_easy_setopt", api.setopt));
  DSPARK_RETURN_IF_ERROR(library.bind("curl_easy_getinfo", api.getinfo));
  DSPARK_RETURN_IF_ERROR(library.bind("curl_easy_strerror", api.strerror));
  DSPARK_RETURN_IF_ERROR(library.bind("curl_slist_append", api.slist_append));
  DSPARK_RETURN_IF_ERROR(library.bind("curl_slist_free_all", api.slist_free_all));
  if (start(CURL_GLOBAL_DEFAULT) != CURLE_OK) return make_error(ErrorCode::kInternal, "libcurl did not start");
  return api;
}

}  // namespace

Result<const CurlApi*> curl_api() {
  static const Result<CurlApi> api = load();
  if (!api.ok()) return api.error();
  return &*api;
}

}  // namespace dspark
