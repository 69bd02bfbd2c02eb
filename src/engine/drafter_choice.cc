// See drafter_choice.h.
#include "engine/drafter_choice.h"

#include <fmt/ranges.h>

#include "base/log.h"
#include "draft/find_drafter.h"
#include "draft/ngram_drafter.h"
#include "engine/speculation.h"
#include "model/model_digest.h"

namespace dspark {
namespace {

Result<DrafterFile> open_drafter(const std::string& path, const std::string& digest_folder, int threads) {
  DSPARK_TRY(ModelFile file, ModelFile::open(path));
  DSPARK_TRY(DsparkConfig config, read_dspark_config(file));
  DSPARK_TRY(const Sha256Digest digest, model_digest(file.tensors(), {.folder = digest_folder}, threads, {}));
  return DrafterFile{std::move(file), std::move(config), digest};
}

}  // namespace

Result<DraftWith> draft_with_from_name(std::string_view name) {
  if (name == "auto") return DraftWith::kAuto;
  if (name == "dspark") return DraftWith::kDspark;
  if (name == "ngram") return DraftWith::kNgram;
  if (name == "none") return DraftWith::kNone;
  return make_error(ErrorCode::kInvalidArgument, "'{}', expected auto, dspark, ngram or none", name);
}

std::vector<KvLayout> DrafterFile::kv_layouts(DType kv_type) const {
  return std::vector<KvLayout>(static_cast<size_t>(config.backbone.layers),
                               {kv_type, config.backbone.kv_heads, config.backbone.head_dim});
}

Result<std::optional<DrafterFile>> choose_drafter(const DrafterOptions& options, const Sha256Digest& model,
                                                  const std::string& digest_folder, int threads) {
  if (options.with != DraftWith::kAuto && options.with != DraftWith::kDspark) return std::optional<DrafterFile>();
  const bool named = !options.file.empty();
  const auto choose = [&]() -> Result<std::optional<DrafterFile>> {
    std::optional<std::string> path = options.file;
    if (!named) {
      DSPARK_TRY(path, find_drafter(options.folders, model));
      if (!path) return std::optional<DrafterFile>();
    }
    DSPARK_TRY(DrafterFile file, open_drafter(*path, digest_folder, threads));
    return std::optional<DrafterFile>(std::move(file));
  };
  auto chosen = choose();
  if (!chosen.ok()) {
    if (named || options.with == DraftWith::kDspark) return chosen.error();
    log(LogLevel::kWarning, "no DSpark drafter: {}", chosen.error().message);
    return std::optional<DrafterFile>();
  }
  if (!chosen->has_value() && options.with == DraftWith::kDspark) {
    return make_error(ErrorCode::kNotFound,
                      "no drafter for the model {} in {}; name one with --drafter FILE, or train one (dspark train)",
                      to_hex(model).substr(0, 16), fmt::join(options.folders, ", "));
  }
  return chosen;
}

Result<std::vector<std::shared_ptr<Drafter>>> load_drafters(const DrafterOptions& options, const DrafterFile* file,
                                                            Runner& runner) {
  std::vector<std::shared_ptr<Drafter>> drafters;
  const auto store = std::make_shared<NgramStore>();
  if (options.with == DraftWith::kAuto || options.with == DraftWith::kNgram) {
    drafters.push_back(std::make_shared<NgramDrafter>(store, kMostDrafted));
  }
  if (file == nullptr) return drafters;
  DSPARK_TRY(
      std::unique_ptr<DsparkDrafter> drafter,
      DsparkDrafter::load(
          file->file, runner.model(), runner.pool(), runner.isa(), store,
          {.kv_type = runner.kv_type(), .kv_offset = runner.kv().draft_offset(), .target_digest = runner.digest()}));
  log(LogLevel::kInfo, "drafter {}: {} layers, blocks of {}", file->file.tensors().path(), file->config.backbone.layers,
      file->config.block_size);
  drafters.push_back(std::move(drafter));
  return drafters;
}

}  // namespace dspark
