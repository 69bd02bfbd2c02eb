// See drafter_choice.h.
#include "engine/drafter_choice.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/check.h"
#include "base/log.h"
#include "base/printable.h"
#include "draft/find_drafter.h"
#include "draft/model_drafter.h"
#include "draft/ngram_drafter.h"
#include "engine/model_text.h"
#include "engine/speculation.h"
#include "model/model_digest.h"

namespace dspark {
namespace {

// Somebody asked for a DSpark drafter: one that cannot be had is an error.
bool insists(const DrafterOptions& options) { return !options.file.empty() || options.with == DraftWith::kDspark; }

Result<DrafterFile> open_drafter(const std::string& path, const std::string& digest_folder, int threads) {
  DSPARK_TRY(ModelFile file, ModelFile::open(path));
  DSPARK_TRY(DsparkConfig config, read_dspark_config(file));
  DSPARK_TRY(const Sha256Digest digest, model_digest(file.tensors(), {.folder = digest_folder}, threads, {}));
  return DrafterFile{std::move(file), std::move(config), digest};
}

// What a draft model drafts are numbers of tokens: they must mean the same to both.
Status check_same_vocabulary(const Tokenizer& tokenizer, const Tokenizer& target, const std::string& path) {
  constexpr const char* kNext = "name a model of the same family with --draft-model";
  if (tokenizer.size() != target.size()) {
    return make_error(ErrorCode::kUnsupported, "{}: this draft model's vocabulary has {} tokens, the model's {}; {}",
                      path, tokenizer.size(), target.size(), kNext);
  }
  for (int32_t id = 0; id < target.size(); ++id) {
    if (tokenizer.piece(id) == target.piece(id)) continue;
    return make_error(ErrorCode::kUnsupported, "{}: token {} of this draft model is '{}', the model's is '{}'; {}",
                      path, id, printable(tokenizer.piece(id)), printable(target.piece(id)), kNext);
  }
  return Ok{};
}

Result<std::shared_ptr<Drafter>> load_model_drafter(const ModelFile& file, Runner& runner, const Tokenizer& tokenizer) {
  const std::string& path = file.tensors().path();
  DSPARK_TRY(const Tokenizer own, load_tokenizer(file));
  DSPARK_RETURN_IF_ERROR(check_same_vocabulary(own, tokenizer, path));
  DSPARK_TRY(std::unique_ptr<ModelDrafter> drafter,
             ModelDrafter::load(
                 file, runner.config().vocab, runner.pool(), runner.isa(),
                 {.kv_type = runner.kv_type(), .kv_positions = runner.kv().capacity_blocks() * kTilePositions}));
  log(LogLevel::kInfo, "draft model {}", path);
  return std::shared_ptr<Drafter>(std::move(drafter));
}

Result<std::unique_ptr<DsparkDrafter>> load_dspark_drafter(const DrafterFile& file, Runner& runner,
                                                           const std::shared_ptr<NgramStore>& store,
                                                           ThreadPool* loaders) {
  DsparkOptions options = {.kv_type = runner.kv_type(),
                           .kv_offset = runner.kv().draft_offset(),
                           .target_digest = runner.digest(),
                           .loaders = loaders};
  DSPARK_TRY(options.calibration, read_calibration(file.file.tensors().path(), file.digest));
  return DsparkDrafter::load(file.file, runner.model(), runner.pool(), runner.isa(), store, options);
}

// What is not supported now is not after a restart, either.
template <class T>
Result<T> anytime(Result<T> result) {
  if (result.ok() || result.error().code != ErrorCode::kUnsupported) return result;
  return make_error(ErrorCode::kInvalidArgument, "{}", result.error().message);
}

}  // namespace

Result<DraftWith> draft_with_from_name(std::string_view name) {
  if (name == "auto") return DraftWith::kAuto;
  if (name == "dspark") return DraftWith::kDspark;
  if (name == "ngram") return DraftWith::kNgram;
  if (name == "model") return DraftWith::kModel;
  if (name == "none") return DraftWith::kNone;
  return make_error(ErrorCode::kInvalidArgument, "'{}', expected auto, dspark, ngram, model or none", name);
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
    if (insists(options)) return chosen.error();
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

Result<DrafterFile> require_drafter(DrafterOptions options, const Sha256Digest& model, const std::string& digest_folder,
                                    int threads) {
  options.with = DraftWith::kDspark;
  DSPARK_TRY(std::optional<DrafterFile> file, choose_drafter(options, model, digest_folder, threads));
  DSPARK_CHECK(file.has_value(), "no drafter, although one is insisted on");
  return *std::move(file);
}

bool same_layouts(std::span<const KvLayout> a, std::span<const KvLayout> b) {
  return std::ranges::equal(a, b, [](const KvLayout& x, const KvLayout& y) {
    return x.type == y.type && x.kv_heads == y.kv_heads && x.head_dim == y.head_dim;
  });
}

Result<NewDrafter> load_new_drafter(const DrafterOptions& options, std::span<const KvLayout> layouts, Runner& runner,
                                    const std::shared_ptr<NgramStore>& store, const std::string& digest_folder) {
  const int threads = runner.pool().size();
  DSPARK_TRY(const DrafterFile file, anytime(require_drafter(options, runner.digest(), digest_folder, threads)));
  const std::string& path = file.file.tensors().path();
  if (const auto wanted = file.kv_layouts(runner.kv_type()); !same_layouts(wanted, layouts)) {
    return make_error(ErrorCode::kUnsupported,
                      "{}: this drafter's KV is {} layers of {} x {}, the blocks have room for {} of {} x {}; restart "
                      "with --drafter",
                      path, wanted.size(), wanted[0].kv_heads, wanted[0].head_dim, layouts.size(), layouts[0].kv_heads,
                      layouts[0].head_dim);
  }
  ThreadPool loaders({.threads = threads});
  DSPARK_TRY(std::shared_ptr<Drafter> drafter, anytime(load_dspark_drafter(file, runner, store, &loaders)));
  return NewDrafter{std::move(drafter), file.digest};
}

Result<LoadedDrafters> load_drafters(const DrafterOptions& options, const DrafterFile* file, Runner& runner,
                                     const Tokenizer& tokenizer, const std::shared_ptr<NgramStore>& store,
                                     const std::string& digest_folder) {
  LoadedDrafters out;
  if (options.with == DraftWith::kAuto || options.with == DraftWith::kNgram) {
    out.drafters.push_back(std::make_shared<NgramDrafter>(store, kMostDrafted));
  }
  if (file != nullptr) {
    auto drafter = load_dspark_drafter(*file, runner, store, nullptr);
    if (drafter.ok()) {
      log(LogLevel::kInfo, "drafter {}: {} layers, blocks of {}", file->file.tensors().path(),
          file->config.backbone.layers, file->config.block_size);
      out.drafters.push_back(std::move(*drafter));
      out.costly.push_back(file->digest);
    } else if (insists(options)) {
      return drafter.error();
    } else {
      log(LogLevel::kWarning, "no DSpark drafter: {}", drafter.error().message);
    }
  }
  if (!options.model.empty() && (options.with == DraftWith::kAuto || options.with == DraftWith::kModel)) {
    DSPARK_TRY(const ModelFile model, ModelFile::open(options.model));
    DSPARK_TRY(std::shared_ptr<Drafter> drafter, load_model_drafter(model, runner, tokenizer));
    DSPARK_TRY(const Sha256Digest digest,
               model_digest(model.tensors(), {.folder = digest_folder}, runner.pool().size(), {}));
    out.drafters.push_back(std::move(drafter));
    out.costly.push_back(digest);
  }
  return out;
}

}  // namespace dspark
