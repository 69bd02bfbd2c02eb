// Where this program keeps what it can make or fetch again, and locks between processes. Any thread.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "base/report.h"
#include "base/result.h"

namespace dspark {

// $XDG_CACHE_HOME/dspark, or ~/.cache/dspark where that is not set (XDG Base Directory Specification); not created.
Result<std::string> cache_dir();

// Creates the folder and those above it.
Status create_folders(const std::string& path);

// Writes a small file whole or not at all: under a name of its own beside `path`, then renamed.
Status replace_file(const std::string& path, std::string_view content);

// Holds a file exclusively until destroyed; the file itself stays. Between processes and between threads.
class FileLock {
 public:
  // Waits for whoever holds it, reporting "waiting for another process" as progress, until cancelled.
  static Result<FileLock> acquire(const std::string& path, const ReportProgress& progress);

  FileLock(FileLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileLock& operator=(FileLock&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileLock();

 private:
  explicit FileLock(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace dspark
