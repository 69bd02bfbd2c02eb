// See help.h. Pure, any thread.
#include "tools/help.h"

#include <fmt/format.h>

#include <algorithm>

namespace dspark {
namespace {

constexpr size_t kWidth = 100;         // columns of a help line
constexpr size_t kTextColumn = 30;     // where the description of a flag starts
constexpr size_t kSummaryColumn = 20;  // where the summary of a command starts

std::string_view placeholder(const SettingSpec& spec) {
  if (!spec.value.empty()) return spec.value;
  switch (spec.type) {
    case SettingType::kBool:
      return "";
    case SettingType::kInt:
      return "N";
    case SettingType::kFloat:
      return "X";
    case SettingType::kSize:
      return "SIZE";
    case SettingType::kDuration:
      return "TIME";
    case SettingType::kIntList:
      return "N,N,...";
    case SettingType::kEnum:
      return "NAME";
    case SettingType::kString:
    case SettingType::kStringList:
      return "TEXT";
  }
  return "";
}

// `text` broken at spaces to end before kWidth; the first line starts at `column`, the others are indented to it.
std::string wrap(std::string_view text, size_t column) {
  std::string out;
  size_t used = column;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    if (used > column && used + 1 + end > kWidth) {
      out += '\n' + std::string(column, ' ');
      used = column;
    } else if (used > column) {
      out += ' ';
      ++used;
    }
    out += text.substr(0, end);
    used += end;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

std::string flag_text(const SettingSpec& spec) {
  std::string text(spec.help);
  if (spec.type == SettingType::kEnum) text += fmt::format(" ({})", allowed_values(spec));
  if (spec.type != SettingType::kBool && !spec.fallback.empty()) text += fmt::format(" [default: {}]", spec.fallback);
  if (spec.type == SettingType::kStringList) text += " [may be given again]";
  for (std::string_view alias : spec.aliases) {
    if (!alias.empty()) text += fmt::format(" [also --{}]", alias);
  }
  return text;
}

std::string flag_lines(const SettingSpec& spec) {
  std::string left = "  " + flag_usage(spec);
  if (left.size() + 2 > kTextColumn) {
    left += '\n' + std::string(kTextColumn, ' ');
  } else {
    left.resize(kTextColumn, ' ');
  }
  return left + wrap(flag_text(spec), kTextColumn) + '\n';
}

}  // namespace

std::string flag_usage(const SettingSpec& spec) {
  std::string out = spec.letter != 0 ? fmt::format("-{}, ", spec.letter) : "    ";
  out += spec.type == SettingType::kBool && spec.fallback == "true" ? "--[no-]" : "--";
  out += spec.name;
  if (const std::string_view value = placeholder(spec); !value.empty()) out += fmt::format(" {}", value);
  return out;
}

std::string program_help() {
  std::string out =
      "dspark: run language models, fast and reproducibly\n\nUsage: dspark COMMAND [options]\n\nCommands:\n";
  for (const CommandSpec& command : commands()) {
    out += fmt::format("  {:<{}}{}\n", command.name(), kSummaryColumn - 2, command.summary);
  }
  out +=
      "\nExample:\n  dspark run -p \"Why is the sky blue?\"\n\n`dspark COMMAND --help` tells more; `dspark --version` "
      "prints the version.\n";
  return out;
}

std::string command_help(const CommandSpec& command) {
  std::string out = fmt::format("dspark {}: {}\n\nUsage: dspark {} [options]{}{}\n", command.name(), command.summary,
                                command.name(), command.operands.empty() ? "" : " ", command.operands);
  if (!command.details.empty()) out += '\n' + wrap(command.details, 0) + '\n';
  out += fmt::format("\nExample:\n  {}\n\nOptions:\n", command.example);
  for (const SettingSpec& spec : kSettings) {
    if (spec.commands.has(command.id)) out += flag_lines(spec);
  }
  out += "  -h, --help                  this text\n\n";
  out += wrap(
      "Settings that last can also be given as a variable (DSPARK_THREADS for --threads) or in the "
      "configuration file (threads = 2): see `dspark config`. Exit codes: docs/cli.md.",
      0);
  return out + '\n';
}

}  // namespace dspark
