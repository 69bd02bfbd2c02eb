// Architecture: what one model family adds to the shared vocabulary: how its files name things, and its layer. One
// file each (arch_*.cc); architecture.cc lists them. Constant tables, any thread.
#pragma once

#include <span>
#include <string>

#include "model/config.h"
#include "model/model_file.h"
#include "model/step.h"
#include "model/weights.h"

namespace dspark {

struct Architecture {
  const char* gguf_name;  // general.architecture
  const char* hf_name;    // an entry of config.json's `architectures`
  Result<ModelConfig> (*read_config)(const ModelFile& file);
  Result<ModelWeights> (*load_weights)(const ModelConfig& config, WeightLoader& loader);
  void (*layer)(Step& step, const LayerWeights& weights);
  const char* hf_multimodal_name = "";  // the same for a folder of which it is the text model
};

std::span<const Architecture* const> architectures();

// By the file's own name for itself; the error lists the known ones.
Result<const Architecture*> find_architecture(const ModelFile& file);

extern const Architecture kLlama;
extern const Architecture kQwen2;
extern const Architecture kQwen3;
extern const Architecture kQwen3Moe;
extern const Architecture kGemma3;

}  // namespace dspark
