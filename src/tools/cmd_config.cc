// `dspark config`: the effective settings, or one setting's description. Main thread.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/printable.h"
#include "tools/command.h"
#include "tools/help.h"
#include "tools/io.h"

namespace dspark {
namespace {

nlohmann::ordered_json command_names(const CommandSet& set) {
  auto names = nlohmann::ordered_json::array();
  for (const CommandSpec& command : commands()) {
    if (set.has(command.id)) names.push_back(command.name());
  }
  return names;
}

nlohmann::ordered_json to_json(const SettingSpec& spec, const SettingEntry& entry) {
  nlohmann::ordered_json json = {
      {"name", spec.name},
      {"source", source_name(entry.source)},
      {"origin", entry.origin},
      {"default", spec.fallback},
      {"allowed", allowed_values(spec)},
      {"variable", setting_variable(spec.name)},
      {"key", setting_key(spec.name)},
      {"commands", command_names(spec.commands)},
      {"live", spec.live},
      {"tokens", spec.tokens},
      {"help", spec.help},
  };
  std::visit(
      [&](const auto& value) {
        if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::chrono::milliseconds>) {
          json["value"] = value.count();  // milliseconds
        } else {
          json["value"] = value;
        }
      },
      entry.value);
  return json;
}

std::string describe(const SettingSpec& spec, const SettingEntry& entry) {
  std::string out = fmt::format("{} = {}\n", setting_key(spec.name), format_setting(spec, entry.value));
  out += fmt::format("  source    {}\n", entry.origin.empty() ? source_name(entry.source) : entry.origin);
  out += fmt::format("  meaning   {}\n", spec.help);
  out += fmt::format("  allowed   {}\n", allowed_values(spec));
  if (!spec.fallback.empty()) out += fmt::format("  default   {}\n", spec.fallback);
  out += fmt::format("  variable  {}\n", setting_variable(spec.name));
  out += fmt::format("  changes   {}; {}\n", spec.tokens ? "can change tokens" : "never changes tokens",
                     spec.live ? "while a server runs" : "at the start only");
  return out;
}

std::string table(const Settings& settings) {
  std::string out = fmt::format("{:<24} {:<24} {}\n", "SETTING", "VALUE", "SOURCE");
  for (size_t i = 0; i < kSettings.size(); ++i) {
    if (kSettings[i].flag_only) continue;
    const SettingEntry& entry = settings.entry(i);
    const std::string value = format_setting(kSettings[i], entry.value);
    out += fmt::format("{:<24} {:<24} {}\n", setting_key(kSettings[i].name), value.empty() ? "-" : value,
                       entry.origin.empty() ? source_name(entry.source) : entry.origin);
  }
  return out;
}

}  // namespace

Result<ExitCode> cmd_config(const Invocation& call) {
  const bool json = call.settings.get<"json">();
  if (!call.operands.empty()) {
    const std::string& name = call.operands[0];
    const size_t index = find_setting(name);
    if (index == kSettings.size() || kSettings[index].flag_only) {
      return make_error(ErrorCode::kInvalidArgument, "'{}' is not a setting{}", printable(name),
                        setting_suggestion(name));
    }
    const SettingEntry& entry = call.settings.entry(index);
    DSPARK_RETURN_IF_ERROR(json ? write_json(to_json(kSettings[index], entry))
                                : write_output(describe(kSettings[index], entry)));
    return ExitCode::kOk;
  }
  if (!json) {
    DSPARK_RETURN_IF_ERROR(write_output(table(call.settings)));
    return ExitCode::kOk;
  }
  auto all = nlohmann::ordered_json::array();
  for (size_t i = 0; i < kSettings.size(); ++i) {
    if (!kSettings[i].flag_only) all.push_back(to_json(kSettings[i], call.settings.entry(i)));
  }
  DSPARK_RETURN_IF_ERROR(write_json({{"settings", all}}));
  return ExitCode::kOk;
}

}  // namespace dspark
