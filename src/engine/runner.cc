// See runner.h.
#include "engine/runner.h"

#include <algorithm>

#include "base/check.h"
#include "base/cpu.h"
#include "base/machine_memory.h"
#include "model/model_digest.h"

namespace dspark {
namespace {

// fn(rows) for the rows of each sequence. Stops at an error.
template <class Fn>
Status for_each_sequence(std::span<const RunRow> rows, Fn fn) {
  for (size_t first = 0, end = 0; first < rows.size(); first = end) {
    while (end < rows.size() && rows[end].sequence == rows[first].sequence) ++end;
    DSPARK_RETURN_IF_ERROR(fn(rows.subspan(first, end - first)));
  }
  return Ok{};
}

}  // namespace

Runner::Runner(Model model, const Sha256Digest& digest, std::unique_ptr<KvCache> kv, const RunnerOptions& options)
    : options_(options),
      model_(std::move(model)),
      digest_(digest),
      pool_({.threads = options.threads, .pin = options.pin}),
      step_(model_.config(), model_.kv_layout(options.kv_type), pool_, options.isa),
      kv_(std::move(kv)),
      ops_(dspark::ops(options.isa)) {}

Result<std::unique_ptr<Runner>> Runner::create(const ModelFile& file, const RunnerOptions& options) {
  RunnerOptions resolved = options;
  if (resolved.threads == 0) resolved.threads = usable_cores();
  ThreadPool loaders({.threads = resolved.threads});
  DSPARK_TRY(Model model, Model::load(file, loaders, {.quantize = options.quantize}));
  if (options.kv_type == DType::kQ8_0 && model.config().head_dim % 32 != 0) {
    return make_error(ErrorCode::kUnsupported, "KV type q8_0 needs a head dimension that 32 divides, this model has {}",
                      model.config().head_dim);
  }
  if (!resolved.digest) {
    DSPARK_TRY(resolved.digest, model_digest(file.tensors(), {.folder = options.digest_folder}, resolved.threads, {}));
  }
  const Sha256Digest digest = *resolved.digest;
  KvCacheOptions cache;
  cache.layers.assign(static_cast<size_t>(model.config().layers), model.kv_layout(options.kv_type));
  cache.draft_layers = options.draft_layers;
  cache.drafter = options.drafter;
  cache.memory_bytes = options.kv_memory_bytes > 0 ? options.kv_memory_bytes : machine_memory_bytes() / 2;
  cache.prealloc_ratio = options.kv_prealloc_ratio;
  cache.shards = options.kv_shards;
  cache.root.model = digest;
  cache.root.kv_type = options.kv_type;
  if (options.quantize) cache.root.quantisation = dtype_info(*options.quantize).name;
  DSPARK_TRY(std::unique_ptr<KvCache> kv, KvCache::create(std::move(cache)));
  return std::unique_ptr<Runner>(new Runner(std::move(model), digest, std::move(kv), resolved));
}

SequenceKv Runner::new_sequence() { return kv_->open(kv_->announce("", "", {}), {}); }

Result<StepOutput> Runner::compute(std::span<const RunRow> rows, std::span<const int> hidden_layers) {
  DSPARK_CHECK(!rows.empty(), "a step without rows");
  rows_.clear();
  tables_.clear();
  DSPARK_RETURN_IF_ERROR(for_each_sequence(rows, [&](std::span<const RunRow> group) -> Status {
    SequenceKv& sequence = *group[0].sequence;
    DSPARK_RETURN_IF_ERROR(sequence.reserve(static_cast<int>(group.size())));
    int32_t position = sequence.length();
    for (const RunRow& row : group) {
      rows_.push_back({static_cast<int32_t>(tables_.size()), position++, row.token, row.wants_logits, row.wants_final});
    }
    tables_.push_back(sequence.table());
    return Ok{};
  }));
  return model_.forward(step_, {rows_, tables_, hidden_layers});
}

Result<StepOutput> Runner::run(std::span<const RunRow> rows, std::span<const int> hidden_layers) {
  DSPARK_TRY(const StepOutput out, compute(rows, hidden_layers));
  DSPARK_RETURN_IF_ERROR(for_each_sequence(rows, [&](std::span<const RunRow> group) -> Status {
    tokens_.clear();
    for (const RunRow& row : group) tokens_.push_back(row.token);
    group[0].sequence->commit(tokens_);
    return Ok{};
  }));
  return out;
}

}  // namespace dspark
