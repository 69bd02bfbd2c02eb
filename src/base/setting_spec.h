// What a setting is: its type, names, range, and the commands that take it. The table of them is settings_schema.h.
// Constant data, any thread.
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
  kRun,
  kServe,
  kCacheStats,
  kCheckEnv,
  kDebug,
  kTune,
  kTop,
  kTokenize,
  kTemplate,
  kScore,
  kInspect,
  kPull,
  kModels,
  kBench,
  kSynth,
  kSim,
  kConvertDrafter,
  kData,
  kTrain,
  kEval,
  kCalibrate,
  kProve,
  kConfig,
};
inline constexpr std::array kCommandNames = std::to_array<std::string_view>(
    {"run",   "serve",   "cache-stats", "check-env", "debug", "tune",  "top", "tokenize",        "template",
     "score", "inspect", "pull",        "models",    "bench", "synth", "sim", "convert-drafter", "data",
     "train", "eval",    "calibrate",   "prove",     "config"});
constexpr std::string_view command_name(Command command) { return kCommandNames[static_cast<size_t>(command)]; }

struct CommandSet {
  uint32_t bits = 0;
  constexpr bool has(Command command) const { return (bits >> static_cast<unsigned>(command)) & 1; }
};
template <class... Commands>
constexpr CommandSet on(Commands... commands) {
  return {((1u << static_cast<unsigned>(commands)) | ...)};
}
constexpr CommandSet operator|(CommandSet a, CommandSet b) { return {a.bits | b.bits}; }
inline constexpr CommandSet kAllCommands = {(1u << kCommandNames.size()) - 1};
// Those that look at what a server would do on this machine.
inline constexpr CommandSet kTrialCommands = on(Command::kCheckEnv, Command::kDebug, Command::kTune);
// Those that compute with a model.
inline constexpr CommandSet kEngineCommands =
    on(Command::kRun, Command::kServe, Command::kScore, Command::kBench, Command::kData, Command::kTrain,
       Command::kEval, Command::kCalibrate, Command::kProve, Command::kConfig) |
    kTrialCommands;
// Those that answer requests.
inline constexpr CommandSet kServingCommands = on(Command::kRun, Command::kServe, Command::kBench, Command::kEval,
                                                  Command::kCalibrate, Command::kProve, Command::kConfig) |
                                               kTrialCommands;
inline constexpr CommandSet kServerCommands = on(Command::kServe, Command::kConfig);
// Those that ask a running server something.
inline constexpr CommandSet kClientCommands =
    on(Command::kCacheStats, Command::kTop, Command::kBench, Command::kConfig);
// These and the server.
inline constexpr CommandSet kAddressCommands = kClientCommands | on(Command::kServe);

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
  bool secret = false;       // its value is never shown
  std::string_view value{};  // what stands for the value in help: "FILE"; empty: from the type
  std::string_view help{};
};

}  // namespace dspark
