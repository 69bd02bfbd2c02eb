// Measurements of kernel_bench.h. The calling thread and the pool's workers.
#include "kernels/kernel_bench.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>

#include "kernels/matmul.h"
#include "kernels/ops.h"
#include "kernels/peak.h"

namespace dspark {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Best rate of `repeats` runs of fn on every thread at once; fn returns the multiply-adds it did.
template <class Fn>
double best_gmacs(ThreadPool& pool, int repeats, Fn fn) {
  double best = 0.0;
  for (int i = 0; i < repeats; ++i) {
    std::atomic<int64_t> work{0};
    const auto start = std::chrono::steady_clock::now();
    pool.run(pool.size(), [&](int) { work += fn(); });
    best = std::max(best, static_cast<double>(work.load()) / seconds_since(start) * 1e-9);
  }
  return best;
}

constexpr int kRepeats = 15;
constexpr int kTokens = 12;  // whole tiles of every instruction set

}  // namespace

PeakRates measure_peak(ThreadPool& pool, Isa isa) {
  if (isa == Isa::kPortable) return {};
  const PeakLoops& loops = isa == Isa::kAvx512 ? kAvx512Peak : kAvx2Peak;
  auto rate = [&](int64_t (*loop)(int64_t, int32_t*)) {
    return best_gmacs(pool, kRepeats, [&] {
      int32_t sink = 0;
      return loop(200'000, &sink) + (sink == 12345 ? 1 : 0);
    });
  };
  return {rate(loops.narrow), rate(loops.wide), rate(loops.floats)};
}

KernelRate measure_kernel(ThreadPool& pool, Isa isa, DType type, const PeakRates& peak) {
  const MatmulKernels& kernels = matmul_kernels(isa);
  const TypeKernels& table = kernels.types[static_cast<int>(type)];
  const int k = is_float(type) ? 256 : 768;
  const int strips = kernels.pairs ? 2 : 1;
  const std::vector<uint8_t> file(static_cast<size_t>(dtype_bytes(type, int64_t{strips} * kStripRows * k)), 0x11);
  Arena arena;
  const PackedMatrix weights = PackedMatrix::pack(pool, arena, type, strips * kStripRows, k, file.data());
  const std::vector<float> x(static_cast<size_t>(kTokens * k), 0.5f);
  Activations activations;
  activations.resize(kTokens, k);
  for (int t = 0; t < kTokens; ++t) {
    ops(isa).quantise(x.data() + t * k, k, activations.row(t), activations.wide_row(t));
  }
  auto rate = [&](bool unpacked) {
    return best_gmacs(pool, kRepeats, [&] {
      Buffer<uint8_t> scratch(static_cast<size_t>(strips) * weights.pieces() * (table.unpacked_piece_bytes + 64));
      const uint8_t* data = weights.strip(0);
      int64_t stride = weights.strip_bytes();
      if (unpacked) {
        stride = int64_t{weights.pieces()} * table.unpacked_piece_bytes;
        for (int s = 0; s < strips; ++s) table.unpack(weights.strip(s), weights.pieces(), scratch.data() + s * stride);
        data = scratch.data();
      }
      alignas(64) float out[kTokens][2 * kStripRows];
      const int rounds = isa == Isa::kPortable ? 2 : 300;
      for (int round = 0; round < rounds; ++round) {
        for (int first = 0; first < kTokens; first += kernels.tile) {
          TokenTile tile = {};
          for (int t = 0; t < kernels.tile; ++t) {
            tile.blocks[t] = activations.row(first + t);
            tile.wide[t] = activations.wide_row(first + t);
            tile.floats[t] = x.data() + (first + t) * k;
            tile.out[t] = out[first + t];
          }
          if (strips == 2) {
            (unpacked ? table.unpacked_pair : table.packed_pair)[kernels.tile - 1](data, stride, weights.pieces(),
                                                                                   tile);
          } else {
            (unpacked ? table.unpacked : table.packed)[kernels.tile - 1](data, weights.pieces(), tile);
          }
        }
      }
      return int64_t{rounds} * kTokens * strips * kStripRows * k;
    });
  };
  KernelRate result = {type, 0.0, rate(false), 0.0};
  result.gmacs = table.unpack == nullptr ? result.packed_gmacs : rate(true);
  const bool wide = type == DType::kQ8_0 || type == DType::kIQ4_NL || type == DType::kIQ4_XS;
  const double top = is_float(type) ? peak.float_gmacs : wide ? peak.wide_gmacs : peak.narrow_gmacs;
  result.peak_share = top > 0.0 ? result.gmacs / top : 0.0;
  return result;
}

double measure_bandwidth(ThreadPool& pool, int64_t bytes) {
  constexpr int64_t kChunk = 256 * 1024;
  const int64_t chunks = std::max<int64_t>(1, bytes / kChunk);
  Buffer<uint8_t> buffer(static_cast<size_t>(chunks * kChunk));
  pool.run(static_cast<int>(chunks), [&](int c) { std::memset(buffer.data() + c * kChunk, c, kChunk); });
  double best = 0.0;
  std::atomic<int64_t> sink{0};
  for (int i = 0; i < 10; ++i) {
    const auto start = std::chrono::steady_clock::now();
    pool.run(static_cast<int>(chunks), [&](int c) {
      const uint8_t* data = buffer.data() + c * kChunk;
      int64_t sum = 0;
      if (isa_supported(Isa::kAvx2)) {
        sum = sum_avx2(data, kChunk);
      } else {
        for (int64_t j = 0; j < kChunk; j += 8) sum += *reinterpret_cast<const int64_t*>(data + j);
      }
      sink.fetch_add(sum, std::memory_order_relaxed);
    });
    best = std::max(best, static_cast<double>(chunks * kChunk) / seconds_since(start));
  }
  return best;
}

}  // namespace dspark
