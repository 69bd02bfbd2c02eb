// The effective settings: flag > environment > configuration file > default, each value with where it came from.
// Built once at the start by the main thread; a Settings is immutable afterwards and may be read by any thread. What a
// running server changes is a new Settings (server/live_config.h).
#pragma once

#include <array>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/setting_value.h"
#include "base/settings_schema.h"

namespace dspark {

enum class SettingSource { kDefault, kFile, kEnvironment, kFlag, kLive };  // the stronger later
std::string_view source_name(SettingSource source);

// One line of the effective configuration.
struct SettingEntry {
  SettingValue value;
  SettingSource source = SettingSource::kDefault;
  std::string origin;  // "--temp", "DSPARK_TEMP", "config.toml:12"; empty for a default
};

// A setting's name as a template argument: settings.get<"threads">().
template <size_t size>
struct SettingName {
  char text[size]{};
  consteval SettingName(const char (&name)[size]) {
    for (size_t i = 0; i < size; ++i) text[i] = name[i];
  }
  constexpr std::string_view view() const { return {text, size - 1}; }
};

class Settings {
 public:
  // The typed value. An unknown name does not compile.
  template <SettingName name>
  const auto& get() const {
    constexpr size_t kIndex = setting_index(name.view());
    return std::get<typename SettingCpp<kSettings[kIndex].type>::Type>(entries_[kIndex].value);
  }
  // Whether the user set it, by whatever way.
  template <SettingName name>
  bool is_set() const {
    return entries_[setting_index(name.view())].source != SettingSource::kDefault;
  }
  const SettingEntry& entry(size_t index) const { return entries_[index]; }  // index in kSettings
  // These settings but for one of them, whose value is valid.
  Settings with(size_t index, SettingEntry entry) const;

 private:
  friend class SettingsLoader;
  std::array<SettingEntry, kSettings.size()> entries_;
};

struct SettingSources {
  // Values given as flags, by index in kSettings, in the order of the command line.
  std::map<size_t, std::vector<std::string>> flags{};
  std::vector<std::string> environment{};       // "NAME=value" as in environ; only DSPARK_* and known aliases are read
  std::filesystem::path default_config_file{};  // read if it exists and no setting names another one; may be empty
};

struct LoadedSettings {
  Settings settings;
  std::vector<std::string> warnings;  // one line each: unknown DSPARK_* variables
};

// Reads and checks all sources as a whole. The error names the source, the value and what is allowed.
Result<LoadedSettings> load_settings(const SettingSources& sources);

// The index in kSettings for a name or alias, with '-' and '_' alike; kSettings.size() if there is none.
size_t find_setting(std::string_view name);
// Why this build does not have a setting that others know; "" for any other name.
std::string_view setting_to_come(std::string_view name);
// "; did you mean 'threads'?" for a mistyped name, else "".
std::string setting_suggestion(std::string_view name);
// DSPARK_MAX_TOKENS for "max-tokens".
std::string setting_variable(std::string_view name);
// max_tokens for "max-tokens".
std::string setting_key(std::string_view name);

}  // namespace dspark
