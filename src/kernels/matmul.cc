// How a product is cut into tasks and tiles: any cut gives the same bits. Called by the step's thread; the loops run
// on workers.
#include "kernels/matmul.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace dspark {
namespace {

// How far ahead of itself one tile alone asks memory for its strip's weights: two strips ahead is too far where rows
// are long.
constexpr int64_t kAheadBytes = 6 * 1024;

// Where strips are unpacked, one a thread.
thread_local Buffer<uint8_t> unpack_scratch;

TokenTile make_tile(const MatmulInput& input, int first, int count) {
  TokenTile tile = {};
  for (int t = 0; t < count; ++t) {
    const int64_t row = input.ids != nullptr ? input.ids[first + t] : first + t;
    if (input.quantised != nullptr) {
      tile.blocks[t] = input.quantised->row(row);
      tile.wide[t] = input.quantised->wide_row(row);
    }
    if (input.floats != nullptr) tile.floats[t] = input.floats + row * input.stride;
  }
  return tile;
}

// `count` (1 or 2) whole strips for all rows into out, row i at out + i * stride. With more rows than one tile, the
// strips are unpacked once and stay in cache.
void compute_strips(const MatmulKernels& kernels, const PackedMatrix& weights, int64_t strip, int count,
                    const MatmulInput& input, float* out, int64_t stride) {
  const TypeKernels& type = kernels.types[static_cast<int>(weights.type())];
  const int pieces = weights.pieces();
  const bool unpack = input.rows > 2 * kernels.tile && type.unpack != nullptr;
  const uint8_t* data = weights.strip(strip);
  int64_t bytes = weights.strip_bytes();
  if (unpack) {
    bytes = static_cast<int64_t>(pieces) * type.unpacked_piece_bytes;
    unpack_scratch.ensure(static_cast<size_t>(count * bytes));
    for (int s = 0; s < count; ++s) {
      type.unpack(weights.strip(strip + s), pieces, unpack_scratch.data() + s * bytes);
    }
    data = unpack_scratch.data();
  }
  // Meanwhile memory brings the next strips: the prefetchers of the hardware alone leave half of its speed unused.
  const int tiles = (input.rows + kernels.tile - 1) / kernels.tile;
  const bool fetch = strip + 2 * count <= weights.strips();
  const int64_t fetch_bytes = fetch ? weights.strip_bytes() / (int64_t{tiles} * pieces) + 1 : 0;  // a piece, of a strip
  const int rows_per_tile = (input.rows + tiles - 1) / tiles;  // 5 rows are 3 and 2, not 4 and 1
  for (int first = 0, i = 0; first < input.rows; first += rows_per_tile, ++i) {
    const int tokens = std::min(rows_per_tile, input.rows - first);
    TokenTile tile = make_tile(input, first, tokens);
    for (int t = 0; t < tokens; ++t) tile.out[t] = out + (first + t) * stride;
    const PairFn pair = (unpack ? type.unpacked_pair : type.packed_pair)[tokens - 1];
    if (count == 2 && pair != nullptr) {
      if (fetch) tile.next = weights.strip(strip + count) + i * pieces * count * fetch_bytes;
      tile.next_bytes = static_cast<int>(count * fetch_bytes);
      pair(data, bytes, pieces, tile);
      continue;
    }
    tile.next_bytes = static_cast<int>(fetch_bytes);
    for (int s = 0; s < count; ++s) {
      if (fetch) {
        tile.next = tiles == 1 ? weights.strip(strip + s) + kAheadBytes
                               : weights.strip(strip + count + s) + i * pieces * fetch_bytes;
      }
      (unpack ? type.unpacked : type.packed)[tokens - 1](data + s * bytes, pieces, tile);
      for (int t = 0; t < tokens; ++t) tile.out[t] += kStripRows;
    }
  }
}

// A last strip that reaches past the end of the matrix goes through a scratch tile.
void compute_last_strip(const MatmulKernels& kernels, const PackedMatrix& weights, int64_t strip,
                        const MatmulInput& input, float* out, int64_t stride) {
  const int64_t columns = weights.rows() - strip * kStripRows;
  thread_local Buffer<float> scratch;
  scratch.ensure(static_cast<size_t>(input.rows) * kStripRows);
  compute_strips(kernels, weights, strip, 1, input, scratch.data(), kStripRows);
  for (int i = 0; i < input.rows; ++i) {
    std::memcpy(out + i * stride, scratch.data() + i * kStripRows, static_cast<size_t>(columns) * sizeof(float));
  }
}

void add_bias(const MatmulJob& job, int64_t first, int64_t end, int rows) {
  for (int i = 0; i < rows; ++i) {
    for (int64_t n = first; n < end; ++n) job.y[i * job.stride + n] += job.bias[n];
  }
}

void run_strips(const MatmulKernels& kernels, const MatmulJob& job, const MatmulInput& input, int64_t begin,
                int64_t end) {
  const PackedMatrix& weights = *job.weights;
  for (int64_t strip = begin; strip < end;) {
    float* out = job.y + strip * kStripRows;
    const int64_t whole = std::min(end, weights.rows() / kStripRows) - strip;
    if (whole >= 1) {
      const int count = whole >= 2 ? 2 : 1;
      compute_strips(kernels, weights, strip, count, input, out, job.stride);
      strip += count;
    } else {
      compute_last_strip(kernels, weights, strip, input, out, job.stride);
      ++strip;
    }
  }
  if (job.bias != nullptr) add_bias(job, begin * kStripRows, std::min(end * kStripRows, weights.rows()), input.rows);
}

// Strips a task takes: enough tasks to even out the workers, enough work in each to pay for taking it.
int64_t strips_per_task(int64_t strips, int workers) {
  const int64_t even = std::max<int64_t>(2, strips / (workers * 16) / 2 * 2);
  return std::min<int64_t>(even, 64);
}

void check_input(const PackedMatrix& weights, const MatmulInput& input) {
  if (is_float(weights.type())) {
    DSPARK_CHECK(input.floats != nullptr, "float weights [{}, {}] need float rows", weights.rows(), weights.k());
  } else {
    DSPARK_CHECK(input.quantised != nullptr && input.quantised->k == weights.k(),
                 "quantised weights [{}, {}] need int8 rows of the same k", weights.rows(), weights.k());
  }
}

}  // namespace

