// See live_config.h.
#include "server/live_config.h"

#include <fmt/chrono.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/setting_json.h"
#include "server/request_schema.h"

namespace dspark {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostVersions = 64;
constexpr JsonLimits kLimits = {.max_bytes = 64 << 10, .max_depth = 4, .max_values = 1000};

bool of_server(const SettingSpec& spec) { return spec.commands.has(Command::kServe) && !spec.flag_only; }

std::string now_text() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(std::chrono::system_clock::now())));
}

// The text of a scalar as a user would have given it; nothing for anything else.
std::optional<std::string> scalar_text(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean() || value.is_number()) return value.dump();
  return std::nullopt;
}

// {key: {"from", "to"}} of what differs.
Json differences(const Settings& from, const Settings& to) {
  Json out = Json::object();
  for (size_t i = 0; i < kSettings.size(); ++i) {
    const SettingSpec& spec = kSettings[i];
    if (!spec.live || from.entry(i).value == to.entry(i).value) continue;
    out[setting_key(spec.name)] = {{"from", setting_value_json(spec, from.entry(i).value)},
                                   {"to", setting_value_json(spec, to.entry(i).value)}};
  }
  return out;
}

std::string in_words(const Json& changed) {
  std::string out;
  for (const auto& [key, values] : changed.items()) {
    out += fmt::format("{}{} {} -> {}", out.empty() ? "" : ", ", key, values["from"].dump(), values["to"].dump());
  }
  return out;
}

}  // namespace

LiveConfig::LiveConfig(Settings start, Hooks hooks) : hooks_(std::move(hooks)), start_(std::move(start)) {
  versions_.push_back({1, now_text(), "start", start_});
}

Json LiveConfig::show(std::string_view prefix) const {
  Json shown = Json::object();
  for (size_t i = 0; i < kSettings.size(); ++i) {
    const SettingSpec& spec = kSettings[i];
    if (!of_server(spec) || !spec.name.starts_with(prefix)) continue;
    shown[setting_key(spec.name.substr(prefix.size()))] = setting_json(spec, settings().entry(i));
  }
  Json history = Json::array();
  for (size_t i = 0; i < versions_.size(); ++i) {
    const Version& version = versions_[i];
    history.push_back(
        {{"version", version.number},
         {"at", version.at},
         {"by", version.by},
         {"changed", i == 0 ? Json::object() : differences(versions_[i - 1].settings, version.settings)}});
  }
  return {{"version", version()}, {"settings", std::move(shown)}, {"history", std::move(history)}};
}

std::variant<Json, ApiError> LiveConfig::change(std::string_view body, std::string_view prefix, std::string_view by) {
  auto read_body = read(body, prefix);
  if (auto* error = std::get_if<ApiError>(&read_body)) return std::move(*error);
  Wanted& wanted = std::get<Wanted>(read_body);
  if (const Status status = hooks_.check(wanted.settings); !status.ok()) {
    ApiError error{.status = 400, .message = status.error().message, .code = "invalid_setting"};
    if (status.error().code == ErrorCode::kUnsupported) error.status = 409, error.code = "needs_restart";
    return error;
  }
  Json changed = differences(settings(), wanted.settings);
  if (!wanted.dry_run && !changed.empty()) {
    hooks_.apply(wanted.settings);
    versions_.push_back({version() + 1, now_text(), std::string(by), std::move(wanted.settings)});
    if (versions_.size() > kMostVersions) versions_.pop_front();
    log(LogLevel::kWarning, "configuration version {} by {}: {}", version(), printable(by), in_words(changed));
  }
  return Json{{"version", version()}, {"dry_run", wanted.dry_run}, {"changed", std::move(changed)}};
}

std::variant<LiveConfig::Wanted, ApiError> LiveConfig::read(std::string_view body, std::string_view prefix) const {
  const auto parsed = parse_ordered_json(body, "body", kLimits);
  if (!parsed.ok()) return ApiError{.message = parsed.error().message};
  if (!parsed->is_object()) return bad_field("body", shown(*parsed), "an object of settings");
  Wanted wanted = {.settings = settings()};
  // First what the change starts from, then the change, whatever their order.
  if (const auto to = parsed->find("rollback"); to != parsed->end()) {
    if (auto error = roll_back(*to, &wanted.settings)) return std::move(*error);
  }
  for (const auto& [key, value] : parsed->items()) {
    if (key == "rollback") continue;
    if (key == "dry_run") {
      if (!value.is_boolean()) return bad_field(key, shown(value), "true or false");
      wanted.dry_run = value.get<bool>();
    } else if (key == "if_version") {
      if (!value.is_number_integer()) return bad_field(key, shown(value), "the number of a version");
      if (value != version()) {
        return ApiError{.status = 409,
                        .message = fmt::format("if_version: {}, but version {} holds", value.dump(), version()),
                        .param = key,
                        .code = "version_conflict"};
      }
    } else if (auto error = set(key, prefix, value, &wanted.settings)) {
      return std::move(*error);
    }
  }
  return wanted;
}

std::optional<ApiError> LiveConfig::set(std::string_view key, std::string_view prefix, const Json& value,
                                        Settings* settings) const {
  size_t index = find_setting(std::string(prefix) + std::string(key));
  if (index == kSettings.size()) index = find_setting(key);
  if (index == kSettings.size() || !of_server(kSettings[index])) {
    return ApiError{.message = fmt::format("{} is not a setting of the server{}", quote(key), setting_suggestion(key)),
                    .param = std::string(key),
                    .code = "unknown_setting"};
  }
  const SettingSpec& spec = kSettings[index];
  if (!spec.live) {
    return ApiError{.status = 409,
                    .message = fmt::format("{} holds from the start on; restart the server with --{}", key, spec.name),
                    .param = std::string(key),
                    .code = "needs_restart"};
  }
  if (value.is_null()) {
    *settings = settings->with(index, start_.entry(index));
    return std::nullopt;
  }
  const auto text = scalar_text(value);
  if (!text) return bad_field(key, shown(value), allowed_values(spec));
  auto parsed = parse_setting(spec, std::vector<std::string>{*text});
  if (!parsed.ok()) {
    return ApiError{.message = fmt::format("{}: {}", key, parsed.error().message), .param = std::string(key)};
  }
  if (*parsed == settings->entry(index).value) return std::nullopt;  // it keeps its origin
  *settings =
      settings->with(index, {*std::move(parsed), SettingSource::kLive, fmt::format("live, version {}", version() + 1)});
  return std::nullopt;
}

std::optional<ApiError> LiveConfig::roll_back(const Json& to, Settings* settings) const {
  const auto found = std::ranges::find_if(versions_, [&](const Version& v) { return to == v.number; });
  if (!to.is_number_integer() || found == versions_.end()) {
    return bad_field("rollback", shown(to),
                     fmt::format("a version from {} to {}", versions_.front().number, version()));
  }
  *settings = found->settings;
  return std::nullopt;
}

}  // namespace dspark
