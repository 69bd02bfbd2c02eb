// See io.h. Main thread.
#include "tools/io.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/printable.h"

namespace dspark {

Result<std::string> read_input(const std::string& path) {
  const bool standard_input = path == "-";
  const std::string name = standard_input ? "standard input" : fmt::format("file '{}'", printable(path, 400));
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> opened(
      standard_input ? nullptr : std::fopen(path.c_str(), "rb"), [](std::FILE* f) { return f ? std::fclose(f) : 0; });
  std::FILE* stream = standard_input ? stdin : opened.get();
  if (stream == nullptr) {
    return make_error(ErrorCode::kNotFound, "{} cannot be opened: {}; check the path", name, std::strerror(errno));
  }
  std::string bytes;
  char buffer[1 << 16];
  size_t got = 0;
  while ((got = std::fread(buffer, 1, sizeof(buffer), stream)) > 0) bytes.append(buffer, got);
  if (std::ferror(stream)) {
    return make_error(ErrorCode::kNotFound, "{} cannot be read: {}; check that it is a file", name,
                      std::strerror(errno));
  }
  return bytes;
}

Status write_output(std::string_view bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), stdout) != bytes.size() || std::fflush(stdout) != 0) {
    return make_error(ErrorCode::kInternal, "standard output cannot be written: {}", std::strerror(errno));
  }
  return Ok();
}

Status write_json(const nlohmann::ordered_json& value) {
  return write_output(value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n');
}

}  // namespace dspark
