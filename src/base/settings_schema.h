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
  kRun,
  kTokenize,
  kTemplate,
  kScore,
  kInspect,
  kPull,
  kModels,
  kBench,
  kSynth,
  kConfig,
};
inline constexpr std::array kCommandNames = std::to_array<std::string_view>(
    {"run", "tokenize", "template", "score", "inspect", "pull", "models", "bench", "synth", "config"});
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
// Those that compute with a model.
inline constexpr CommandSet kEngineCommands = on(Command::kRun, Command::kScore, Command::kBench, Command::kConfig);
// Those that answer requests.
inline constexpr CommandSet kServingCommands = on(Command::kRun, Command::kConfig);

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
     .commands = on(Command::kRun, Command::kTokenize, Command::kTemplate, Command::kScore, Command::kInspect,
                    Command::kPull, Command::kModels, Command::kBench, Command::kConfig),
     .flag_only = true,
     .help = "print JSON for a program to read"},

    // What a call reads.
    {.name = "prompt",
     .letter = 'p',
     .type = SettingType::kString,
     .commands = on(Command::kRun),
     .flag_only = true,
     .help = "the prompt; with neither -p nor -f, a terminal chats and anything else is read as the prompt"},
    {.name = "file",
     .letter = 'f',
     .type = SettingType::kString,
     .commands = on(Command::kRun, Command::kTokenize, Command::kScore),
     .flag_only = true,
     .value = "FILE",
     .help = "file to read instead, byte for byte; - is standard input"},
    {.name = "messages",
     .type = SettingType::kString,
     .fallback = "-",
     .commands = on(Command::kTemplate),
     .flag_only = true,
     .value = "FILE",
     .help =
         "conversation as JSON: a list of {role, content}, or an object with messages and tools; - is standard input"},
    {.name = "tools",
     .type = SettingType::kString,
     .commands = on(Command::kTemplate),
     .flag_only = true,
     .value = "FILE",
     .help = "list of tools as JSON"},
    {.name = "template",
     .type = SettingType::kString,
     .commands = on(Command::kTemplate),
     .flag_only = true,
     .value = "FILE",
     .help = "Jinja template to render instead of the model's"},

    // The model.
    {.name = "model",
     .letter = 'm',
     .aliases = {"model-path"},
     .type = SettingType::kString,
     .fallback = "smollm2-135m",
     .commands = on(Command::kRun, Command::kTokenize, Command::kTemplate, Command::kScore, Command::kInspect,
                    Command::kBench, Command::kConfig),
     .tokens = true,
     .value = "MODEL",
     .help = "a name that `dspark models` lists, a GGUF file, a Hugging Face folder, or a URL of a GGUF file"},
    {.name = "path",
     .type = SettingType::kString,
     .commands = on(Command::kModels),
     .flag_only = true,
     .value = "NAME",
     .help = "print only the path of this model"},
    {.name = "quantize",
     .type = SettingType::kEnum,
     .fallback = "none",
     .choices = {"none", "f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q2_k", "q3_k", "q4_k", "q5_k",
                 "q6_k", "iq4_nl", "iq4_xs"},
     .commands = on(Command::kRun, Command::kScore, Command::kInspect, Command::kBench, Command::kConfig),
     .tokens = true,
     .value = "TYPE",
     .help = "type to which float matrices are quantised when the model is loaded"},
    {.name = "kv-type",
     .type = SettingType::kEnum,
     .fallback = "f16",
     .choices = {"f32", "f16", "bf16", "q8_0"},
     .commands = on(Command::kRun, Command::kScore, Command::kInspect, Command::kBench, Command::kConfig),
     .tokens = true,
     .value = "TYPE",
     .help = "type of the cached keys and values"},
    {.name = "kv-memory",
     .type = SettingType::kSize,
     .fallback = "0",
     .min = 0,
     .commands = kEngineCommands,
     .help = "at most this much memory for keys and values, taken as it is needed; 0: half of the machine's"},
    {.name = "cache-prealloc-ratio",
     .type = SettingType::kFloat,
     .fallback = "0",
     .min = 0,
     .max = 1,
     .commands = kEngineCommands,
     .help = "part of --kv-memory that is taken at the start"},
    {.name = "dspark-shard-count",
     .type = SettingType::kInt,
     .fallback = "1",
     .min = 1,
     .max = 64,
     .commands = kEngineCommands,
     .help = "parts of the KV cache with a lock each"},
    {.name = "context",
     .letter = 'c',
     .type = SettingType::kInt,
     .fallback = "0",
     .min = 0,
     .max = 1 << 24,
     .commands = on(Command::kRun, Command::kScore, Command::kConfig),
     .help = "positions that a sequence may have; 0: what the model was trained for"},

    // The machine.
    {.name = "threads",
     .letter = 't',
     .type = SettingType::kInt,
     .fallback = "0",
     .min = 0,
     .max = 1024,
     .commands = on(Command::kRun, Command::kTokenize, Command::kScore, Command::kBench, Command::kConfig),
     .help = "threads that compute; 0: one for each core"},
    {.name = "pin",
     .type = SettingType::kBool,
     .fallback = "false",
     .commands = kEngineCommands,
     .help = "bind each thread to a core"},
    {.name = "isa",
     .type = SettingType::kEnum,
     .fallback = "auto",
     .choices = {"auto", "portable", "avx2", "avx512"},
     .commands = kEngineCommands,
     .help = "instruction set of the kernels; all give the same bits"},
    {.name = "chunk",
     .type = SettingType::kInt,
     .fallback = "512",
     .min = 1,
     .max = 65536,
     .commands = kEngineCommands,
     .help = "rows of a prompt in one step"},

    // Many requests at once.
    {.name = "dspark-scheduler-policy",
     .aliases = {"scheduler-policy"},
     .type = SettingType::kEnum,
     .fallback = "hybrid",
     .choices = {"hit-rate", "latency-aware", "hybrid"},
     .commands = kServingCommands,
     .help =
         "whose prompt is computed first: the largest cached part, the longest wait for its kind, or the fewest rows"},
    {.name = "step-budget",
     .type = SettingType::kInt,
     .fallback = "0",
     .min = 0,
     .max = 65536,
     .commands = kServingCommands,
     .help = "rows of a step in which somebody decodes; 0: as many as keep answers flowing, from the measured cost"},
    {.name = "pool",
     .type = SettingType::kString,
     .commands = kServingCommands,
     .value = "SHARES",
     .help = "shares of a step's prompt rows promised to short and long prompts, like short:0.3,long:0.7"},
    {.name = "max-running",
     .type = SettingType::kInt,
     .fallback = "96",
     .min = 1,
     .max = 4096,
     .commands = kServingCommands,
     .help = "sequences that are computed at once; others wait"},
    {.name = "max-queue",
     .type = SettingType::kInt,
     .fallback = "1024",
     .min = 1,
     .max = 1 << 20,
     .commands = kServingCommands,
     .help = "requests that may wait; more are refused"},

    // What is drawn.
    {.name = "temp",
     .type = SettingType::kFloat,
     .fallback = "0.8",
     .min = 0,
     .max = 1000,
     .commands = on(Command::kRun, Command::kConfig),
     .tokens = true,
     .help = "temperature; 0: always the likeliest token"},
    {.name = "top-k",
     .type = SettingType::kInt,
     .fallback = "40",
     .min = 0,
     .max = 1 << 24,
     .commands = on(Command::kRun, Command::kConfig),
     .tokens = true,
     .help = "draw from the k likeliest tokens; 0: from all"},
    {.name = "top-p",
     .type = SettingType::kFloat,
     .fallback = "0.95",
     .min = 0,
     .max = 1,
     .commands = on(Command::kRun, Command::kConfig),
     .tokens = true,
     .help = "draw from the likeliest tokens whose probabilities reach this sum; 1: from all"},
    {.name = "min-p",
     .type = SettingType::kFloat,
     .fallback = "0.05",
     .min = 0,
     .max = 1,
     .commands = on(Command::kRun, Command::kConfig),
     .tokens = true,
     .help = "draw from tokens at least this times as likely as the likeliest; 0: from all"},
    {.name = "repeat-penalty",
     .type = SettingType::kFloat,
     .fallback = "1",
     .min = 0.01,
     .max = 100,
     .commands = on(Command::kRun, Command::kConfig),
     .tokens = true,
     .help = "makes tokens that stand in prompt or answer less likely; 1: off"},
    {.name = "seed",
     .aliases = {"seq-seed"},
     .type = SettingType::kInt,
     .fallback = "0",
     .commands = on(Command::kRun, Command::kSynth, Command::kConfig),
     .tokens = true,
     .help = "seed of everything random: the same seed gives the same output"},
    {.name = "max-tokens",
     .letter = 'n',
     .type = SettingType::kInt,
     .fallback = "1024",
     .min = 1,
     .max = 1 << 24,
     .commands = on(Command::kRun, Command::kConfig),
     .tokens = true,
     .help = "tokens that an answer may have"},
    {.name = "stop",
     .type = SettingType::kStringList,
     .commands = on(Command::kRun, Command::kConfig),
     .tokens = true,
     .help = "text that ends the answer and is not part of it"},

    // How the prompt is made.
    {.name = "system",
     .type = SettingType::kString,
     .commands = on(Command::kRun, Command::kConfig),
     .tokens = true,
     .help = "system prompt"},
    {.name = "raw",
     .type = SettingType::kBool,
     .fallback = "false",
     .commands = on(Command::kRun),
     .flag_only = true,
     .help = "the prompt is the text itself, without the model's chat template"},
    {.name = "generation-prompt",
     .type = SettingType::kBool,
     .fallback = "true",
     .commands = on(Command::kTemplate),
     .flag_only = true,
     .help = "end with the opening of the answer"},
    {.name = "bos",
     .type = SettingType::kBool,
     .fallback = "true",
     .commands = on(Command::kTokenize),
     .flag_only = true,
     .help = "put the tokens around the text that the model asks for, such as BOS"},
    {.name = "parse-special",
     .type = SettingType::kBool,
     .fallback = "true",
     .commands = on(Command::kTokenize),
     .flag_only = true,
     .help = "read the names of control tokens in the text as those tokens"},
    {.name = "detokenize",
     .type = SettingType::kBool,
     .fallback = "false",
     .commands = on(Command::kTokenize),
     .flag_only = true,
     .help = "from tokens (numbers with anything between them) to the text"},
    {.name = "stats",
     .type = SettingType::kBool,
     .fallback = "false",
     .commands = on(Command::kRun),
     .flag_only = true,
     .help = "print speed and counts on standard error afterwards"},

    // Measurements.
    {.name = "window",
     .type = SettingType::kInt,
     .fallback = "2048",
     .min = 2,
     .max = 1 << 24,
     .commands = on(Command::kScore),
     .flag_only = true,
     .help = "the context starts again every so many tokens"},
    {.name = "batch",
     .type = SettingType::kInt,
     .fallback = "1",
     .min = 1,
     .max = 4096,
     .commands = on(Command::kBench),
     .flag_only = true,
     .help = "decode: sequences at once"},
    {.name = "prompt-len",
     .type = SettingType::kInt,
     .fallback = "0",
     .min = 0,
     .max = 1 << 24,
     .commands = on(Command::kBench),
     .flag_only = true,
     .help = "positions of each sequence before the measured steps (decode); length of the prompt, 0: 512 (prefill)"},
    {.name = "steps",
     .type = SettingType::kInt,
     .fallback = "128",
     .min = 1,
     .max = 100000,
     .commands = on(Command::kBench),
     .flag_only = true,
     .help = "decode: measured steps"},
    {.name = "rows",
     .type = SettingType::kIntList,
     .min = 1,
     .max = 4096,
     .commands = on(Command::kBench),
     .flag_only = true,
     .help = "decode: measure steps of so many rows of one sequence instead"},
    {.name = "repeats",
     .type = SettingType::kInt,
     .fallback = "9",
     .min = 1,
     .max = 1000,
     .commands = on(Command::kBench),
     .flag_only = true,
     .help = "times that prefill or the rows are measured; the median counts"},

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
     .max = 100000,
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
