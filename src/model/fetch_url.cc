// libcurl's easy interface behind fetch_url.h.
#include "model/fetch_url.h"

#include <strings.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>
#include <vector>

#include "base/cache_dir.h"
#include "base/printable.h"
#include "model/curl_api.h"

namespace dspark {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxBarrenAttempts = 5;  // in a row without a new byte, once the server has answered with some

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

int64_t size_or_zero(const std::string& path) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  return error ? 0 : static_cast<int64_t>(size);
}

std::string first_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

// One request, from what is in the .part file to as far as it gets.
class Transfer {
 public:
  Transfer(const CurlApi& api, const std::string& url, const std::string& target, const ReportProgress& progress)
      : api_(api),
        url_(url),
        name_(url_for_messages(url)),
        part_(target + ".part"),
        validator_path_(target + ".part.validator"),
        progress_(progress),
        curl_(nullptr, FreeCurl{&api}),
        headers_(nullptr, FreeCurlList{&api}),
        offset_(size_or_zero(part_)) {}

  // The file is whole, or why not.
  Status run();

  // Whether the same request may do better, and whether bytes came.
  bool transient() const { return transient_; }
  bool got_bytes() const { return got_bytes_; }

 private:
  static size_t on_header(char* data, size_t size, size_t count, void* self);
  static size_t on_body(char* data, size_t size, size_t count, void* self);
  static int on_progress(void* self, curl_off_t total, curl_off_t now, curl_off_t, curl_off_t);

  Status configure(CURL* curl);
  // Decides at the first byte where the body goes.
  bool begin_body();
  Status explain(CURL* curl, CURLcode code);

  const CurlApi& api_;
  const std::string& url_;
  const std::string name_;
  const std::string part_;
  const std::string validator_path_;
  const ReportProgress& progress_;

  std::unique_ptr<CURL, FreeCurl> curl_;
  std::unique_ptr<curl_slist, FreeCurlList> headers_;
  std::unique_ptr<std::FILE, CloseFile> file_;
  char curl_error_[CURL_ERROR_SIZE] = "";

  int64_t offset_;            // bytes that were there before
  std::string validator_;     // of the answer
  int64_t range_begin_ = -1;  // of the answer's Content-Range
  int64_t range_total_ = -1;
  bool got_bytes_ = false;
  bool transient_ = false;
  bool cancelled_ = false;
  std::string failure_;  // of our own callbacks
};

// "bytes 100-199/200" or "bytes */200".
void parse_content_range(std::string_view text, int64_t& begin, int64_t& total) {
  constexpr std::string_view kUnit = "bytes ";
  if (!text.starts_with(kUnit)) return;
  text.remove_prefix(kUnit.size());
  std::from_chars(text.data(), text.data() + text.size(), begin);
  const size_t slash = text.find('/');
  if (slash != std::string_view::npos) std::from_chars(text.data() + slash + 1, text.data() + text.size(), total);
}

size_t Transfer::on_header(char* data, size_t size, size_t count, void* self) {
  auto& transfer = *static_cast<Transfer*>(self);
  std::string_view line(data, size * count);
  while (!line.empty() && (line.back() == '\r' || line.back() == '\n')) line.remove_suffix(1);
  const auto value_of = [&](std::string_view name) -> std::string_view {
    if (line.size() <= name.size() || strncasecmp(line.data(), name.data(), name.size()) != 0) return {};
    const size_t begin = line.find_first_not_of(' ', name.size());
    return begin == std::string_view::npos ? std::string_view() : line.substr(begin);
  };
  if (line.starts_with("HTTP/")) {  // a new answer, after a redirect for instance
    transfer.validator_.clear();
    transfer.range_begin_ = transfer.range_total_ = -1;
  }
  // If-Range takes strong ETags only; a date serves where there is none.
  if (const auto etag = value_of("ETag:"); !etag.empty() && !etag.starts_with("W/")) transfer.validator_ = etag;
  if (const auto date = value_of("Last-Modified:"); !date.empty() && transfer.validator_.empty()) {
    transfer.validator_ = date;
  }
  if (const auto range = value_of("Content-Range:"); !range.empty()) {
    parse_content_range(range, transfer.range_begin_, transfer.range_total_);
  }
  return size * count;
}

bool Transfer::begin_body() {
  long status = 0;
  api_.getinfo(curl_.get(), CURLINFO_RESPONSE_CODE, &status);
  const bool continues = status == 206;
  if (continues && range_begin_ != offset_) {
    failure_ = fmt::format("the server continued at byte {}, expected {}", range_begin_, offset_);
    return false;
  }
  if (!continues) offset_ = 0;
  file_.reset(std::fopen(part_.c_str(), continues ? "ab" : "wb"));
  if (file_ == nullptr) {
    failure_ = fmt::format("cannot write {}", part_);
    return false;
  }
  // An old validator must not outlive the bytes that it stood for.
  if (!replace_file(validator_path_, validator_).ok()) std::remove(validator_path_.c_str());
  return true;
}

