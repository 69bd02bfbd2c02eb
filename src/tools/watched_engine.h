// The engine of the commands that look at drafters (eval, calibrate). Main thread.
#pragma once

#include <memory>
#include <vector>

#include "base/settings.h"
#include "draft/watched_drafter.h"
#include "engine/engine.h"

namespace dspark {

// What the settings ask of an engine whose drafters are watched: they go to `watched` when it is opened, which must
// outlive it. No request pauses, and without flags that say otherwise the DSpark drafter alone drafts and `block`
// tokens of each draft are verified, whatever becomes of them.
Result<EngineOptions> watched_engine(const Settings& settings, int block,
                                     std::vector<std::shared_ptr<WatchedDrafter>>* watched);

}  // namespace dspark
