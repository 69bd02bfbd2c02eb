// A setting with its value as JSON, for commands and the server's API. Pure, any thread.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "base/settings.h"

namespace dspark {

// {"name", "value", "source", "origin", "default", "allowed", "choices", "variable", "key", "live", "tokens", "help"}.
// Durations are in milliseconds, sizes in bytes; the value of a secret is null.
nlohmann::ordered_json setting_json(const SettingSpec& spec, const SettingEntry& entry);

// The value alone.
nlohmann::ordered_json setting_value_json(const SettingSpec& spec, const SettingValue& value);

}  // namespace dspark
