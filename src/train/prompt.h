// TrainPrompt: what the target is asked while training data is generated. Plain data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/sha256.h"

namespace dspark {

struct TrainPrompt {
  std::string id;                  // "source/number", the same in every run
  std::string source;              // name of the entry of the sources file
  std::vector<std::string> turns;  // the user's; none: the target writes one itself
};

// A 64-bit number that depends on the text and a seed only: order, wordings, temperatures and seeds of the data come
// from it, so that a run that goes on where another stopped decides the same.
inline uint64_t stable_hash(std::string_view text, uint64_t seed) {
  Sha256 digest;
  digest.add_field("seed", seed);
  digest.add_field("text", text);
  const Sha256Digest bytes = digest.finish();
  uint64_t hash = 0;
  for (int i = 0; i < 8; ++i) hash = hash << 8 | bytes[static_cast<size_t>(i)];
  return hash;
}

}  // namespace dspark
