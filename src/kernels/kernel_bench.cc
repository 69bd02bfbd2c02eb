// Measurements of kernel_bench.h. The calling thread and the pool's workers.
#include "kernels/kernel_bench.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>

#include "base/stopwatch.h"
#include "kernels/free_order.h"
#include "kernels/matmul.h"
#include "kernels/ops.h"
#include "kernels/peak.h"

namespace dspark {
namespace {

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

constexpr int kPasses = 5;
constexpr int kRepeats = 5;
constexpr int kTokens = 12;  // whole tiles of every instruction set

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

KernelRate measure_kernel(ThreadPool& pool, Isa isa, DType type) {
  const MatmulKernels& kernels = matmul_kernels(isa);
  const TypeKernels& table = kernels.types[static_cast<int>(type)];
  const int k = is_float(type) ? 256 : 768;
  const int strips = table.packed_pair[kernels.tile - 1] != nullptr ? 2 : 1;
  const std::vector<uint8_t> file(static_cast<size_t>(dtype_bytes(type, int64_t{strips} * kStripRows * k)), 0x11);
  Arena arena;
  const PackedMatrix weights = PackedMatrix::pack(pool, arena, type, strips * kStripRows, k, file.data());
  const std::vector<float> x(static_cast<size_t>(kTokens * k), 0.5f);
  Activations activations;
  activations.resize(kTokens, k);
  for (int t = 0; t < kTokens; ++t) {
    ops(isa).quantise(x.data() + t * k, k, activations.row(t), activations.wide_row(t));
  }
  auto rate = [&](bool unpacked, int tokens) {  // [tokens] of a tile
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
        for (int first = 0; first < kTokens; first += tokens) {
          TokenTile tile = {};
          for (int t = 0; t < tokens; ++t) {
            tile.blocks[t] = activations.row(first + t);
            tile.wide[t] = activations.wide_row(first + t);
            tile.floats[t] = x.data() + (first + t) * k;
            tile.out[t] = out[first + t];
          }
          if (strips == 2) {
            (unpacked ? table.unpacked_pair : table.packed_pair)[tokens - 1](data, stride, weights.pieces(), tile);
          } else {
            (unpacked ? table.unpacked : table.packed)[tokens - 1](data, weights.pieces(), tile);
          }
        }
      }
      return int64_t{rounds} * kTokens * strips * kStripRows * k;
    });
  };
  KernelRate result = {.type = type, .packed_gmacs = rate(false, kernels.tile), .row_gmacs = rate(false, 1)};
  result.gmacs = table.unpack == nullptr ? result.packed_gmacs : rate(true, kernels.tile);
  result.row_gb = result.row_gmacs * static_cast<double>(weights.bytes()) / (int64_t{strips} * kStripRows * k);
  return result;
}

void keep_best(double& best, double found) { best = std::max(best, found); }

// Nanoseconds of one call: best of `kRepeats`, the two contestants in turn.
template <class A, class B>
OrderPrice compare(std::string kernel, A ordered, B unordered) {
  constexpr int kCalls = 2000;
  auto time = [](auto& fn) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kCalls; ++i) fn();
    return seconds_since(start) / kCalls * 1e9;
  };
  OrderPrice out = {std::move(kernel), 1e30, 1e30};
  for (int i = 0; i < kRepeats; ++i) {
    out.ordered_ns = std::min(out.ordered_ns, time(ordered));
    out.free_ns = std::min(out.free_ns, time(unordered));
  }
  return out;
}

}  // namespace

double PeakRates::of(DType type) const {
  if (is_float(type)) return float_gmacs;
  const bool is_wide = type == DType::kQ8_0 || type == DType::kIQ4_NL || type == DType::kIQ4_XS;
  return is_wide ? wide_gmacs : narrow_gmacs;
}

KernelRates measure_kernels(ThreadPool& pool, Isa isa, const std::function<void(int done, int total)>& progress) {
  KernelRates best;
  for (int i = 0; i < kDTypeCount; ++i) best.types.push_back({static_cast<DType>(i)});
  for (int pass = 0; pass < kPasses; ++pass) {
    for (KernelRate& kernel : best.types) {
      const PeakRates peak = measure_peak(pool, isa);
      keep_best(best.peak.narrow_gmacs, peak.narrow_gmacs);
      keep_best(best.peak.wide_gmacs, peak.wide_gmacs);
      keep_best(best.peak.float_gmacs, peak.float_gmacs);
      const KernelRate rate = measure_kernel(pool, isa, kernel.type);
      keep_best(kernel.gmacs, rate.gmacs);
      keep_best(kernel.packed_gmacs, rate.packed_gmacs);
      keep_best(kernel.row_gmacs, rate.row_gmacs);
      keep_best(kernel.row_gb, rate.row_gb);
      progress(pass * kDTypeCount + static_cast<int>(kernel.type) + 1, kPasses * kDTypeCount);
    }
  }
  return best;
}

