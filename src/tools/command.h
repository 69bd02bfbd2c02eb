// What a subcommand of `dspark` is, and the table of all of them. Constant data; commands run on the main thread.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/settings.h"

namespace dspark {

// Exit codes of every command (docs/cli.md).
enum class ExitCode {
  kOk = 0,
  kFailure = 1,      // output, a folder or the network failed, or the machine did
  kUsage = 2,        // a flag, variable, key or operand is wrong
  kBadFile = 3,      // a model or file is missing, breaks its format or is beyond a limit
  kUnsupported = 4,  // valid, but not something this build can do
  kExhausted = 5,    // out of memory, disk or another bounded thing
  kInterrupted = 130,
};

ExitCode exit_code_for(ErrorCode code);

// One call of a command: its checked settings, and the words that are not flags.
struct Invocation {
  Settings settings;
  std::vector<std::string> operands;
};

struct CommandSpec {
  Command id;
  std::string_view summary;   // one line for `dspark --help`
  std::string_view operands;  // "[NAME]" in the usage line; empty if it takes none
  size_t min_operands;
  size_t max_operands;
  std::string_view details;  // more for its own --help; may be empty
  std::string_view example;  // one line that works as it is
  Result<ExitCode> (*run)(const Invocation& call);

  std::string_view name() const { return command_name(id); }
};

// In the order of `dspark --help`.
std::span<const CommandSpec> commands();

Result<ExitCode> cmd_run(const Invocation& call);
Result<ExitCode> cmd_serve(const Invocation& call);
Result<ExitCode> cmd_cache_stats(const Invocation& call);
Result<ExitCode> cmd_check_env(const Invocation& call);
Result<ExitCode> cmd_debug(const Invocation& call);
Result<ExitCode> cmd_tune(const Invocation& call);
Result<ExitCode> cmd_top(const Invocation& call);
Result<ExitCode> cmd_tokenize(const Invocation& call);
Result<ExitCode> cmd_template(const Invocation& call);
Result<ExitCode> cmd_score(const Invocation& call);
Result<ExitCode> cmd_inspect(const Invocation& call);
Result<ExitCode> cmd_pull(const Invocation& call);
Result<ExitCode> cmd_models(const Invocation& call);
Result<ExitCode> cmd_bench(const Invocation& call);
Result<ExitCode> cmd_synth(const Invocation& call);
Result<ExitCode> cmd_sim(const Invocation& call);
Result<ExitCode> cmd_convert_drafter(const Invocation& call);
Result<ExitCode> cmd_data(const Invocation& call);
Result<ExitCode> cmd_train(const Invocation& call);
Result<ExitCode> cmd_eval(const Invocation& call);
Result<ExitCode> cmd_calibrate(const Invocation& call);
Result<ExitCode> cmd_prove(const Invocation& call);
Result<ExitCode> cmd_config(const Invocation& call);

}  // namespace dspark