size_t Transfer::on_body(char* data, size_t size, size_t count, void* self) {
  auto& transfer = *static_cast<Transfer*>(self);
  const size_t bytes = size * count;
  if (transfer.file_ == nullptr && !transfer.begin_body()) return 0;
  if (std::fwrite(data, 1, bytes, transfer.file_.get()) != bytes) {
    transfer.failure_ = fmt::format("cannot write {}: the disk is full or the folder read-only", transfer.part_);
    return 0;
  }
  transfer.got_bytes_ = transfer.got_bytes_ || bytes > 0;
  return bytes;
}

int Transfer::on_progress(void* self, curl_off_t total, curl_off_t now, curl_off_t, curl_off_t) {
  auto& transfer = *static_cast<Transfer*>(self);
  const int64_t offset = transfer.offset_;
  transfer.cancelled_ = !report(transfer.progress_, "downloading", offset + now, total > 0 ? offset + total : 0);
  return transfer.cancelled_ ? 1 : 0;
}

Status Transfer::configure(CURL* curl) {
  const auto set = [&](CURLoption option, auto value) { return api_.setopt(curl, option, value) == CURLE_OK; };
  const bool secure = url_.starts_with("https:");
  bool ok = set(CURLOPT_URL, url_.c_str()) && set(CURLOPT_PROTOCOLS_STR, "http,https") &&
            set(CURLOPT_REDIR_PROTOCOLS_STR, secure ? "https" : "http,https") && set(CURLOPT_FOLLOWLOCATION, 1L) &&
            set(CURLOPT_MAXREDIRS, 10L) && set(CURLOPT_FAILONERROR, 1L) && set(CURLOPT_NOSIGNAL, 1L) &&
            set(CURLOPT_USERAGENT, "dspark") && set(CURLOPT_CONNECTTIMEOUT, 30L) &&
            set(CURLOPT_ERRORBUFFER, curl_error_);
  // A connection that stalls for a minute counts as broken.
  ok = ok && set(CURLOPT_LOW_SPEED_LIMIT, 1L) && set(CURLOPT_LOW_SPEED_TIME, 60L);
  ok = ok && set(CURLOPT_HEADERFUNCTION, &Transfer::on_header) && set(CURLOPT_HEADERDATA, static_cast<void*>(this)) &&
       set(CURLOPT_WRITEFUNCTION, &Transfer::on_body) && set(CURLOPT_WRITEDATA, static_cast<void*>(this)) &&
       set(CURLOPT_XFERINFOFUNCTION, &Transfer::on_progress) && set(CURLOPT_XFERINFODATA, static_cast<void*>(this)) &&
       set(CURLOPT_NOPROGRESS, 0L);
  const std::string validator = first_line(validator_path_);
  if (offset_ > 0 && !validator.empty()) {
    headers_.reset(api_.slist_append(nullptr, fmt::format("If-Range: {}", validator).c_str()));
    ok = ok && set(CURLOPT_HTTPHEADER, headers_.get()) && set(CURLOPT_RANGE, fmt::format("{}-", offset_).c_str());
  } else {
    offset_ = 0;
  }
  if (ok) return Ok{};
  return make_error(ErrorCode::kInternal, "{}: libcurl refused an option; is it older than 7.85?", name_);
}

Status Transfer::run() {
  curl_.reset(api_.init());
  if (curl_ == nullptr) return make_error(ErrorCode::kInternal, "{}: libcurl did not start", name_);
  DSPARK_RETURN_IF_ERROR(configure(curl_.get()));
  CURLcode code = api_.perform(curl_.get());
  if (code == CURLE_OK && file_ == nullptr && !begin_body()) code = CURLE_WRITE_ERROR;  // an empty body
  if (file_ != nullptr && std::fclose(file_.release()) != 0 && code == CURLE_OK) {
    failure_ = fmt::format("cannot write {}", part_);
    code = CURLE_WRITE_ERROR;
  }
  return code == CURLE_OK ? Status(Ok{}) : explain(curl_.get(), code);
}

