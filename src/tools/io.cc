// See io.h. Main thread.
#include "tools/io.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/printable.h"

namespace dspark {

Result<std::string> read_input(const std::string& path, int64_t max_bytes) {
  return path == "-" ? read_stream(stdin, input_name(path), max_bytes) : read_file(path, max_bytes);
}

std::string input_name(const std::string& path) { return path == "-" ? "standard input" : printable(path, 400); }

Status write_output(std::string_view bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), stdout) != bytes.size() || std::fflush(stdout) != 0) {
    return make_error(ErrorCode::kInternal, "standard output cannot be written: {}", std::strerror(errno));
  }
  return Ok();
}

void print_error(std::string message) {
  for (char& c : message) {
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) c = ' ';
  }
  fmt::print(stderr, "dspark: {}\n", message);
}

Status write_json(const nlohmann::ordered_json& value) {
  return write_output(value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n');
}

}  // namespace dspark
