// Synthetic models: valid GGUF files of random weights in the shape of published models, so that speed and memory can
// be measured at their sizes without their weights. One thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/report.h"
#include "base/result.h"
#include "kernels/dtype.h"

namespace dspark {

// The parameters of a published model. Head and expert counts are per layer; sizes in elements.
struct SynthShape {
  const char* name;  // "qwen3-4b"
  const char* arch;  // general.architecture
  int layers;
  int embedding;
  int heads;
  int kv_heads;
  int head_size;
  int feed_forward;
  int vocabulary;
  bool tied;  // the embedding is the output matrix, too
  float rope_base;
  float norm_epsilon;
  int context;
  int experts = 0;
  int experts_used = 0;
  int expert_feed_forward = 0;
  int sliding_window = 0;
  float rope_linear_factor = 0;  // of linear RoPE scaling; 0: none
};

// kInvalidArgument with the list of names.
Result<SynthShape> find_synth_shape(std::string_view name);

// The type that llama-quantize gives a matrix with rows of k elements when asked for `type`: itself where k is a whole
// number of blocks, else its fallback. `output`: it is the output matrix (or the embedding that serves as one).
DType synth_tensor_type(DType type, int64_t k, bool output);

// Writes `shape`, cut to `layers` layers (0: all), with matrices of `type`, norms and routers in f32 and a byte-level
// BPE vocabulary padded to the published size, which llama.cpp loads, too. The bytes depend on the arguments alone.
// Progress is in bytes of the file.
Status write_synthetic_model(const SynthShape& shape, DType type, int layers, uint64_t seed, const std::string& path,
                             const ReportProgress& progress);

}  // namespace dspark
