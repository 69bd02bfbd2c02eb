// See cache_dir.h.
#include "base/cache_dir.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <thread>

namespace dspark {

Result<std::string> cache_dir() {
  // The specification says that a path which is not absolute counts as not set.
  const char* xdg = std::getenv("XDG_CACHE_HOME");
  if (xdg != nullptr && xdg[0] == '/') return std::string(xdg) + "/dspark";
  const char* home = std::getenv("HOME");
  if (home != nullptr && home[0] == '/') return std::string(home) + "/.cache/dspark";
  return make_error(ErrorCode::kInvalidArgument,
                    "neither XDG_CACHE_HOME nor HOME is an absolute path; set one of them");
}

Status create_folders(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) {
    return make_error(ErrorCode::kInternal, "{}: cannot create the folder: {}; set XDG_CACHE_HOME to another place",
                      path, error.message());
  }
  return Ok{};
}

Status replace_file(const std::string& path, std::string_view content) {
  std::string temporary = path + ".XXXXXX";
  const int fd = ::mkostemp(temporary.data(), O_CLOEXEC);
  if (fd < 0) return make_error(ErrorCode::kInternal, "{}: cannot create: {}", temporary, std::strerror(errno));
  const bool whole = ::write(fd, content.data(), content.size()) == static_cast<ssize_t>(content.size());
  const bool closed = ::close(fd) == 0;
  if (whole && closed && std::rename(temporary.c_str(), path.c_str()) == 0) return Ok{};
  const int cause = errno;
  std::remove(temporary.c_str());
  return make_error(ErrorCode::kExhausted, "{}: cannot write {} bytes: {}", path, content.size(), std::strerror(cause));
}

Result<FileLock> FileLock::acquire(const std::string& path, const ReportProgress& progress) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return make_error(ErrorCode::kInternal, "{}: cannot open: {}", path, std::strerror(errno));
  FileLock lock(fd);
  while (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) {
      return make_error(ErrorCode::kInternal, "{}: cannot lock: {}", path, std::strerror(errno));
    }
    if (!report(progress, "waiting for another process", 0, 0)) return make_error(ErrorCode::kCancelled, "stopped");
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return lock;
}

FileLock::~FileLock() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace dspark
