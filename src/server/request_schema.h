// The one table of the fields that requests may have: name, type, range, where it is allowed. Checking is derived from
// it, and so are the messages. Pure, any thread.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "server/api_error.h"

namespace dspark {

enum class Endpoint : uint8_t { kChat, kCompletions, kEmbeddings, kTokenize, kDetokenize, kApplyTemplate };

enum class FieldType {
  kBool,
  kInt,      // from min to max
  kNumber,   // finite, from min to max
  kString,   // at most max bytes
  kStrings,  // a string or a list of them, at most max
  kArray,    // at most max elements
  kObject,   // at most max members
  kAny,
};

enum class FieldUse {
  kUsed,
  kIgnored,  // known, and cannot change the answer
  kRefused,  // would change the answer, and is not supported: only `neutral` may be given
};

struct FieldSpec {
  std::string_view name;
  FieldType type;
  uint8_t where;  // a bit for each Endpoint
  double min = 0;
  double max = std::numeric_limits<double>::infinity();
  std::string_view choices = {};  // of a string: "float, base64"
  FieldUse use = FieldUse::kUsed;
  std::string_view neutral = {};  // JSON
};

std::span<const FieldSpec> request_fields();

inline constexpr size_t kMostIgnored = 32;  // names that are told

// The first thing wrong with the fields of `body`, which must be an object. A null counts as absent. `n` is at most
// `max_choices`: it is the server's limit, or the key's. `ignored` gets the names of fields that were not looked at.
std::optional<ApiError> check_fields(const nlohmann::ordered_json& body, Endpoint endpoint, int max_choices,
                                     std::vector<std::string>* ignored);

// A value as messages show it, short.
std::string shown(const nlohmann::ordered_json& value);

inline constexpr int kMaxStops = 64;
inline constexpr size_t kMaxStopBytes = 1024;
inline constexpr int kMaxLogprobs = 20;

}  // namespace dspark
