// See split_name.h.
#include "model/split_name.h"

#include <fmt/format.h>

#include <charconv>

namespace dspark {

std::optional<SplitName> parse_split_name(std::string_view name) {
  constexpr size_t kDigits = 5;
  constexpr std::string_view kShape = "-NNNNN-of-NNNNN.gguf";
  if (name.size() <= kShape.size()) return std::nullopt;
  const std::string_view tail = name.substr(name.size() - kShape.size());
  const auto number = [&](size_t begin, uint32_t& out) {
    const char* end = tail.data() + begin + kDigits;
    const auto parsed = std::from_chars(tail.data() + begin, end, out);
    return parsed.ec == std::errc() && parsed.ptr == end;
  };
  SplitName split{.prefix = std::string(name.substr(0, name.size() - kShape.size())), .index = 0, .count = 0};
  const bool fits = tail[0] == '-' && tail.substr(6, 4) == "-of-" && tail.ends_with(".gguf") &&
                    number(1, split.index) && number(10, split.count);
  if (!fits || split.index < 1 || split.index > split.count) return std::nullopt;
  split.index -= 1;
  return split;
}

std::string split_name(std::string_view prefix, uint32_t index, uint32_t count) {
  return fmt::format("{}-{:05}-of-{:05}.gguf", prefix, index + uint64_t{1}, count);
}

}  // namespace dspark
