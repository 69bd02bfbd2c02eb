// A trained drafter as a GGUF (draft/drafter_file.h). Main thread.
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

}  // namespace dspark
