// formats_benchmark GGML_LIBRARY: prints, as the Markdown table of docs/formats.md, how well and how fast each format's
// `quantise` does beside ggml_quantize_chunk of the given libggml-base.so (what llama-quantize calls, without an
// importance matrix). A program of one thread.
#include <dlfcn.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <ctime>
#include <functional>
#include <random>
#include <vector>

#include "kernels/formats/format.h"

namespace dspark {
namespace {

using GgmlQuantizeChunk = size_t (*)(int type, const float* source, void* blocks, int64_t start, int64_t rows,
                                     int64_t row_elements, const float* importance);

constexpr int64_t kElements = 1 << 20;
constexpr int kRepeats = 5;

double cpu_time_us() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) * 1e-3;
}

struct Outcome {
  std::vector<uint8_t> blocks;
  double rmse;            // of the values, which have standard deviation 1
  double weighted_rmse;   // squared errors weighted by x², near to what GGML minimises
  double weights_per_us;  // of CPU time, best of kRepeats
};

Outcome measure(const std::vector<float>& in, DType type, const std::function<void(uint8_t*)>& quantise) {
  Outcome outcome{.blocks = std::vector<uint8_t>(static_cast<size_t>(dtype_bytes(type, kElements))),
                  .rmse = 0.0,
                  .weighted_rmse = 0.0,
                  .weights_per_us = 0.0};
  for (int i = 0; i < kRepeats; ++i) {
    const double start_us = cpu_time_us();
    quantise(outcome.blocks.data());
    outcome.weights_per_us = std::max(outcome.weights_per_us, kElements / (cpu_time_us() - start_us));
  }
  std::vector<float> out(in.size());
  format_of(type).dequantise(outcome.blocks.data(), kElements, out.data());
  double weights = 0.0;
  for (size_t i = 0; i < in.size(); ++i) {
    const double x = in[i];
    const double error = x - static_cast<double>(out[i]);
    outcome.rmse += error * error;
    outcome.weighted_rmse += x * x * error * error;
    weights += x * x;
  }
  outcome.rmse = std::sqrt(outcome.rmse / static_cast<double>(kElements));
  outcome.weighted_rmse = std::sqrt(outcome.weighted_rmse / weights);
  return outcome;
}

std::vector<float> draw(const std::function<double(std::mt19937&)>& distribution) {
  std::mt19937 random(42);
  std::vector<float> values(kElements);
  double squares = 0.0;
  for (float& value : values) {
    value = static_cast<float>(distribution(random));
    squares += static_cast<double>(value) * static_cast<double>(value);
  }
  const float scale = static_cast<float>(1.0 / std::sqrt(squares / kElements));
  for (float& value : values) value *= scale;
  return values;
}

void print_table(const char* title, const std::vector<float>& in, GgmlQuantizeChunk ggml_quantize) {
  fmt::print("{}\n\n| type | RMSE | GGML | x²-weighted | GGML | weights/µs | GGML | blocks |\n", title);
  fmt::print("|---|---|---|---|---|---|---|---|\n");
  for (int i = static_cast<int>(DType::kQ8_0); i < kDTypeCount; ++i) {
    const auto type = static_cast<DType>(i);
    const DTypeInfo& info = dtype_info(type);
    const Outcome ours =
        measure(in, type, [&](uint8_t* blocks) { format_of(type).quantise(in.data(), kElements, blocks); });
    const Outcome ggml = measure(in, type, [&](uint8_t* blocks) {
      ggml_quantize(info.ggml_type, in.data(), blocks, 0, kElements / 1024, 1024, nullptr);
    });
    fmt::print("| {} | {:.5f} | {:.5f} | {:.5f} | {:.5f} | {:.1f} | {:.1f} | {} |\n", info.name, ours.rmse, ggml.rmse,
               ours.weighted_rmse, ggml.weighted_rmse, ours.weights_per_us, ggml.weights_per_us,
               ours.blocks == ggml.blocks ? "equal" : "differ");
  }
  fmt::print("\n");
}

int run(const char* path) {
  void* library = dlopen(path, RTLD_NOW);
  void* symbol = library ? dlsym(library, "ggml_quantize_chunk") : nullptr;
  if (!symbol) {
    fmt::print(stderr, "{}: {}\n", path, dlerror());
    return 1;
  }
  const auto ggml_quantize = reinterpret_cast<GgmlQuantizeChunk>(symbol);
  std::normal_distribution<double> normal;
  print_table("Gaussian values", draw([&](std::mt19937& random) { return normal(random); }), ggml_quantize);
  std::student_t_distribution<double> heavy(5.0);
  print_table("Student-t values, 5 degrees of freedom", draw([&](std::mt19937& random) { return heavy(random); }),
              ggml_quantize);
  return 0;
}

}  // namespace
}  // namespace dspark

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: formats_benchmark LIBGGML_BASE_SO\n");
    return 2;
  }
  return dspark::run(argv[1]);
}
