// The parameters of a model, read and checked without loading it. Any thread.
#pragma once

#include "model/config.h"
#include "model/model_file.h"

namespace dspark {

// What its architecture reads from `file`; an error says why this build cannot run it.
Result<ModelConfig> read_model_config(const ModelFile& file);

}  // namespace dspark
