// A bigram table as two thin matrices, where the sequential head starts: W2 W1[a] approximates how much more often b
// follows a than b comes at all. Pure.
#pragma once

#include <vector>

#include "train/train_data.h"

namespace dspark {

struct BigramFactors {
  std::vector<float> w1;  // [target vocabulary, rank]
  std::vector<float> w2;  // [rows of the drafter's vocabulary, rank]
};

// The best rank-`rank` approximation, by randomised subspace iteration (Halko, Martinsson and Tropp, 2011), of
// log(P(b | a) / P(b)) over the pairs in the answers, where it is positive; each side takes the root of the singular
// values. Counts are smoothed by one: a pair that was seen once says little.
BigramFactors bigram_factors(const TrainData& data, const DraftVocabulary& vocabulary, int rank, uint64_t seed);

}  // namespace dspark
