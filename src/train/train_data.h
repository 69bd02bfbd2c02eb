// The conversations that a drafter is trained on, as `dspark data generate` wrote them. Read once; then const.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "train/draft_loss.h"

namespace dspark {

struct TrainConversation {
  std::string id;
  std::vector<int32_t> tokens;
  std::vector<std::array<int32_t, 2>> answers;  // ranges of tokens that the target wrote, ascending
  double temperature = 0;
  uint64_t seed = 0;

  int64_t answer_tokens() const;
};

struct TrainData {
  std::vector<TrainConversation> train, held_out;
  int64_t answer_tokens() const;  // of train
};

// kCorrupt names the line. One conversation in `held_out_every` is held out, by a hash of its prompt, so that all
// samples of a prompt are on the same side. A torn last line is left out.
Result<TrainData> load_train_data(const std::string& path, int vocab, int held_out_every);

// The `size` tokens that the answers hold most often, ascending; the whole vocabulary if size is not smaller.
DraftVocabulary frequent_tokens(const TrainData& data, int vocab, int size);

}  // namespace dspark
