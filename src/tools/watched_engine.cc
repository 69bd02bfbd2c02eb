// See watched_engine.h.
#include "tools/watched_engine.h"

#include <utility>

#include "tools/compute.h"

namespace dspark {

Result<EngineOptions> watched_engine(const Settings& settings, int block,
                                     std::vector<std::shared_ptr<WatchedDrafter>>* watched) {
  DSPARK_TRY(EngineOptions options, engine_options(settings));
  if (!settings.is_set<"draft-with">()) options.drafter.with = DraftWith::kDspark;
  if (!settings.is_set<"dspark-mode">()) options.speculation.fixed = block;
  options.speculation.pauses = false;
  options.watch = [watched, temperature = settings.get<"temp">()](std::shared_ptr<Drafter> drafter, int vocab) {
    watched->push_back(std::make_shared<WatchedDrafter>(std::move(drafter), vocab, temperature == 1.0 ? 1.0 : 0.0));
    return watched->back();
  };
  return options;
}

}  // namespace dspark
