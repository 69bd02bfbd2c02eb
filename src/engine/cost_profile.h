// CostProfile: what steps cost on this machine, measured once for a model, drafter and way of computing and kept in a
// folder, so that the first plan is as good as the last (plan law). Called while an engine is opened, by its thread.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "draft/drafter.h"
#include "engine/runner.h"
#include "schedule/cost_model.h"

namespace dspark {

struct CostProfile {
  std::vector<CostPoint> points;  // of steps whose rows are those of one sequence without a context
  CostTerms terms;
};

// Times steps of 1 to 512 rows, a context and each of `drafters`, which cost time and are numbered as they stand; the
// best of a few runs each; gives up the larger ones where they would take longer than `budget_seconds` in all. Nobody
// else may use the runner meanwhile. It leaves no sequence behind.
Result<CostProfile> measure_costs(Runner& runner, std::span<Drafter* const> drafters, double budget_seconds);

// What the profile depends on: the digests of model and drafters in their order, processor, instruction set, threads,
// KV type and how weights are held.
std::string cost_key(Runner& runner, std::span<const Sha256Digest> drafters);

// The profile kept in `folder` for `key`. kNotFound if there is none, kCorrupt if it is damaged.
Result<CostProfile> read_costs(const std::string& folder, const std::string& key);
Status write_costs(const std::string& folder, const std::string& key, const CostProfile& profile);

}  // namespace dspark
