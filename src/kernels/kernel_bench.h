// Measurements behind `dspark bench kernels`: what the kernels reach from L1 against what the machine can do in
// registers, the bandwidth of memory, and the price of determinism. Not used by the engine.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/arena.h"
#include "base/thread_pool.h"
#include "kernels/dtype.h"
#include "kernels/isa.h"

namespace dspark {

// Register-only loops of the multiply and add that a kernel is built from, all threads, in 1e9 multiply-adds a second.
struct PeakRates {
  double narrow_gmacs = 0.0;  // AVX2: vpmaddubsw + vpaddw; AVX-512: vpdpbusd
  double wide_gmacs = 0.0;    // AVX2: vpmaddwd + vpaddd; AVX-512: vpdpbusd
  double float_gmacs = 0.0;   // fused multiply-add

  // That of the instructions which the kernel of `type` is built from.
  double of(DType type) const;
};

struct KernelRate {
  DType type;
  double gmacs = 0.0;         // tiles on an unpacked strip, all in L1
  double packed_gmacs = 0.0;  // decoding the packed strip for every tile
  double row_gmacs = 0.0;     // one token alone on a packed strip: what decoding computes, whatever memory brings
  double row_gb = 0.0;        // 1e9 bytes of weights a second at that rate
};

// The best of several passes over all types, with the peaks measured anew before each: a clock that others drive up and
// down must not make a share of the peak look good or bad.
struct KernelRates {
  PeakRates peak;                 // zero for portable code, which has no such loops
  std::vector<KernelRate> types;  // all, in the order of DType
};
KernelRates measure_kernels(ThreadPool& pool, Isa isa, const std::function<void(int done, int total)>& progress);

// What the fixed order of sums costs: our kernel against the fastest variant that may add in any order
// (free_order.h), one thread, on data in cache. Empty without AVX2.
struct OrderPrice {
  std::string kernel;
  double ordered_ns;
  double free_ns;
  double price() const { return ordered_ns / free_ns - 1.0; }
};
std::vector<OrderPrice> measure_order_price();

// The read bandwidth of memory: sums over a buffer by vector loads, all threads. Whoever compares something with it
// samples it between his own measurements, as memory that others use too is fast and slow by turns.
class BandwidthMeter {
 public:
  BandwidthMeter(ThreadPool& pool, int64_t bytes);
  // Ten sums in a row, so that the buffer is as warm in a large last-level cache as weights are that every step reads.
  void sample();
  // The best sum so far, in bytes a second.
  double best() const { return best_; }

 private:
  void add_up();

  ThreadPool& pool_;
  Arena arena_;  // huge pages, as weights have them
  uint8_t* data_;
  int chunks_;
  int64_t sum_ = 0;
  double best_ = 0.0;
};

}  // namespace dspark
