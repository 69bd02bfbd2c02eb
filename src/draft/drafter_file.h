// Writing drafters as GGUF in llama.cpp's layout with our keys (docs/drafter.md): from a trainer's tensors, or from
// another file of either format. One thread.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "draft/dspark_config.h"

namespace dspark {

// A tensor to be written: `data` is row-major in `source`; it becomes `type`, of which source's rows are whole blocks.
struct DrafterTensor {
  std::string name;  // GGUF's
  std::vector<int64_t> shape;
  DType source;
  const uint8_t* data;
  DType type;
};

// Every parameter is `config`'s. `vocabulary`: target ids of the head's rows, empty for all. `target`: the target's
// GGUF, whose tokenizer is copied so that llama.cpp can read the file; may be null.
Status write_drafter(const DsparkConfig& config, std::span<const DrafterTensor> tensors,
                     std::span<const int32_t> vocabulary, const GgufFile* target, const std::string& path);

struct ConvertOptions {
  std::optional<DType> type = {};  // float matrices become this type, where it divides their rows (quantised_type)
  bool share_embedding = false;    // embedding and whole head are left out: the target's are used
  std::optional<Sha256Digest> target_digest = {};  // recorded where the source does not say
  const GgufFile* target = nullptr;                // as above
};

// Reads a drafter and writes it. Errors as read_dspark_config, and kInvalidArgument for a head without its own matrix
// that cannot be shared.
Status convert_drafter(const ModelFile& source, const ConvertOptions& options, const std::string& path);

// Why llama.cpp cannot run such a drafter; empty if it can, given a tokenizer in the file.
std::string llamacpp_obstacle(const DsparkConfig& config);

}  // namespace dspark
