// Checkpoints of training: everything that the next step depends on, so that a resumed run has the bits of one that was
// never interrupted. Written whole or not at all. Main thread.
#pragma once

#include <cstdint>
#include <string>

#include "train/draft_loss.h"
#include "train/parameters.h"

namespace dspark {

struct TrainState {
  int64_t step = 0;                 // steps that are done
  int64_t predictions = 0;          // slots trained on
  double seconds = 0.0;             // of computing
  std::vector<int32_t> vocabulary;  // of the drafter; empty: all
  std::string recipe;               // text of the recipe that it belongs to
};

Status save_checkpoint(const std::string& path, const TrainState& state, const DrafterParameters& parameters);

// The part that says what parameters there are. kNotFound where there is no file, kCorrupt for one that is none.
Result<TrainState> read_train_state(const std::string& path);
// kCorrupt unless the file holds exactly these parameters.
Status load_checkpoint(const std::string& path, DrafterParameters* parameters);

// The values of another training's checkpoint, for a drafter of the same kind that may have other tokens: rows of
// tokens that both can say are taken over, the others become their mean. Moments stay as they are. kCorrupt for another
// kind of drafter and for a file that ends too soon.
Status start_from_checkpoint(const std::string& path, const std::vector<int32_t>& vocabulary,
                             DrafterParameters* parameters);

}  // namespace dspark
