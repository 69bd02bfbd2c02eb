// See runner.h.
#include "engine/runner.h"

#include <algorithm>

#include "base/check.h"
#include "base/cpu.h"

namespace dspark {

Runner::Runner(Model model, const RunnerOptions& options)
    : options_(options),
      model_(std::move(model)),
      pool_({.threads = options.threads, .pin = options.pin}),
      step_(model_.config(), model_.kv_layout(options.kv_type), pool_, options.isa),
      blocks_(model_.kv_block_bytes(options.kv_type),
              std::max<int64_t>(1, options.kv_memory_bytes / model_.kv_block_bytes(options.kv_type))),
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
  return std::unique_ptr<Runner>(new Runner(std::move(model), resolved));
}

// Blocks for every row's position, or none at all.
Status Runner::reserve(std::span<const RunRow> rows) {
  std::vector<Sequence*> grown;
  for (size_t first = 0, end = 0; first < rows.size(); first = end) {
    Sequence& sequence = *rows[first].sequence;
    while (end < rows.size() && rows[end].sequence == &sequence) ++end;
    const size_t positions = static_cast<size_t>(sequence.length) + end - first;
    while (sequence.blocks.size() * kTilePositions < positions) {
      Result<uint8_t*> block = blocks_.acquire();
      if (!block.ok()) {
        for (Sequence* undone : grown) {
          blocks_.release(undone->blocks.back());
          undone->blocks.pop_back();
        }
        return block.error();
      }
      sequence.blocks.push_back(*block);
      grown.push_back(&sequence);
    }
  }
  return Ok{};
}

Result<StepOutput> Runner::run(std::span<const RunRow> rows, std::span<const int> hidden_layers) {
  DSPARK_CHECK(!rows.empty(), "a step without rows");
  DSPARK_RETURN_IF_ERROR(reserve(rows));
  rows_.clear();
  sequences_.clear();
  tables_.clear();
  for (const RunRow& row : rows) {
    if (sequences_.empty() || sequences_.back() != row.sequence) {
      sequences_.push_back(row.sequence);
      tables_.push_back(row.sequence->blocks);
    }
    const int32_t sequence = static_cast<int32_t>(sequences_.size()) - 1;
    rows_.push_back({sequence, row.sequence->length++, row.token, row.wants_logits});
  }
  return model_.forward(step_, {rows_, tables_, hidden_layers});
}

void Runner::truncate(Sequence& sequence, int length) {
  DSPARK_CHECK(length >= 0 && length <= sequence.length, "truncate to {} of {}", length, sequence.length);
  sequence.length = length;
  const size_t needed = static_cast<size_t>((length + kTilePositions - 1) / kTilePositions);
  while (sequence.blocks.size() > needed) {
    blocks_.release(sequence.blocks.back());
    sequence.blocks.pop_back();
  }
}

}  // namespace dspark
