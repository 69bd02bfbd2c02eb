// Attention of a step: rotation, KV, and the cut of rows, heads and tiles into tasks. The step's thread; loops run on
// the pool.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/exact_math.h"
#include "model/step_internal.h"

namespace dspark {

// Groups of rows of one sequence, as large as one attend_tile call takes; of few rows in all small ones, so that there
// is work for everybody.
void Step::find_groups() {
  groups_.clear();
  max_tiles_ = 0;
  constexpr int kFewRows = 16;
  const int most = std::max(1, std::min(rows_ <= kFewRows ? 2 : rows_, kMaxQueries / config_.group()));
  for (int row = 0; row < rows_; ++row) {
    const StepRow& current = input_.rows[static_cast<size_t>(row)];
    max_tiles_ = std::max(max_tiles_, current.position / kTilePositions + 1);
    const bool continues = !groups_.empty() && groups_.back().count < most &&
                           input_.rows[static_cast<size_t>(groups_.back().first)].sequence == current.sequence;
    if (continues) {
      ++groups_.back().count;
    } else {
      groups_.push_back({row, 1});
    }
  }
}

void Step::compute_rotations(const std::vector<double>& frequencies, Buffer<float>* cos, Buffer<float>* sin) {
  const size_t half = frequencies.size();
  cos->ensure(static_cast<size_t>(rows_) * half);
  sin->ensure(static_cast<size_t>(rows_) * half);
  for_each_row(rows_, [&](int row) {
    const double position = input_.rows[static_cast<size_t>(row)].position;
    for (size_t i = 0; i < half; ++i) {
      const double angle = position * frequencies[i];
      (*cos)[static_cast<size_t>(row) * half + i] = static_cast<float>(exact_cos(angle));
      (*sin)[static_cast<size_t>(row) * half + i] = static_cast<float>(exact_sin(angle));
    }
  });
}

// The rows of a group with the query heads of one KV head. They stay on one worker: neighbouring positions share the
// cache lines of a tile's keys.
void Step::rotate_unit(const RowGroup& group, int kv_head, const NormWeights& q_norm, const NormWeights& k_norm) {
  const int dim = config_.head_dim, shared = config_.group();
  const bool local = config_.is_local(layer_);
  const float* cos = (local ? local_cos_ : cos_).data();
  const float* sin = (local ? local_sin_ : sin_).data();
  for (int row = group.first; row < group.first + group.count; ++row) {
    const float* row_cos = cos + int64_t{row} * (dim / 2);
    const float* row_sin = sin + int64_t{row} * (dim / 2);
    auto turn = [&](float* heads, int count, const NormWeights& norm) {
      for (float* x = heads; x < heads + count * dim; x += dim) {
        if (!norm.empty()) ops_.rms_norm(x, norm.data(), dim, config_.norm_eps, x);
        ops_.rope(x, row_cos, row_sin, dim);
      }
    };
    float* queries = q_.data() + int64_t{row} * config_.q_dim() + kv_head * shared * dim;
    const int64_t at = int64_t{row} * config_.kv_dim() + kv_head * dim;
    turn(queries, shared, q_norm);
    turn(k_.data() + at, 1, k_norm);
    ops_.scale(queries, config_.query_scale, shared * dim);
    const StepRow& where = input_.rows[static_cast<size_t>(row)];
    uint8_t* block =
        input_.block_tables[static_cast<size_t>(where.sequence)][static_cast<size_t>(where.position / kTilePositions)];
    ops_.store_kv(kv_, block + layer_ * kv_.tile_bytes(), kv_head, where.position % kTilePositions, k_.data() + at,
                  v_.data() + at);
  }
}

void Step::rotate(const NormWeights& q_norm, const NormWeights& k_norm) {
  PhaseClock clock(*this, Phase::kAttention);
  const int heads = config_.kv_heads;
  const int units = static_cast<int>(groups_.size()) * heads;
  auto run_unit = [&](int unit) {
    rotate_unit(groups_[static_cast<size_t>(unit / heads)], unit % heads, q_norm, k_norm);
  };
  if (rows_ > kRowsPerTask) return pool_.run_in_order(units, run_unit, [](int, int) {});
  for (int unit = 0; unit < units; ++unit) run_unit(unit);
}

int Step::fill_queries(const RowGroup& group, int kv_head, AttentionQuery* queries) {
  const int dim = config_.head_dim;
  int count = 0;
  for (int row = group.first; row < group.first + group.count; ++row) {
    const int position = input_.rows[static_cast<size_t>(row)].position;
    const int first = first_seen(position);
    for (int i = 0; i < config_.group(); ++i) {
      const int64_t at = int64_t{row} * config_.q_dim() + (kv_head * config_.group() + i) * dim;
      queries[count++] = {q_.data() + at, attention_.data() + at, first, position};
    }
  }
  return count;
}

// Position from which `position` looks at what lies before it.
int Step::first_seen(int position) const {
  const int window = config_.layer_window(layer_);
  return window > 0 ? std::max(0, position - window + 1) : 0;
}

// The keys of a unit's first tile, null behind the last unit.
const uint8_t* Step::first_keys(size_t unit) const {
  const size_t heads = static_cast<size_t>(config_.kv_heads);
  if (unit >= groups_.size() * heads) return nullptr;
  const StepRow& row = input_.rows[static_cast<size_t>(groups_[unit / heads].first)];
  return keys(row.sequence, first_seen(row.position) / kTilePositions, static_cast<int>(unit % heads));
}

const uint8_t* Step::keys(int32_t sequence, int tile, int kv_head) const {
  return tile_data(sequence, tile) + kv_.keys_offset(kv_head);
}

const uint8_t* Step::tile_data(int32_t sequence, int tile) const {
  return input_.block_tables[static_cast<size_t>(sequence)][static_cast<size_t>(tile)] + layer_ * kv_.tile_bytes();
}

// Tile `tile` of a unit, while memory brings the next one, up to `last_tile`, then the next unit's first.
void Step::attend_tile(size_t unit, int tile, int last_tile, const AttentionQuery* queries, int count,
                       AttentionPartial* parts) {
  const size_t heads = static_cast<size_t>(config_.kv_heads);
  const int32_t sequence = input_.rows[static_cast<size_t>(groups_[unit / heads].first)].sequence;
  const int kv_head = static_cast<int>(unit % heads);
  const uint8_t* next = tile < last_tile ? keys(sequence, tile + 1, kv_head) : first_keys(unit + 1);
  ops_.attend_tile(kv_, tile_data(sequence, tile), tile, kv_head, queries, count, next, parts);
}

// All tiles of one group and KV head, merged as they come.
void Step::attend_unit(size_t unit) {
  const RowGroup& group = groups_[unit / static_cast<size_t>(config_.kv_heads)];
  const int kv_head = static_cast<int>(unit % static_cast<size_t>(config_.kv_heads));
  const size_t dim = static_cast<size_t>(config_.head_dim);
  thread_local Buffer<float> scratch;  // [kMaxQueries, 2, head_dim]
  scratch.ensure(kMaxQueries * 2 * dim);
  AttentionQuery queries[kMaxQueries];
  AttentionPartial totals[kMaxQueries], parts[kMaxQueries];
  const int count = fill_queries(group, kv_head, queries);
  for (int i = 0; i < count; ++i) {
    totals[i] = {0.0f, 0.0f, scratch.data() + static_cast<size_t>(2 * i) * dim, true};
    parts[i] = {0.0f, 0.0f, scratch.data() + static_cast<size_t>(2 * i + 1) * dim, true};
  }
  const int last_tile = queries[count - 1].last / kTilePositions;
  for (int tile = queries[0].first / kTilePositions; tile <= last_tile; ++tile) {
    attend_tile(unit, tile, last_tile, queries, count, parts);
    for (int i = 0; i < count; ++i) ops_.merge(&totals[i], parts[i], config_.head_dim);
  }
  for (int i = 0; i < count; ++i) ops_.finish(totals[i], config_.head_dim, queries[i].out);
  quantise_unit(group, kv_head);
}

// What one KV head's queries have found, ready for the product that follows.
void Step::quantise_unit(const RowGroup& group, int kv_head) {
  const int width = config_.group() * config_.head_dim, first = kv_head * width;
  if (!heads_are_pieces()) return;
  for (int row = group.first; row < group.first + group.count; ++row) {
    int16_t* wide = matmul_.wants_wide ? attention_q_.wide_row(row) + first : nullptr;
    ops_.quantise(attention_.data() + int64_t{row} * config_.q_dim() + first, width,
                  attention_q_.row(row) + first / kPiece, wide);
  }
}

// One tile of one group and KV head; whoever computes the last of them puts all together.
void Step::attend_unit_tile(size_t unit, int tile, int32_t* left) {
  const RowGroup& group = groups_[unit / static_cast<size_t>(config_.kv_heads)];
  const int kv_head = static_cast<int>(unit % static_cast<size_t>(config_.kv_heads));
  AttentionQuery queries[kMaxQueries];
  AttentionPartial parts[kMaxQueries];
  const int count = fill_queries(group, kv_head, queries);
  auto slot = [&](int i) {
    const int64_t row = group.first + i / config_.group();
    const int64_t head = kv_head * config_.group() + i % config_.group();
    return (row * config_.heads + head) * max_tiles_ + tile;
  };
  for (int i = 0; i < count; ++i) {
    parts[i] = {0.0f, 0.0f, partial_out_.data() + slot(i) * config_.head_dim, true};
  }
  const int last_tile = queries[count - 1].last / kTilePositions;
  if (tile <= last_tile) attend_tile(unit, tile, last_tile, queries, count, parts);
  for (int i = 0; i < count; ++i) partials_[static_cast<size_t>(slot(i))] = parts[i];
  if (std::atomic_ref(*left).fetch_sub(1, std::memory_order_acq_rel) > 1) return;
  for (int i = 0; i < count; ++i) {
    merge_tiles(group.first + i / config_.group(), kv_head * config_.group() + i % config_.group());
  }
  quantise_unit(group, kv_head);
}

void Step::merge_tiles(int row, int head) {
  const int64_t first = (int64_t{row} * config_.heads + head) * max_tiles_;
  AttentionPartial total = {0.0f, 0.0f, nullptr, true};
  float* out = attention_.data() + int64_t{row} * config_.q_dim() + head * config_.head_dim;
  total.out = out;
  for (int tile = 0; tile < max_tiles_; ++tile) {
    ops_.merge(&total, partials_[static_cast<size_t>(first + tile)], config_.head_dim);
  }
  ops_.finish(total, config_.head_dim, out);
}

// Tiles become tasks of their own where groups and heads alone would leave workers idle.
bool Step::split_tiles() const {
  const int64_t tasks = static_cast<int64_t>(groups_.size()) * config_.kv_heads;
  return max_tiles_ > 1 && pool_.size() > 1 && tasks < 4 * pool_.size();
}

void Step::attend() {
  PhaseClock clock(*this, Phase::kAttention);
  const int units = static_cast<int>(groups_.size()) * config_.kv_heads;
  if (split_tiles()) {
    const size_t slots = static_cast<size_t>(rows_) * static_cast<size_t>(config_.heads * max_tiles_);
    partials_.ensure(slots);
    partial_out_.ensure(slots * static_cast<size_t>(config_.head_dim));
    tiles_left_.assign(static_cast<size_t>(units), max_tiles_);
    auto run_task = [&](int task) {
      const size_t unit = static_cast<size_t>(task / max_tiles_);
      attend_unit_tile(unit, task % max_tiles_, &tiles_left_[unit]);
    };
    pool_.run_in_order(units * max_tiles_, run_task, [](int, int) {});
  } else {
    pool_.run_in_order(
        units, [&](int unit) { attend_unit(static_cast<size_t>(unit)); }, [](int, int) {});
  }
  if (heads_are_pieces()) return;
  for_each_row(rows_, [&](int row) {
    quantise_row(ops_, matmul_, attention_.data() + int64_t{row} * config_.q_dim(), config_.q_dim(), row,
                 &attention_q_);
  });
}

}  // namespace dspark
