// LiveConfig: the settings of a running server and their changes (docs/server.md, "Configuration"). A change is checked
// as a whole before anything of it holds; it gets a version, a line in the log and a place in the history, and can be
// taken back. Network thread.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <variant>

#include <nlohmann/json_fwd.hpp>

#include "base/settings.h"
#include "server/api_error.h"

namespace dspark {

class LiveConfig {
 public:
  struct Hooks {
    // Whether what runs can take these settings. The error says why not.
    std::function<Status(const Settings&)> check;
    // They hold from the next step on.
    std::function<void(const Settings&)> apply;
  };
  LiveConfig(Settings start, Hooks hooks);

  // {"version", "settings": {key: setting_json()}, "history": [{"version", "at", "by", "changed"}]}: of the settings of
  // `dspark serve` whose names begin with `prefix`, without it.
  nlohmann::ordered_json show(std::string_view prefix) const;

  // `body` is an object: settings by key, with or without `prefix`, null for what the server was started with; beside
  // them "dry_run", "rollback" (to a version) and "if_version" (the one that must hold now). `by`: for log and history.
  // The answer: {"version", "dry_run", "changed": {key: {"from", "to"}}}, or 400 for what is wrong, 409 for what needs
  // a restart or another version.
  std::variant<nlohmann::ordered_json, ApiError> change(std::string_view body, std::string_view prefix,
                                                        std::string_view by);

  int version() const { return versions_.back().number; }
  const Settings& settings() const { return versions_.back().settings; }

 private:
  struct Version {
    int number;
    std::string at;  // UTC, ISO 8601
    std::string by;
    Settings settings;
  };
  struct Wanted {
    bool dry_run = false;
    Settings settings;
  };

  std::variant<Wanted, ApiError> read(std::string_view body, std::string_view prefix) const;
  std::optional<ApiError> set(std::string_view key, std::string_view prefix, const nlohmann::ordered_json& value,
                              Settings* settings) const;
  std::optional<ApiError> roll_back(const nlohmann::ordered_json& to, Settings* settings) const;

  const Hooks hooks_;
  const Settings start_;
  std::deque<Version> versions_;  // the newest is last; the oldest are forgotten
};

}  // namespace dspark
