// From the settings to what computes: threads, instruction set, the engine with its model. Main thread.
#pragma once

#include <memory>

#include "base/settings.h"
#include "base/thread_pool.h"
#include "engine/engine.h"
#include "kernels/isa.h"

namespace dspark {

ThreadPool::Options pool_options(const Settings& settings);
Result<Isa> chosen_isa(const Settings& settings);
Result<ScheduleOptions> schedule_options(const Settings& settings);
Result<SpeculationOptions> speculation_options(const Settings& settings);
// Which drafters; none where the settings do not speculate. A draft model is named as the user has.
Result<DrafterOptions> drafter_options(const Settings& settings);
// How many guesses of each sequence a step checks, by --dspark-mode: "fixed:K", or -1 for "planned".
Result<int> fixed_drafts_from_mode(const std::string& mode);

// Whether the settings that have a syntax of their own are valid, whichever command will use them.
Status check_settings(const Settings& settings);

// What the settings ask of an engine, the model fetched if need be.
Result<EngineOptions> engine_options(const Settings& settings);

// The same engine without drafts: no drafter is loaded, and none of its KV is computed.
EngineOptions without_drafts(EngineOptions options);

// The model of the settings, fetched if need be, loaded and ready.
Result<std::unique_ptr<Engine>> open_engine(const Settings& settings);
Result<std::unique_ptr<Engine>> open_engine(const EngineOptions& options);
// Says that conversations are written in a form that the model may not know.
void warn_without_template(const Engine& engine);

}  // namespace dspark
