// Reads the configuration file, the environment and the flags into Settings. Main thread, once.
#include "base/settings.h"

#include <algorithm>
#include <cctype>

#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include "base/json.h"
#include "base/printable.h"
#include "base/read_file.h"
#include "base/suggest.h"

namespace dspark {
namespace {

constexpr std::string_view kVariablePrefix = "DSPARK_";
// Variables of the test suite (tests/README.md) and the benchmarks, not of the product.
constexpr std::string_view kForeignPrefixes[] = {"DSPARK_TEST_", "DSPARK_BENCH_"};

std::string with_dashes(std::string_view name) {
  std::string out(name);
  std::replace(out.begin(), out.end(), '_', '-');
  return out;
}

bool has_alias(const SettingSpec& spec, std::string_view name) {
  return std::find(spec.aliases.begin(), spec.aliases.end(), name) != spec.aliases.end();
}

// The text of a scalar as the user could have given it to a flag; nullopt for tables, arrays and dates.
std::optional<std::string> scalar_text(const toml::node& node) {
  if (const auto* v = node.as_boolean()) return v->get() ? "true" : "false";
  if (const auto* v = node.as_integer()) return fmt::format("{}", v->get());
  if (const auto* v = node.as_floating_point()) return fmt::format("{}", v->get());
  if (const auto* v = node.as_string()) return v->get();
  return std::nullopt;
}

// The texts of a variable: of a list of strings a JSON list, or one element.
Result<std::vector<std::string>> variable_texts(const SettingSpec& spec, std::string_view value,
                                                std::string_view variable) {
  if (spec.type != SettingType::kStringList || !value.starts_with('[')) {
    return std::vector<std::string>{std::string(value)};
  }
  DSPARK_TRY(nlohmann::json list, parse_json(value, variable));
  for (const auto& element : list) {
    if (element.is_string()) continue;
    return make_error(ErrorCode::kInvalidArgument, "{}: {} in the list, expected strings", variable,
                      printable(element.dump()));
  }
  return list.get<std::vector<std::string>>();
}

// The texts of a value of the file: of a list setting an array's elements, else one scalar.
std::optional<std::vector<std::string>> node_texts(const SettingSpec& spec, const toml::node& node) {
  const toml::array* array = node.as_array();
  const bool list = spec.type == SettingType::kStringList || spec.type == SettingType::kIntList;
  if (array == nullptr || !list) {
    auto text = scalar_text(node);
    if (!text) return std::nullopt;
    return std::vector<std::string>{*std::move(text)};
  }
  std::vector<std::string> texts;
  for (const toml::node& element : *array) {
    auto text = scalar_text(element);
    if (!text) return std::nullopt;
    texts.push_back(*std::move(text));
  }
  if (spec.type == SettingType::kIntList) return std::vector<std::string>{fmt::format("{}", fmt::join(texts, ","))};
  return texts;
}

}  // namespace

// Holds the settings while the sources are laid over each other, lowest precedence first.
class SettingsLoader {
 public:
  explicit SettingsLoader(const SettingSources& sources) : sources_(sources) {}

  Result<LoadedSettings> load() {
    for (size_t i = 0; i < kSettings.size(); ++i) {
      const SettingSpec& spec = kSettings[i];
      std::vector<std::string> texts;
      if (spec.type != SettingType::kStringList) texts.emplace_back(spec.fallback);
      auto value = parse_setting(spec, texts);
      DSPARK_CHECK(value.ok(), "default of the setting {}: {}", spec.name, value.error().message);
      entry(i).value = *std::move(value);
    }
    // The flags and variables are set first, because one of them may name the file; the file fills in the rest.
    for (const auto& [index, texts] : sources_.flags) {
      const std::string origin = fmt::format("--{}", kSettings[index].name);
      DSPARK_RETURN_IF_ERROR(set(index, texts, SettingSource::kFlag, origin, origin));
    }
    for (const std::string& line : sources_.environment) DSPARK_RETURN_IF_ERROR(read_variable(line));
    DSPARK_RETURN_IF_ERROR(read_config());
    return std::move(loaded_);
  }

 private:
  SettingEntry& entry(size_t index) { return loaded_.settings.entries_[index]; }

  // Takes a value unless a stronger source has set it; it is checked either way. `what` names it in an error.
  Status set(size_t index, const std::vector<std::string>& texts, SettingSource source, const std::string& origin,
             const std::string& what) {
    auto value = parse_setting(kSettings[index], texts);
    if (!value.ok()) return make_error(value.error().code, "{}: {}", what, value.error().message);
    SettingEntry& current = entry(index);
    if (current.source == source) {
      return make_error(ErrorCode::kInvalidArgument, "{} sets what {} has set; remove one of them", what,
                        current.origin);
    }
    if (current.source < source) current = {*std::move(value), source, origin};
    return Ok();
  }

