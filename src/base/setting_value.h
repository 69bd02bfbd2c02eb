// From a setting's text to its typed value and back, by the schema. Pure, any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "base/settings_schema.h"

namespace dspark {

using SettingValue = std::variant<bool, int64_t, double, std::string, std::chrono::milliseconds,
                                  std::vector<std::string>, std::vector<int64_t>>;

// What get<"name">() returns for a setting of a type. kSize is in bytes.
template <SettingType type>
struct SettingCpp {
  using Type = int64_t;  // kInt, kSize
};
template <>
struct SettingCpp<SettingType::kBool> {
  using Type = bool;
};
template <>
struct SettingCpp<SettingType::kFloat> {
  using Type = double;
};
template <>
struct SettingCpp<SettingType::kString> {
  using Type = std::string;
};
template <>
struct SettingCpp<SettingType::kEnum> {
  using Type = std::string;
};
template <>
struct SettingCpp<SettingType::kDuration> {
  using Type = std::chrono::milliseconds;
};
template <>
struct SettingCpp<SettingType::kStringList> {
  using Type = std::vector<std::string>;
};
template <>
struct SettingCpp<SettingType::kIntList> {
  using Type = std::vector<int64_t>;
};

// What the setting accepts, to stand after "expected": "a number from 0 to 100".
std::string allowed_values(const SettingSpec& spec);

// Parses and checks one value. `texts` has one element, of kStringList any number. The error is
// "'hot' is not a number from 0 to 100"; the caller puts in front where the value came from.
Result<SettingValue> parse_setting(const SettingSpec& spec, std::span<const std::string> texts);

// As a user would write it; elements of a list separated by commas.
std::string format_setting(const SettingSpec& spec, const SettingValue& value);

}  // namespace dspark
