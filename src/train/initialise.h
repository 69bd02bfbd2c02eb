// Where a drafter's training starts: the target's own layers, norms and output rows, and a bigram table. Main thread.
#pragma once

#include "model/model.h"
#include "train/drafter_graph.h"
#include "train/recipe.h"

namespace dspark {

// The target's embedding, scaled, and its head where it has one of its own and the drafter has not.
FrozenTarget frozen_target(ThreadPool& pool, const Model& target, bool with_head);

// Layer i starts as the target's layer recipe.from_layers[i] (random where there is none), as far as the sizes go: our
// packed weights have NeoX's order of rows already. fc starts as the newest of the features, passed on as it is, the
// lookup projections as what a token's own embedding does to a slot, the head's factors as a bigram table.
void initialise(const Model& target, const Recipe& recipe, const TrainData& data, const DraftVocabulary& vocabulary,
                DrafterParameters* parameters);

// Normally distributed values of this deviation, by name and seed; for what starts at random, and for tests.
void fill_random(uint64_t seed, double deviation, Parameter* parameter);

}  // namespace dspark
