// See model_choice.h. Main thread.
#include "tools/model_choice.h"

#include "model/registry.h"
#include "tools/interrupt.h"
#include "tools/progress.h"

namespace dspark {

Result<std::string> local_model(const std::string& model) {
  ModelStore store;
  if (!is_model_path(store, model)) {
    DSPARK_TRY(store, ModelStore::standard());
  }
  const InterruptScope interrupt;
  return pull_model(store, model, show_progress(interrupt));
}

}  // namespace dspark
