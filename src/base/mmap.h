// MappedFile: a whole file, read-only in memory, and the return of its pages to the system. Any thread may read;
// the owner moves and destroys it.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"

namespace dspark {

// What tells one state of a file from another (fstat): used as the key of caches.
struct FileIdentity {
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t bytes = 0;
  int64_t modified_ns = 0;  // mtime
  int64_t changed_ns = 0;   // ctime

  bool operator==(const FileIdentity&) const = default;
};

class MappedFile {
 public:
  // Regular files only (links are followed); an empty file maps to no bytes. Another process that truncates the file
  // afterwards makes reads of the lost pages fail with SIGBUS: model files are replaced by rename, never in place.
  static Result<MappedFile> open(const std::string& path);

  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const uint8_t> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }
  // As of open().
  const FileIdentity& identity() const { return identity_; }
  // kCorrupt if the file was written to or truncated since open(), as far as its size and mtime show it. A new file
  // under the same path is no change: the mapping keeps the old one.
  Status check_unchanged() const;

  // Drops the resident pages that lie wholly inside `range`, a part of bytes(). They are read from the file again
  // when touched, so this is always safe and costs only time.
  void release(std::span<const uint8_t> range) const;
  // Drops every resident page.
  void release_all() const;

 private:
  std::string path_;
  FileIdentity identity_;
  const uint8_t* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace dspark
