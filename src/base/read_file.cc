// See read_file.h.
#include "base/read_file.h"

#include <cerrno>
#include <cstring>
#include <memory>

#include "base/printable.h"

namespace dspark {

Result<std::string> read_file(const std::string& path, int64_t max_bytes) {
  const std::string name = fmt::format("file '{}'", printable(path, 400));
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> stream(std::fopen(path.c_str(), "rbe"),
                                                               [](std::FILE* f) { return f ? std::fclose(f) : 0; });
  if (stream == nullptr) {
    return make_error(ErrorCode::kNotFound, "{} cannot be opened: {}; check the path", name, std::strerror(errno));
  }
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
