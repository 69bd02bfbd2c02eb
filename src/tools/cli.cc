// See cli.h. Main thread.
#include "tools/cli.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <new>

#include "base/log.h"
#include "base/printable.h"
#include "base/suggest.h"
#include "tools/command.h"
#include "tools/compute.h"
#include "tools/help.h"
#include "tools/io.h"

namespace dspark {
namespace {

struct ParsedFlags {
  bool help = false;
  std::map<size_t, std::vector<std::string>> values;  // by index in kSettings
  std::vector<std::string> operands;
};

// All spellings of a setting for CLI11: "-m,--model,--model-path,--model_path", of a bool also "!--no-raw".
std::string flag_names(const SettingSpec& spec) {
  std::string names = spec.letter != 0 ? fmt::format("-{}", spec.letter) : "";
  const auto add = [&](std::string_view prefix, std::string_view name) {
    names += fmt::format("{}{}{}", names.empty() ? "" : ",", prefix, name);
    if (name.find('-') != std::string_view::npos) names += fmt::format(",{}{}", prefix, setting_key(name));
  };
  add("--", spec.name);
  for (std::string_view alias : spec.aliases) {
    if (!alias.empty()) add("--", alias);
  }
  if (spec.type == SettingType::kBool) add("!--no-", spec.name);
  return names;
}

// What to say of a flag that the command does not have.
Error unknown_flag(const CommandSpec& command, std::string_view flag) {
  const std::string_view name = flag.substr(std::min(flag.find_first_not_of('-'), flag.size()));
  const std::string_view bare = name.substr(0, name.find('='));
  const size_t index = find_setting(bare.starts_with("no-") ? bare.substr(3) : bare);
  if (index < kSettings.size()) {
    std::vector<std::string_view> owners;
    for (const CommandSpec& other : commands()) {
      if (kSettings[index].commands.has(other.id)) owners.push_back(other.name());
    }
    return make_error(ErrorCode::kInvalidArgument, "--{} is no flag of `dspark {}`; it belongs to {}",
                      kSettings[index].name, command.name(), fmt::join(owners, ", "));
  }
  if (const std::string_view reason = setting_to_come(bare.starts_with("no-") ? bare.substr(3) : bare);
      !reason.empty()) {
    return make_error(ErrorCode::kUnsupported, "'{}' cannot be used: {}", printable(flag), reason);
  }
  std::vector<std::string_view> known;
  for (const SettingSpec& spec : kSettings) {
    if (spec.commands.has(command.id)) known.push_back(spec.name);
  }
  const std::string_view nearest = closest_name(bare, known);
  return make_error(ErrorCode::kInvalidArgument, "unknown flag '{}'; {}", printable(flag),
                    nearest.empty() ? fmt::format("see `dspark {} --help`", command.name())
                                    : fmt::format("did you mean --{}?", nearest));
}

Result<ParsedFlags> parse_flags(const CommandSpec& command, std::vector<std::string> arguments) {
  CLI::App app;
  app.allow_extras();
  app.set_help_flag();
  CLI::Option* help = app.add_flag("-h,--help");
  std::map<size_t, CLI::Option*> options;
  for (size_t i = 0; i < kSettings.size(); ++i) {
    const SettingSpec& spec = kSettings[i];
    if (!spec.commands.has(command.id)) continue;
    const bool flag = spec.type == SettingType::kBool;
    options[i] = flag ? app.add_flag(flag_names(spec)) : app.add_option(flag_names(spec));
    options[i]->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)->allow_extra_args(false);
  }
  try {
    std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them from the back
    app.parse(std::move(arguments));
  } catch (const CLI::ArgumentMismatch& error) {
    const std::string text = error.what();  // "--threads: 1 required TEXT missing"
    return make_error(ErrorCode::kInvalidArgument, "{} needs a value; see `dspark {} --help`",
                      printable(text.substr(0, text.find(':')), 200), command.name());
  } catch (const CLI::ParseError& error) {
    return make_error(ErrorCode::kInvalidArgument, "{}; see `dspark {} --help`", printable(error.what(), 200),
                      command.name());
  }
  ParsedFlags parsed;
  parsed.help = help->count() > 0;
  for (const auto& [index, option] : options) {
    if (option->count() == 0) continue;
    std::vector<std::string> texts = option->results();
    if (kSettings[index].type != SettingType::kStringList) texts = {texts.back()};
    parsed.values[index] = std::move(texts);
  }
  for (const std::string& word : app.remaining()) {
    if (word.size() > 1 && word[0] == '-') return unknown_flag(command, word);
    parsed.operands.push_back(word);
  }
  return parsed;
}

std::filesystem::path default_config_file(const std::vector<std::string>& environment) {
  const auto variable = [&](std::string_view name) -> std::string_view {
    for (const std::string& line : environment) {
      if (line.starts_with(name)) return std::string_view(line).substr(name.size());
    }
    return {};
  };
  if (const auto folder = variable("XDG_CONFIG_HOME="); !folder.empty()) {
    return std::filesystem::path(folder) / "dspark" / "config.toml";
  }
  if (const auto home = variable("HOME="); !home.empty()) {
    return std::filesystem::path(home) / ".config" / "dspark" / "config.toml";
  }
  return {};
}

// What was set, and by whom.
void log_choices(const Settings& settings) {
  for (size_t i = 0; i < kSettings.size(); ++i) {
    const SettingEntry& entry = settings.entry(i);
    if (entry.source == SettingSource::kDefault) continue;
    log(LogLevel::kInfo, "{} = {} ({})", kSettings[i].name, printable(format_setting(kSettings[i], entry.value)),
        entry.origin);
  }
}

Result<ExitCode> run_command(const CommandSpec& command, std::vector<std::string> arguments,
                             const std::vector<std::string>& environment) {
  DSPARK_TRY(ParsedFlags flags, parse_flags(command, std::move(arguments)));
  if (flags.help) {
    DSPARK_RETURN_IF_ERROR(write_output(command_help(command)));
    return ExitCode::kOk;
  }
  if (flags.operands.size() < command.min_operands || flags.operands.size() > command.max_operands) {
    return make_error(ErrorCode::kInvalidArgument, "usage: dspark {} [options]{}{}; see `dspark {} --help`",
                      command.name(), command.operands.empty() ? "" : " ", command.operands, command.name());
  }
  DSPARK_TRY(LoadedSettings loaded,
             load_settings({std::move(flags.values), environment, default_config_file(environment)}));
  DSPARK_RETURN_IF_ERROR(check_settings(loaded.settings));
  if (loaded.settings.get<"verbose">()) set_log_level(LogLevel::kDebug);
  log_choices(loaded.settings);
  for (const std::string& warning : loaded.warnings) fmt::print(stderr, "dspark: warning: {}\n", warning);
  return command.run({std::move(loaded.settings), std::move(flags.operands)});
}

const CommandSpec* find_command(std::string_view name) {
  for (const CommandSpec& command : commands()) {
    if (command.name() == name) return &command;
  }
  return nullptr;
}

Error unknown_command(std::string_view name) {
  const std::string_view nearest = closest_name(name, kCommandNames);
  return make_error(ErrorCode::kInvalidArgument, "unknown command '{}'; {}", printable(name),
                    nearest.empty() ? "see `dspark --help`" : fmt::format("did you mean `dspark {}`?", nearest));
}

Result<ExitCode> dispatch(std::vector<std::string> arguments, const std::vector<std::string>& environment) {
  if (arguments.empty()) {
    return make_error(ErrorCode::kInvalidArgument, "no command given; `dspark --help` lists them");
  }
  const std::string name = arguments.front();
  arguments.erase(arguments.begin());
  const bool help = name == "--help" || name == "-h" || name == "help";
  if (help && !arguments.empty()) {  // dspark help run
    const CommandSpec* command = find_command(arguments.front());
    if (command == nullptr) return unknown_command(arguments.front());
    DSPARK_RETURN_IF_ERROR(write_output(command_help(*command)));
    return ExitCode::kOk;
  }
  if (help || name == "--version") {
    DSPARK_RETURN_IF_ERROR(write_output(help ? program_help() : "dspark " DSPARK_VERSION "\n"));
    return ExitCode::kOk;
  }
  const CommandSpec* command = find_command(name);
  if (command == nullptr) return unknown_command(name);
  return run_command(*command, std::move(arguments), environment);
}

}  // namespace

int run_command_line(const std::vector<std::string>& arguments, const std::vector<std::string>& environment) {
  Result<ExitCode> result = ExitCode::kOk;
  try {
    result = dispatch(arguments, environment);
  } catch (const std::bad_alloc&) {
    result = make_error(ErrorCode::kExhausted, "out of memory; a smaller model, window or batch needs less");
  }
  if (result.ok()) return static_cast<int>(*result);
  if (!result.error().message.empty()) print_error(result.error().message);
  return static_cast<int>(exit_code_for(result.error().code));
}

}  // namespace dspark
