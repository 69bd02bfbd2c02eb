// The one table of settings: every flag, DSPARK_* variable and key of the configuration file is described here, once.
// Help, parsing, validation and `dspark config` are derived from it. Constant data, any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

namespace dspark {

enum class SettingType {
  kBool,        // true or false; as a flag: --name or --no-name
  kInt,         // 64-bit
  kFloat,       // finite
  kString,      // any bytes
  kEnum,        // one of `choices`
  kSize,        // bytes, written "512MiB", "2GB" or a plain number
  kDuration,    // written "250ms", "30s", "5m", "1h"
  kStringList,  // a flag given again adds an element
  kIntList,     // "1,2,3"
};

enum class Command : uint8_t {
  kInspect,
  kPull,
  kModels,
  kBench,
  kSynth,
  kConfig,
};
inline constexpr std::array kCommandNames = std::to_array<std::string_view>({
    "inspect",
    "pull",
    "models",
    "bench",
    "synth",
    "config",
});
constexpr std::string_view command_name(Command command) { return kCommandNames[static_cast<size_t>(command)]; }

struct CommandSet {
  uint32_t bits = 0;
  constexpr bool has(Command command) const { return (bits >> static_cast<unsigned>(command)) & 1; }
};
template <class... Commands>
constexpr CommandSet on(Commands... commands) {
  return {((1u << static_cast<unsigned>(commands)) | ...)};
}
inline constexpr CommandSet kAllCommands = {(1u << kCommandNames.size()) - 1};

struct SettingSpec {
  // --max-tokens on the command line, DSPARK_MAX_TOKENS in the environment, max_tokens in the file.
  std::string_view name{};
  char letter = 0;                              // -m; 0: none
  std::array<std::string_view, 2> aliases{};    // other names, valid wherever the name is
  std::array<std::string_view, 2> variables{};  // other environment variables, whole names
  SettingType type = SettingType::kString;
  std::string_view fallback{};  // the default, as a user would write it; of a list: "" is the empty list
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  std::array<std::string_view, 18> choices{};
  CommandSet commands{};     // where the flag is accepted
  bool flag_only = false;    // says what one call does (a prompt, a file), so no variable or key sets it
  bool live = false;         // a running server can change it
  bool tokens = false;       // can change the tokens of a request
  std::string_view value{};  // what stands for the value in help: "FILE"; empty: from the type
  std::string_view help{};
};

inline constexpr std::array kSettings = std::to_array<SettingSpec>({
    {.name = "config",
     .type = SettingType::kString,
     .commands = kAllCommands,
     .value = "FILE",
     .help = "configuration file (TOML); without it $XDG_CONFIG_HOME/dspark/config.toml is read if it exists"},
    {.name = "verbose",
     .letter = 'v',
     .type = SettingType::kBool,
     .fallback = "false",
     .commands = kAllCommands,
     .help = "log what happens on standard error"},
    {.name = "json",
     .type = SettingType::kBool,
     .fallback = "false",
     .commands = on(Command::kInspect, Command::kPull, Command::kModels, Command::kBench, Command::kConfig),
     .flag_only = true,
     .help = "print JSON for a program to read"},

    // The model.
    {.name = "model",
     .letter = 'm',
     .aliases = {"model-path"},
     .type = SettingType::kString,
     .fallback = "smollm2-135m",
     .commands = on(Command::kInspect, Command::kConfig),
     .tokens = true,
     .value = "MODEL",
     .help = "a name that `dspark models` lists, a GGUF file, a Hugging Face folder, or a URL of a GGUF file"},
    {.name = "path",
     .type = SettingType::kString,
     .commands = on(Command::kModels),
     .flag_only = true,
     .value = "NAME",
     .help = "print only the path of this model"},

    // The machine.
    {.name = "threads",
     .letter = 't',
     .type = SettingType::kInt,
     .fallback = "0",
     .min = 0,
     .max = 1024,
     .commands = on(Command::kBench, Command::kConfig),
     .help = "threads that compute; 0: one for each core"},
    {.name = "pin",
     .type = SettingType::kBool,
     .fallback = "false",
     .commands = on(Command::kBench, Command::kConfig),
     .help = "bind each thread to a core"},
    {.name = "isa",
     .type = SettingType::kEnum,
     .fallback = "auto",
     .choices = {"auto", "portable", "avx2", "avx512"},
     .commands = on(Command::kBench, Command::kConfig),
     .help = "instruction set of the kernels; all give the same bits"},

    // What to draw.
    {.name = "seed",
     .aliases = {"seq-seed"},
     .type = SettingType::kInt,
     .fallback = "0",
     .commands = on(Command::kSynth, Command::kConfig),
     .tokens = true,
     .help = "seed of everything random: the same seed gives the same output"},

    // Synthetic models.
    {.name = "shape",
     .type = SettingType::kString,
     .commands = on(Command::kSynth),
     .flag_only = true,
     .value = "NAME",
     .help = "published model whose shape to take, like qwen3-4b; an unknown name is answered with the list"},
    {.name = "type",
     .type = SettingType::kString,
     .fallback = "q4_k",
     .commands = on(Command::kSynth),
     .flag_only = true,
     .value = "TYPE",
     .help = "type of the matrices"},
    {.name = "layers",
     .type = SettingType::kInt,
     .fallback = "0",
     .min = 0,
     .max = 100'000,
     .commands = on(Command::kSynth),
     .flag_only = true,
     .help = "cut to this many layers; 0: all"},
});

// The index in kSettings of the setting of exactly this name. Not finding it is a compile error in get<"name">().
consteval size_t setting_index(std::string_view name) {
  for (size_t i = 0; i < kSettings.size(); ++i) {
    if (kSettings[i].name == name) return i;
  }
  throw "no setting of this name in kSettings";
}

}  // namespace dspark