  Status read_variable(std::string_view line) {
    const size_t equals = line.find('=');
    if (equals == std::string_view::npos) return Ok();
    const std::string_view variable = line.substr(0, equals);
    for (size_t i = 0; i < kSettings.size(); ++i) {
      const SettingSpec& spec = kSettings[i];
      if (spec.flag_only) continue;
      const auto& others = spec.variables;
      const bool named = variable == setting_variable(spec.name) ||
                         (!variable.empty() && std::find(others.begin(), others.end(), variable) != others.end()) ||
                         std::any_of(spec.aliases.begin(), spec.aliases.end(), [&](std::string_view alias) {
                           return !alias.empty() && variable == setting_variable(alias);
                         });
      if (named) {
        const std::string origin(variable);
        DSPARK_TRY(const auto texts, variable_texts(spec, line.substr(equals + 1), variable));
        return set(i, texts, SettingSource::kEnvironment, origin, origin);
      }
    }
    const bool foreign = std::any_of(std::begin(kForeignPrefixes), std::end(kForeignPrefixes),
                                     [&](std::string_view prefix) { return variable.starts_with(prefix); });
    if (variable.starts_with(kVariablePrefix) && !foreign) warn_unknown_variable(variable);
    return Ok();
  }

  void warn_unknown_variable(std::string_view variable) {
    std::vector<std::string> names;
    for (const SettingSpec& spec : kSettings) {
      if (!spec.flag_only) names.push_back(setting_variable(spec.name));
      if (spec.flag_only && variable == setting_variable(spec.name)) {
        loaded_.warnings.push_back(fmt::format(
            "the variable {} sets nothing: it belongs to one call; give it as the flag --{}", variable, spec.name));
        return;
      }
    }
    const std::vector<std::string_view> views(names.begin(), names.end());
    const std::string_view nearest = closest_name(variable, views);
    loaded_.warnings.push_back(fmt::format(
        "the variable {} sets nothing{}", printable(variable),
        nearest.empty() ? "; `dspark config` lists the known ones" : fmt::format("; did you mean {}?", nearest)));
  }

  Status read_config() {
    std::filesystem::path path = loaded_.settings.get<"config">();
    if (path.empty()) {
      std::error_code error;
      path = sources_.default_config_file;
      if (path.empty() || !std::filesystem::exists(path, error)) return Ok();
    }
    auto text = read_file(path.string(), kMaxDocumentBytes);
    if (!text.ok()) return make_error(text.error().code, "configuration {}", text.error().message);
    const toml::parse_result parsed = toml::parse(*text);
    if (parsed.failed()) {
      return make_error(ErrorCode::kInvalidArgument, "{}:{}: not valid TOML: {}", path.string(),
                        parsed.error().source().begin.line, printable(parsed.error().description(), 200));
    }
    for (const auto& [key, node] : parsed.table()) DSPARK_RETURN_IF_ERROR(read_key(path, key, node));
    return Ok();
  }

  Status read_key(const std::filesystem::path& path, const toml::key& key, const toml::node& node) {
    const std::string origin = fmt::format("{}:{}", path.string(), key.source().begin.line);
    const std::string what = fmt::format("{}: {}", origin, printable(key.str()));
    const size_t index = find_setting(key.str());
    if (index == kSettings.size()) {
      return make_error(ErrorCode::kInvalidArgument, "{} is not a setting{}", what, setting_suggestion(key.str()));
    }
    const SettingSpec& spec = kSettings[index];
    if (spec.flag_only || spec.name == "config") {
      return make_error(ErrorCode::kInvalidArgument, "{} belongs to one call; give it as the flag --{}", what,
                        spec.name);
    }
    auto texts = node_texts(spec, node);
    if (!texts) {
      return make_error(ErrorCode::kInvalidArgument, "{} has the wrong form; expected {}", what, allowed_values(spec));
    }
    return set(index, *texts, SettingSource::kFile, origin, what);
  }

  const SettingSources& sources_;
  LoadedSettings loaded_;
};

Result<LoadedSettings> load_settings(const SettingSources& sources) { return SettingsLoader(sources).load(); }

Settings Settings::with(size_t index, SettingEntry entry) const {
  Settings out = *this;
  out.entries_[index] = std::move(entry);
  return out;
}

std::string_view source_name(SettingSource source) {
  switch (source) {
    case SettingSource::kDefault:
      return "default";
    case SettingSource::kFile:
      return "file";
    case SettingSource::kEnvironment:
      return "environment";
    case SettingSource::kFlag:
      return "flag";
    case SettingSource::kLive:
      return "live";
  }
  return "";
}

size_t find_setting(std::string_view name) {
  const std::string wanted = with_dashes(name);
  if (wanted.empty()) return kSettings.size();
  const auto found = std::find_if(kSettings.begin(), kSettings.end(), [&](const SettingSpec& spec) {
    return spec.name == wanted || has_alias(spec, wanted);
  });
  return static_cast<size_t>(found - kSettings.begin());
}

std::string_view setting_to_come(std::string_view name) {
  const std::string wanted = with_dashes(name);
  const bool tiers = wanted == "dflash-enable-async-prefetch" || wanted.find("yoco") != std::string::npos;
  return tiers ? "it comes with the cache tiers, which this build does not have" : "";
}

std::string setting_suggestion(std::string_view name) {
  if (const std::string_view reason = setting_to_come(name); !reason.empty()) return fmt::format("; {}", reason);
  std::vector<std::string_view> names;
  for (const SettingSpec& spec : kSettings) names.push_back(spec.name);
  const std::string_view nearest = closest_name(with_dashes(name), names);
  return nearest.empty() ? "; `dspark config` lists the known ones" : fmt::format("; did you mean '{}'?", nearest);
}

std::string setting_variable(std::string_view name) {
  std::string out(kVariablePrefix);
  for (const char c : name) out += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return out;
}

std::string setting_key(std::string_view name) {
  std::string out(name);
  std::replace(out.begin(), out.end(), '-', '_');
  return out;
}

}  // namespace dspark
