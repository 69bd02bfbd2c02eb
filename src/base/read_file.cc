// See read_file.h.
#include "base/read_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "base/printable.h"

namespace dspark {
namespace {

// Of a named pipe, which was opened without waiting for whoever writes into it: he may never come. Waits for the first
// byte, which *first gets, or for the end without one (-1); false if nobody has opened the pipe in time.
bool wait_for_writer(int fd, int* first) {
  const auto until = std::chrono::steady_clock::now() + kPipePatience;
  *first = -1;
  for (bool came = false;;) {
    pollfd entry{fd, POLLIN, 0};
    const bool told = poll(&entry, 1, 50) > 0;
    unsigned char byte;
    const ssize_t got = read(fd, &byte, 1);
    if (got > 0) *first = byte;
    if (got > 0 || (got == 0 && told)) return true;
    came |= got < 0;  // EAGAIN: somebody holds the other end, and may take his time
    if (!came && std::chrono::steady_clock::now() >= until) return false;
  }
}

}  // namespace

Result<std::string> read_file(const std::string& path, int64_t max_bytes) {
  const std::string name = fmt::format("file '{}'", printable(path, 400));
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> stream(fd < 0 ? nullptr : fdopen(fd, "rb"),
                                                               [](std::FILE* f) { return f ? std::fclose(f) : 0; });
  if (stream == nullptr) {
    return make_error(ErrorCode::kNotFound, "{} cannot be opened: {}; check the path", name, std::strerror(errno));
  }
  struct stat info;
  int first = -1;
  if (fstat(fd, &info) == 0 && S_ISFIFO(info.st_mode) && !wait_for_writer(fd, &first)) {
    return make_error(ErrorCode::kNotFound, "{} is a pipe into which nobody writes; give a file, or begin to write",
                      name);
  }
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
  if (first >= 0) std::ungetc(first, stream.get());
  return read_stream(stream.get(), name, max_bytes);
}

Result<std::string> read_stream(std::FILE* stream, const std::string& name, int64_t max_bytes) {
  std::string bytes;
  char buffer[1 << 16];
  while (const size_t got = std::fread(buffer, 1, sizeof(buffer), stream)) {
    if (static_cast<int64_t>(bytes.size() + got) > max_bytes) {
      return make_error(ErrorCode::kCorrupt,
                        "{} has more than {} MiB, the most that is read; check that it is the right one", name,
                        max_bytes >> 20);
    }
    bytes.append(buffer, got);
  }
  if (std::ferror(stream)) {
    return make_error(ErrorCode::kNotFound, "{} cannot be read: {}; check that it is a file", name,
                      std::strerror(errno));
  }
  return bytes;
}

}  // namespace dspark
