// See setting_json.h.
#include "base/setting_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace dspark {

nlohmann::ordered_json setting_value_json(const SettingSpec& spec, const SettingValue& value) {
  if (spec.secret) return nullptr;
  return std::visit(
      [](const auto& typed) -> nlohmann::ordered_json {
        if constexpr (std::is_same_v<std::decay_t<decltype(typed)>, std::chrono::milliseconds>) {
          return typed.count();
        } else {
          return typed;
        }
      },
      value);
}

namespace {

std::vector<std::string_view> choices(const SettingSpec& spec) {
  if (spec.type == SettingType::kBool) return {"true", "false"};
  return {spec.choices.begin(), std::ranges::find(spec.choices, std::string_view())};
}

}  // namespace

nlohmann::ordered_json setting_json(const SettingSpec& spec, const SettingEntry& entry) {
  return {{"name", spec.name},
          {"value", setting_value_json(spec, entry.value)},
          {"source", source_name(entry.source)},
          {"origin", entry.origin},
          {"default", spec.fallback},
          {"allowed", allowed_values(spec)},
          {"choices", choices(spec)},
          {"variable", setting_variable(spec.name)},
          {"key", setting_key(spec.name)},
          {"live", spec.live},
          {"tokens", spec.tokens},
          {"help", spec.help}};
}

}  // namespace dspark
