// `dspark convert-drafter`: a drafter of either format as GGUF in llama.cpp's layout. Main thread.
#include <fmt/format.h>

#include <filesystem>

#include "draft/drafter_file.h"
#include "model/model.h"
#include "model/model_digest.h"
#include "model/read_config.h"
#include "tools/command.h"
#include "tools/interrupt.h"
#include "tools/io.h"
#include "tools/model_choice.h"
#include "tools/progress.h"

namespace dspark {

Result<ExitCode> cmd_convert_drafter(const Invocation& call) {
  const Settings& settings = call.settings;
  DSPARK_TRY(const std::string target_path, local_model(settings.get<"model">()));
  DSPARK_TRY(const ModelFile target, ModelFile::open(target_path));
  DSPARK_TRY(const ModelFile source, ModelFile::open(call.operands[0]));
  DSPARK_TRY(const DsparkConfig config, read_dspark_config(source));
  DSPARK_TRY(const ModelConfig model, read_model_config(target));
  ConvertOptions options;
  {
    const InterruptScope interrupt;
    DSPARK_TRY(options.target_digest, model_digest(target.tensors(), {}, 1, show_progress(interrupt)));
  }
  DSPARK_RETURN_IF_ERROR(check_target(config, model, options.target_digest, call.operands[0]));
  if (settings.get<"quantize">() != "none") {
    DSPARK_TRY(options.type, dtype_from_name(settings.get<"quantize">()));
  }
  options.share_embedding = settings.get<"share-embedding">();
  options.target = target.gguf();
  const std::string& path = call.operands[1];
  DSPARK_RETURN_IF_ERROR(convert_drafter(source, options, path));
  std::string obstacle = llamacpp_obstacle(config);
  if (obstacle.empty() && target.gguf() == nullptr) {
    obstacle = "it needs a tokenizer in the file, which is copied from a target in GGUF only";
  }
  DSPARK_RETURN_IF_ERROR(write_output(
      fmt::format("{}: {} bytes, head '{}', {} layers, block of {}\n{}", path, std::filesystem::file_size(path),
                  draft_head_name(config.head), config.backbone.layers, config.block_size,
                  obstacle.empty() ? "" : fmt::format("llama.cpp cannot run it: {}\n", obstacle))));
  return ExitCode::kOk;
}

}  // namespace dspark