Status Transfer::explain(CURL* curl, CURLcode code) {
  if (cancelled_) {
    return make_error(ErrorCode::kCancelled, "{}: stopped; the next try continues from here", name_);
  }
  if (!failure_.empty()) return make_error(ErrorCode::kExhausted, "{}: {}", name_, failure_);
  long status = 0;
  api_.getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  if (code == CURLE_HTTP_RETURNED_ERROR && status == 416) {
    // Nothing behind what is there: it is the whole file, or one that the server no longer has.
    if (range_total_ == offset_) return Ok{};
    std::remove(part_.c_str());
    transient_ = true;
    return make_error(ErrorCode::kCorrupt, "{}: {} bytes are there, but the server has {}", name_, offset_,
                      range_total_);
  }
  if (code == CURLE_HTTP_RETURNED_ERROR) {
    transient_ = status >= 500 || status == 429;
    return make_error(status < 500 && status != 429 ? ErrorCode::kNotFound : ErrorCode::kInternal,
                      "{}: the server answered {}, expected 200; check the URL", name_, status);
  }
  const std::string cause = curl_error_[0] != '\0' ? curl_error_ : api_.strerror(code);
  if (code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL) {
    return make_error(ErrorCode::kInvalidArgument, "{}: {}; expected http://HOST/FILE or https://HOST/FILE", name_,
                      printable(cause, 200));
  }
  transient_ = true;
  return make_error(ErrorCode::kInternal, "{}: {}; try again, the download continues where it stopped", name_,
                    printable(cause, 200));
}

Status check_digest(const std::string& part, const std::string& name, const Sha256Digest& expected,
                    const ReportProgress& progress) {
  DSPARK_TRY(const auto found, sha256_of_file(part, "checking", progress));
  if (found == expected) return Ok{};
  std::remove(part.c_str());
  return make_error(ErrorCode::kCorrupt, "{}: SHA-256 is {}, expected {}; the download was removed", name,
                    to_hex(found), to_hex(expected));
}

}  // namespace

Status fetch_url(const std::string& url, const std::string& target, const std::optional<Sha256Digest>& expected,
                 const ReportProgress& progress) {
  DSPARK_TRY(const CurlApi* const api, curl_api());
  bool ever_got_bytes = false;
  for (int barren = 0; true;) {
    Transfer transfer(*api, url, target, progress);
    const Status done = transfer.run();
    if (done.ok()) break;
    ever_got_bytes = ever_got_bytes || transfer.got_bytes();
    barren = transfer.got_bytes() ? 0 : barren + 1;
    // A server that never answered is more likely a wrong address than a short trouble.
    if (!transfer.transient() || barren >= (ever_got_bytes ? kMaxBarrenAttempts : 2)) return done.error();
    for (int wait = 0; wait < (1 << barren); ++wait) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      if (!report(progress, "waiting to try again", 0, 0)) return make_error(ErrorCode::kCancelled, "stopped");
    }
  }
  const std::string part = target + ".part";
  if (expected) DSPARK_RETURN_IF_ERROR(check_digest(part, url_for_messages(url), *expected, progress));
  std::error_code error;
  fs::rename(part, target, error);
  std::remove((part + ".validator").c_str());
  if (error) return make_error(ErrorCode::kInternal, "{}: cannot rename {}: {}", target, part, error.message());
  return Ok{};
}

std::string url_for_messages(std::string_view url) {
  url = url.substr(0, url.find_first_of("?#"));
  const size_t scheme = url.find("://");
  if (scheme == std::string_view::npos) return printable(url, 200);
  const std::string_view rest = url.substr(scheme + 3);
  const size_t user = rest.substr(0, rest.find('/')).rfind('@');
  const std::string_view host = user == std::string_view::npos ? rest : rest.substr(user + 1);
  return printable(fmt::format("{}://{}", url.substr(0, scheme), host), 200);
}

Result<Sha256Digest> sha256_of_file(const std::string& path, std::string_view what, const ReportProgress& progress) {
  const std::unique_ptr<std::FILE, CloseFile> file(std::fopen(path.c_str(), "rb"));
  if (file == nullptr) return make_error(ErrorCode::kNotFound, "{}: cannot open", path);
  const int64_t total = size_or_zero(path);
  std::vector<uint8_t> buffer(size_t{1} << 20);
  Sha256 hash;
  int64_t done = 0;
  while (const size_t count = std::fread(buffer.data(), 1, buffer.size(), file.get())) {
    hash.update(std::span<const uint8_t>(buffer.data(), count));
    done += static_cast<int64_t>(count);
    if (!report(progress, what, done, total)) return make_error(ErrorCode::kCancelled, "stopped");
  }
  if (std::ferror(file.get()) != 0) return make_error(ErrorCode::kCorrupt, "{}: cannot read", path);
  return hash.finish();
}

}  // namespace dspark
