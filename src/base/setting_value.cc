// See setting_value.h. Pure, any thread.
#include "base/setting_value.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "base/printable.h"

namespace dspark {
namespace {

struct Unit {
  std::string_view name;
  double scale;
};

constexpr Unit kSizeUnits[] = {{"TiB", 0x1p40}, {"GiB", 0x1p30}, {"MiB", 0x1p20}, {"KiB", 0x1p10}, {"TB", 1e12},
                               {"GB", 1e9},     {"MB", 1e6},     {"KB", 1e3},     {"kB", 1e3},     {"B", 1}};
constexpr Unit kDurationUnits[] = {{"ms", 1}, {"s", 1e3}, {"m", 60e3}, {"h", 3600e3}};

// All of `text` as a T, nothing before or after it.
template <class T>
std::optional<T> parse_number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool is_huge_integer(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc::result_out_of_range && end == text.data() + text.size();
}

// "1.5GiB" as a whole number of the smallest unit; a bare number only where `bare_allowed` (or 0).
std::optional<int64_t> parse_with_unit(std::string_view text, std::span<const Unit> units, bool bare_allowed) {
  double scale = 1;
  std::string_view digits = text;
  const auto unit = std::find_if(units.begin(), units.end(), [&](const Unit& u) { return text.ends_with(u.name); });
  if (unit != units.end()) {
    scale = unit->scale;
    digits.remove_suffix(unit->name.size());
  } else if (!bare_allowed && text != "0") {
    return std::nullopt;
  }
  const auto number = parse_number<double>(digits);
  if (!number || !std::isfinite(*number)) return std::nullopt;
  const double scaled = *number * scale;
  if (!(scaled >= 0 && scaled < 0x1p63) || scaled != std::floor(scaled)) return std::nullopt;
  return static_cast<int64_t>(scaled);
}

std::optional<bool> parse_bool(std::string_view text) {
  if (text == "true" || text == "1" || text == "yes" || text == "on") return true;
  if (text == "false" || text == "0" || text == "no" || text == "off") return false;
  return std::nullopt;
}

std::string format_with_unit(int64_t value, std::span<const Unit> units) {
  const Unit* best = nullptr;
  for (const Unit& unit : units) {
    const auto scale = static_cast<int64_t>(unit.scale);
    if (value != 0 && value % scale == 0 && (best == nullptr || scale > static_cast<int64_t>(best->scale))) {
      best = &unit;
    }
  }
  if (best == nullptr) return fmt::format("{}", value);
  return fmt::format("{}{}", value / static_cast<int64_t>(best->scale), best->name);
}

std::string format_size(int64_t bytes) { return format_with_unit(bytes, std::span(kSizeUnits).first(4)); }

std::string format_duration(std::chrono::milliseconds duration) {
  return format_with_unit(duration.count(), kDurationUnits);
}

std::string format_bound(SettingType type, double bound) {
  if (type == SettingType::kSize) return format_size(static_cast<int64_t>(bound));
  if (type == SettingType::kDuration) return format_duration(std::chrono::milliseconds(static_cast<int64_t>(bound)));
  return bound == std::floor(bound) ? fmt::format("{:.0f}", bound) : fmt::format("{}", bound);
}

std::string format_range(const SettingSpec& spec) {
  const bool has_min = std::isfinite(spec.min), has_max = std::isfinite(spec.max);
  if (has_min && has_max) {
    return fmt::format(" from {} to {}", format_bound(spec.type, spec.min), format_bound(spec.type, spec.max));
  }
  if (has_min) return fmt::format(" of at least {}", format_bound(spec.type, spec.min));
  if (has_max) return fmt::format(" of at most {}", format_bound(spec.type, spec.max));
  return "";
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0;;) {
    const size_t end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end - begin));
    if (end == std::string_view::npos) return parts;
    begin = end + 1;
  }
}

