// Downloads over HTTP(S) that continue where they stopped, over libcurl. Blocking; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/report.h"
#include "base/result.h"
#include "base/sha256.h"

namespace dspark {

// Fetches `url` (http or https, redirects followed) to the file `target`.
//
// The bytes go to "TARGET.part", which is renamed when it is whole and, if `expected` is given, has that digest. A
// .part that is there already is continued with a Range request, on condition (If-Range) that the server still has the
// same file by ETag or Last-Modified; where it has not, names neither, or knows no ranges, the download starts again.
// A broken connection is tried again a few times while bytes keep coming.
//
// The caller makes sure that only one fetch at a time has this target. Progress is in bytes of the file.
Status fetch_url(const std::string& url, const std::string& target, const std::optional<Sha256Digest>& expected,
                 const ReportProgress& progress);

// `url` fit for messages: without user, password, query and fragment, which may hold secrets.
std::string url_for_messages(std::string_view url);

// Digest of a file's bytes, with progress.
Result<Sha256Digest> sha256_of_file(const std::string& path, std::string_view what, const ReportProgress& progress);

}  // namespace dspark
