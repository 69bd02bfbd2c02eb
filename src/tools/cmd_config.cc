// `dspark config`: the effective settings, or one setting's description; of a running server with get, set and
// rollback. Main thread.
#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>
#include <span>

#include "base/printable.h"
#include "base/setting_json.h"
#include "tools/command.h"
#include "tools/help.h"
#include "tools/io.h"
#include "tools/server_client.h"

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
  auto json = setting_json(spec, entry);
  json["commands"] = command_names(spec.commands);
  return json;
}

std::string shown_value(const SettingSpec& spec, const SettingEntry& entry) {
  const std::string value = format_setting(spec, entry.value);
  return spec.secret && !value.empty() ? "(not shown)" : value;
}

std::string describe(const SettingSpec& spec, const SettingEntry& entry) {
  std::string out = fmt::format("{} = {}\n", setting_key(spec.name), shown_value(spec, entry));
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
    const std::string value = shown_value(kSettings[i], entry);
    out += fmt::format("{:<24} {:<24} {}\n", setting_key(kSettings[i].name), value.empty() ? "-" : value,
                       entry.origin.empty() ? source_name(entry.source) : entry.origin);
  }
  return out;
}

constexpr std::string_view kPath = "/api/v1/config";

std::string value_text(const nlohmann::json& value) {
  return value.is_string() ? printable(value.get<std::string>(), 200) : printable(value.dump(), 200);
}

// What the server says of its settings, or of one.
Status get_from_server(const Settings& settings, const std::string& name) {
  DSPARK_TRY(const ServerClient server, ServerClient::create(settings, ""));
  DSPARK_TRY(const nlohmann::json answer, server.get(kPath));
  const nlohmann::json all = answer.value("settings", nlohmann::json::object());
  const size_t index = find_setting(name);
  const std::string key = name.empty() ? "" : index < kSettings.size() ? setting_key(kSettings[index].name) : name;
  if (!key.empty() && !all.contains(key)) {
    return make_error(ErrorCode::kInvalidArgument, "{} is not a setting of the server{}", quote(name),
                      setting_suggestion(name));
  }
  if (settings.get<"json">()) return write_json(key.empty() ? answer : all[key]);
  std::string out = fmt::format("{:<24} {:<24} {:<5} {}\n", "SETTING", "VALUE", "LIVE", "SOURCE");
  for (const auto& [each, setting] : all.items()) {
    if (!key.empty() && each != key) continue;
    const std::string origin = setting.value("origin", "");
    out += fmt::format("{:<24} {:<24} {:<5} {}\n", each, value_text(setting.value("value", nlohmann::json())),
                       setting.value("live", false) ? "yes" : "no",
                       printable(origin.empty() ? setting.value("source", "") : origin, 200));
  }
  return write_output(out);
}

Status change_server(const Settings& settings, nlohmann::json change) {
  change["dry_run"] = settings.get<"dry-run">();
  DSPARK_TRY(const ServerClient server, ServerClient::create(settings, ""));
  DSPARK_TRY(const nlohmann::json answer, server.post(kPath, change));
  if (settings.get<"json">()) return write_json(answer);
  std::string out;
  const nlohmann::json changed = answer.value("changed", nlohmann::json::object());
  for (const auto& [key, values] : changed.items()) {
    out += fmt::format("{}: {} -> {}\n", key, value_text(values["from"]), value_text(values["to"]));
  }
  out += fmt::format("version {}{}\n", value_text(answer.value("version", nlohmann::json())),
                     answer.value("dry_run", false) ? "; nothing was changed" : "");
  return write_output(out);
}

// {"name": "value"} of NAME=VALUE words; the server knows the types.
Result<nlohmann::json> change_of(std::span<const std::string> words) {
  nlohmann::json change = nlohmann::json::object();
  for (const std::string& word : words) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos || equals == 0) {
      return make_error(ErrorCode::kInvalidArgument, "{}, expected NAME=VALUE", quote(word));
    }
    change[word.substr(0, equals)] = word.substr(equals + 1);
  }
  return change;
}

// get, set and rollback; nothing where the words are none of these.
Result<bool> ask_server(const Invocation& call) {
  const std::vector<std::string>& words = call.operands;
  if (words.empty()) return false;
  const std::span<const std::string> rest = std::span(words).subspan(1);
  if (words[0] == "get" && rest.size() <= 1) {
    DSPARK_RETURN_IF_ERROR(get_from_server(call.settings, rest.empty() ? "" : rest[0]));
    return true;
  }
  if (words[0] == "set" && !rest.empty()) {
    DSPARK_TRY(nlohmann::json change, change_of(rest));
    DSPARK_RETURN_IF_ERROR(change_server(call.settings, std::move(change)));
    return true;
  }
  if (words[0] == "rollback" && rest.size() == 1) {
    int version = 0;
    const auto [end, error] = std::from_chars(rest[0].data(), rest[0].data() + rest[0].size(), version);
    if (error != std::errc() || end != rest[0].data() + rest[0].size()) {
      return make_error(ErrorCode::kInvalidArgument, "{}, expected the number of a version", quote(rest[0]));
    }
    DSPARK_RETURN_IF_ERROR(change_server(call.settings, nlohmann::json::object({{"rollback", version}})));
    return true;
  }
  if (words.size() == 1 && words[0] != "set" && words[0] != "rollback") return false;
  return make_error(ErrorCode::kInvalidArgument,
                    "expected config [NAME], config get [NAME], config set NAME=VALUE..., or config rollback VERSION");
}

}  // namespace

Result<ExitCode> cmd_config(const Invocation& call) {
  DSPARK_TRY(const bool asked, ask_server(call));
  if (asked) return ExitCode::kOk;
  const bool json = call.settings.get<"json">();
  if (!call.operands.empty()) {
    const std::string& name = call.operands[0];
    const size_t index = find_setting(name);
    if (index < kSettings.size() && kSettings[index].flag_only) {
      return make_error(ErrorCode::kInvalidArgument, "'{}' belongs to one call; give it as the flag --{}",
                        printable(name), kSettings[index].name);
    }
    if (index == kSettings.size()) {
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
