// The header of a safetensors file, checked whole: names, types, shapes and places of its tensors. Pure, any thread.
// Format: the safetensors README ("Format"): 64-bit length, JSON header, one buffer without holes.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/tensor_source.h"

namespace dspark {

// The tensors in the order of their data, which point into `bytes`, the whole file. `file` is its name in messages.
// Types other than F32, F16 and BF16 are listed, but refused when used.
Result<std::vector<TensorInfo>> parse_safetensors(std::span<const uint8_t> bytes, std::string_view file);

// One entry of model.safetensors.index.json: which file of the folder holds a tensor.
struct ShardEntry {
  std::string tensor;
  std::string file;  // a plain name, never a path
};

// The entries of an index, sorted by file, then tensor. `file` is the index's name in messages.
Result<std::vector<ShardEntry>> parse_safetensors_index(std::string_view text, std::string_view file);

}  // namespace dspark