// The typed value if `text` has the right form and lies in the range.
std::optional<SettingValue> parse_one(const SettingSpec& spec, const std::string& text) {
  const auto in_range = [&](double v) { return v >= spec.min && v <= spec.max; };
  switch (spec.type) {
    case SettingType::kBool:
      if (auto v = parse_bool(text)) return *v;
      return std::nullopt;
    case SettingType::kInt:
      if (auto v = parse_number<int64_t>(text); v && in_range(static_cast<double>(*v))) return *v;
      return std::nullopt;
    case SettingType::kFloat:
      if (auto v = parse_number<double>(text); v && std::isfinite(*v) && in_range(*v)) return *v;
      return std::nullopt;
    case SettingType::kSize:
      if (auto v = parse_with_unit(text, kSizeUnits, true); v && in_range(static_cast<double>(*v))) return *v;
      return std::nullopt;
    case SettingType::kDuration:
      if (auto v = parse_with_unit(text, kDurationUnits, false); v && in_range(static_cast<double>(*v))) {
        return std::chrono::milliseconds(*v);
      }
      return std::nullopt;
    case SettingType::kEnum:
      if (!text.empty() && std::find(spec.choices.begin(), spec.choices.end(), text) != spec.choices.end()) return text;
      return std::nullopt;
    case SettingType::kString:
      return text;
    case SettingType::kIntList: {
      std::vector<int64_t> values;
      for (std::string_view part : split(text, ',')) {
        const auto v = parse_number<int64_t>(part);
        if (!v || !in_range(static_cast<double>(*v))) return std::nullopt;
        values.push_back(*v);
      }
      return values;
    }
    case SettingType::kStringList:
      break;  // any texts are valid; parse_setting takes them whole
  }
  return std::nullopt;
}

}  // namespace

std::string allowed_values(const SettingSpec& spec) {
  switch (spec.type) {
    case SettingType::kBool:
      return "true or false";
    case SettingType::kInt:
      return "a whole number" + format_range(spec);
    case SettingType::kFloat:
      return "a number" + format_range(spec);
    case SettingType::kSize:
      return "a size like 512MiB or 2GiB" + format_range(spec);
    case SettingType::kDuration:
      return "a duration like 250ms, 30s or 5m" + format_range(spec);
    case SettingType::kIntList:
      return "a list like 1,2,3 of whole numbers" + (format_range(spec).empty() ? "" : ", each" + format_range(spec));
    case SettingType::kEnum: {
      const auto end = std::find(spec.choices.begin(), spec.choices.end(), std::string_view());
      return fmt::format("one of {}", fmt::join(spec.choices.begin(), end, ", "));
    }
    case SettingType::kString:
    case SettingType::kStringList:
      return "text";
  }
  return "";
}

Result<SettingValue> parse_setting(const SettingSpec& spec, std::span<const std::string> texts) {
  if (spec.type == SettingType::kStringList) return SettingValue(std::vector<std::string>(texts.begin(), texts.end()));
  DSPARK_CHECK(texts.size() == 1, "{} values for the setting {}", texts.size(), spec.name);
  if (spec.type == SettingType::kIntList && texts[0].empty() && spec.fallback.empty()) {
    return SettingValue(std::vector<int64_t>());
  }
  if (auto value = parse_one(spec, texts[0])) return *std::move(value);
  if (spec.type == SettingType::kInt && is_huge_integer(texts[0])) {
    return make_error(ErrorCode::kInvalidArgument, "'{}' does not fit into 64 bits, expected {}", printable(texts[0]),
                      allowed_values(spec));
  }
  return make_error(ErrorCode::kInvalidArgument, "'{}' is not {}", printable(texts[0]), allowed_values(spec));
}

std::string format_setting(const SettingSpec& spec, const SettingValue& value) {
  switch (spec.type) {
    case SettingType::kBool:
      return std::get<bool>(value) ? "true" : "false";
    case SettingType::kInt:
      return fmt::format("{}", std::get<int64_t>(value));
    case SettingType::kFloat:
      return fmt::format("{}", std::get<double>(value));
    case SettingType::kSize:
      return format_size(std::get<int64_t>(value));
    case SettingType::kDuration:
      return format_duration(std::get<std::chrono::milliseconds>(value));
    case SettingType::kString:
    case SettingType::kEnum:
      return std::get<std::string>(value);
    case SettingType::kStringList:
      return fmt::format("{}", fmt::join(std::get<std::vector<std::string>>(value), ","));
    case SettingType::kIntList:
      return fmt::format("{}", fmt::join(std::get<std::vector<int64_t>>(value), ","));
  }
  return "";
}

}  // namespace dspark