std::vector<OrderPrice> measure_order_price() {
  if (!isa_supported(Isa::kAvx2)) return {};
  constexpr int kK = 1536, kRows = 2 * kStripRows;
  ThreadPool pool({.threads = 1});
  Arena arena;
  std::vector<float> x(kK), weight(kK, 1.0f), out(kK);
  for (int i = 0; i < kK; ++i) x[static_cast<size_t>(i)] = static_cast<float>(i % 37 - 18) * 0.05f;
  Activations activations;
  activations.resize(1, kK);
  const Ops& table = ops(Isa::kAvx2);
  table.quantise(x.data(), kK, activations.row(0), activations.wide_row(0));
  auto strip_of = [&](DType type) {
    const std::vector<uint8_t> file(static_cast<size_t>(dtype_bytes(type, kRows * kK)), 0x11);
    return PackedMatrix::pack(pool, arena, type, kRows, kK, file.data());
  };
  const PackedMatrix q4_1 = strip_of(DType::kQ4_1), f16 = strip_of(DType::kF16);
  MatmulInput input = {.rows = 1, .quantised = &activations, .floats = x.data(), .stride = kK};
  auto ordered = [&](const PackedMatrix& m) { matmul_strip_pair(kAvx2Matmul, m, 0, input, out.data()); };
  std::vector<OrderPrice> prices;
  prices.push_back(compare(
      "q4_1 product", [&] { ordered(q4_1); },
      [&] {
        for (int s = 0; s < 2; ++s) free_q4_1_strip_avx2(q4_1.strip(s), q4_1.pieces(), activations.row(0), out.data());
      }));
  prices.push_back(compare(
      "f16 product", [&] { ordered(f16); },
      [&] {
        for (int s = 0; s < 2; ++s) free_f16_strip_avx2(f16.strip(s), kK, x.data(), out.data());
      }));
  prices.push_back(compare(
      "rms norm", [&] { table.rms_norm(x.data(), weight.data(), kK, 1e-5f, out.data()); },
      [&] { free_rms_norm_avx2(x.data(), weight.data(), kK, 1e-5f, out.data()); }));
  std::vector<float> maxima(static_cast<size_t>(survey_size(kK)));
  table.survey(x.data(), kK, maxima.data());
  volatile double sink = 0.0;
  prices.push_back(compare(
      "softmax sum",
      [&] { sink = static_cast<double>(table.exp_sum(x.data(), maxima.data(), kK, 1.0f, 1.0f, -100.0f)); },
      [&] { sink = static_cast<double>(free_exp_sum_avx2(x.data(), kK, 1.0f)); }));
  return prices;
}

namespace {
constexpr int64_t kSumBytes = 256 * 1024;  // of one task
}

BandwidthMeter::BandwidthMeter(ThreadPool& pool, int64_t bytes)
    : pool_(pool), chunks_(static_cast<int>(std::max<int64_t>(1, bytes / kSumBytes))) {
  data_ = arena_.allocate(static_cast<size_t>(chunks_ * kSumBytes));
  pool_.run(chunks_, [&](int c) { std::memset(data_ + c * kSumBytes, c, kSumBytes); });
}

void BandwidthMeter::sample() {
  for (int i = 0; i < 10; ++i) add_up();
}

void BandwidthMeter::add_up() {
  std::atomic<int64_t> sum{0};
  const auto start = std::chrono::steady_clock::now();
  pool_.run_in_order(
      chunks_,
      [&](int c) {
        const uint8_t* data = data_ + c * kSumBytes;
        int64_t part = 0;
        if (isa_supported(Isa::kAvx2)) {
          part = sum_avx2(data, kSumBytes);
        } else {
          for (int64_t j = 0; j < kSumBytes; j += 8) part += *reinterpret_cast<const int64_t*>(data + j);
        }
        sum.fetch_add(part, std::memory_order_relaxed);
      },
      [](int, int) {});
  best_ = std::max(best_, static_cast<double>(chunks_ * kSumBytes) / seconds_since(start));
  sum_ += sum.load();
}

}  // namespace dspark