void fetch_ahead(NextWeights next, int range, int ranges) {
  constexpr int64_t kBytes = 16 * 1024;  // of each matrix: more would wait for memory here instead of there
  for (const PackedMatrix* weights : next) {
    const int64_t first = weights->strips() * range / ranges;
    const int64_t end = weights->strips() * (range + 1) / ranges;
    const uint8_t* data = weights->strip(first);
    for (int64_t i = 0; i < std::min(kBytes, (end - first) * weights->strip_bytes()); i += 64) {
      __builtin_prefetch(data + i, 0, 2);
    }
  }
}

void matmul(ThreadPool& pool, const MatmulKernels& kernels, const MatmulInput& input, std::span<const MatmulJob> jobs,
            NextWeights next) {
  constexpr int kMaxJobs = 4;
  DSPARK_CHECK(jobs.size() <= kMaxJobs, "{} jobs", jobs.size());
  int64_t strips = 0;
  for (const MatmulJob& job : jobs) {
    check_input(*job.weights, input);
    strips += job.weights->strips();
  }
  const int64_t grain = strips_per_task(strips, pool.size());
  int first_task[kMaxJobs + 1] = {};
  for (size_t j = 0; j < jobs.size(); ++j) {
    first_task[j + 1] = first_task[j] + static_cast<int>((jobs[j].weights->strips() + grain - 1) / grain);
  }
  auto run_task = [&](int task) {
    size_t j = 0;
    while (task >= first_task[j + 1]) ++j;
    const int64_t begin = (task - first_task[j]) * grain;
    run_strips(kernels, jobs[j], input, begin, std::min(begin + grain, jobs[j].weights->strips()));
  };
  pool.run_in_order(first_task[jobs.size()], run_task,
                    [&](int range, int ranges) { fetch_ahead(next, range, ranges); });
}

void matmul_strip_pair(const MatmulKernels& kernels, const PackedMatrix& weights, int64_t strip,
                       const MatmulInput& input, float* out) {
  check_input(weights, input);
  const int count = strip + 1 < weights.strips() ? 2 : 1;
  compute_strips(kernels, weights, strip, count, input, out, 2 * kStripRows);
  if (count == 2) return;
  for (int i = 0; i < input.rows; ++i) {
    std::memset(out + i * 2 * kStripRows + kStripRows, 0, kStripRows * sizeof(float));
  }
}

const MatmulKernels& matmul_kernels(Isa isa) {
  switch (isa) {
    case Isa::kAvx512:
      return kAvx512Matmul;
    case Isa::kAvx2:
      return kAvx2Matmul;
    case Isa::kPortable:
      return kPortableMatmul;
  }
  return kPortableMatmul;
}

}  // namespace dspark
