// mmap and madvise behind mmap.h.
#include "base/mmap.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace dspark {
namespace {

int64_t nanoseconds(const timespec& time) { return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec; }

}  // namespace

Result<MappedFile> MappedFile::open(const std::string& path) {
  // O_NONBLOCK: a FIFO must not hang the open before fstat can refuse it.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return make_error(ErrorCode::kNotFound, "{}: cannot open: {}", path, std::strerror(errno));
  struct stat info;
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(fd);
    return make_error(ErrorCode::kNotFound, "{}: not a regular file; give one", path);
  }
  MappedFile file;
  file.path_ = path;
  file.identity_ = {.device = info.st_dev,
                    .inode = info.st_ino,
                    .bytes = static_cast<uint64_t>(info.st_size),
                    .modified_ns = nanoseconds(info.st_mtim),
                    .changed_ns = nanoseconds(info.st_ctim)};
  if (info.st_size > 0) {
    void* data = ::mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) {
      const int error = errno;
      ::close(fd);
      return make_error(ErrorCode::kExhausted, "{}: cannot map {} bytes: {}", path, info.st_size, std::strerror(error));
    }
    file.data_ = static_cast<const uint8_t*>(data);
    file.size_ = static_cast<size_t>(info.st_size);
  }
  ::close(fd);
  return file;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      identity_(other.identity_),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(identity_, other.identity_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<uint8_t*>(data_), size_);
}

Status MappedFile::check_unchanged() const {
  struct stat now;
  if (path_.empty() || ::stat(path_.c_str(), &now) != 0) return Ok{};
  if (now.st_dev != identity_.device || now.st_ino != identity_.inode) return Ok{};
  if (static_cast<uint64_t>(now.st_size) == identity_.bytes && nanoseconds(now.st_mtim) == identity_.modified_ns) {
    return Ok{};
  }
  return make_error(ErrorCode::kCorrupt,
                    "{}: was {} bytes when it was opened, and was written to since (now {} bytes); replace model files "
                    "by rename and load again",
                    path_, identity_.bytes, now.st_size);
}

void MappedFile::release(std::span<const uint8_t> range) const {
  if (range.empty()) return;
  DSPARK_CHECK(range.data() >= data_ && range.data() + range.size() <= data_ + size_, "range outside of {}", path_);
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(range.data()) + page - 1) / page * page;
  const uintptr_t end = reinterpret_cast<uintptr_t>(range.data() + range.size()) / page * page;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

void MappedFile::release_all() const {
  if (data_ != nullptr) ::madvise(const_cast<uint8_t*>(data_), size_, MADV_DONTNEED);
}

}  // namespace dspark
