// The names of the files of a split GGUF model: PREFIX-00001-of-00005.gguf. Pure, any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dspark {

struct SplitName {
  std::string prefix;
  uint32_t index;  // from 0
  uint32_t count;
};

// Nothing if `name` (a file name, path or URL path) is no such name or its numbers make no sense.
std::optional<SplitName> parse_split_name(std::string_view name);
std::string split_name(std::string_view prefix, uint32_t index, uint32_t count);

}  // namespace dspark
