// See read_config.h.
#include "model/read_config.h"

#include "model/architecture.h"

namespace dspark {

Result<ModelConfig> read_model_config(const ModelFile& file) {
  DSPARK_TRY(const Architecture* architecture, find_architecture(file));
  DSPARK_TRY(ModelConfig config, architecture->read_config(file));
  DSPARK_RETURN_IF_ERROR(check_config(config, file.tensors().path()));
  return config;
}

}  // namespace dspark
