// JSON from files and requests, hostile until checked: depth, size and duplicate keys are bounded while parsing, and
// members are read with errors that name file, key, value found and type expected. Any thread.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace dspark {

struct JsonLimits {
  size_t max_bytes = size_t{256} << 20;
  size_t max_depth = 64;           // nested objects and arrays
  size_t max_values = 16'000'000;  // values of any kind: each costs some tens of bytes
};

// The document in `text` (RFC 8259, UTF-8, nothing behind it). `name` is the file or source in messages. A key that
// stands twice in one object is an error: readers would disagree about its value.
Result<nlohmann::json> parse_json(std::string_view text, std::string_view name, const JsonLimits& limits = {});
// The same with the order of keys kept, for what a template prints.
Result<nlohmann::ordered_json> parse_ordered_json(std::string_view text, std::string_view name,
                                                  const JsonLimits& limits = {});

// The member `key` of `object` as a T. kCorrupt when `object` is no object, the key is absent, or the value is not a T
// (an integer out of T's range, a number that is not finite, a null). T: bool, int32_t, uint32_t, int64_t, uint64_t,
// float, double, std::string, or a std::vector of these but bool.
template <class T>
Result<T> json_require(const nlohmann::json& object, std::string_view key, std::string_view name);

// The same; `fallback` when the key is absent or null. A value of a wrong type is an error all the same.
template <class T>
Result<T> json_get_or(const nlohmann::json& object, std::string_view key, T fallback, std::string_view name) {
  if (object.is_object()) {
    const auto it = object.find(key);
    if (it == object.end() || it->is_null()) return fallback;
  }
  return json_require<T>(object, key, name);
}

}  // namespace dspark
