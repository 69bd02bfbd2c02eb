// A trained drafter as a GGUF (draft/drafter_file.h), and back. Main thread.
#pragma once

#include <string>

#include "draft/drafter_file.h"
#include "train/draft_loss.h"
#include "train/parameters.h"

namespace dspark {

// Matrices become `type`, as far as quantised_type lets them; vectors and conf_proj stay floats. `target` as
// write_drafter has it.
Status export_drafter(const DsparkConfig& config, const DraftVocabulary& vocabulary,
                      const DrafterParameters& parameters, DType type, const GgufFile* target, const std::string& path);

// Whether training can go on from this drafter: kUnsupported for what is no GGUF, and for what DrafterGraph does not
// compute.
Status check_trainable(const ModelFile& file, const DsparkConfig& config, const ModelConfig& target);

// The values of a file's tensors, dequantised; a bias that it lacks is 0. kCorrupt for a tensor that is missing or has
// another shape.
Status import_drafter(const ModelFile& file, DrafterParameters* parameters);

}  // namespace dspark
