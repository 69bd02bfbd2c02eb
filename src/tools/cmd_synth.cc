// `dspark synth`: a GGUF of random weights in a published shape. Main thread.
#include <fmt/format.h>

#include <filesystem>

#include "model/synth.h"
#include "tools/command.h"
#include "tools/interrupt.h"
#include "tools/io.h"
#include "tools/progress.h"

namespace dspark {

Result<ExitCode> cmd_synth(const Invocation& call) {
  const Settings& settings = call.settings;
  const std::string& path = call.operands[0];
  DSPARK_TRY(const SynthShape shape, find_synth_shape(settings.get<"shape">()));
  DSPARK_TRY(const DType type, dtype_from_name(settings.get<"type">()));
  const InterruptScope interrupt;
  DSPARK_RETURN_IF_ERROR(write_synthetic_model(shape, type, static_cast<int>(settings.get<"layers">()),
                                               static_cast<uint64_t>(settings.get<"seed">()), path,
                                               show_progress(interrupt)));
  DSPARK_RETURN_IF_ERROR(write_output(fmt::format("{}: {} bytes\n", path, std::filesystem::file_size(path))));
  return ExitCode::kOk;
}

}  // namespace dspark
