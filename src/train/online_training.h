// Fine-tuning of a drafter on what a server has answered: `dspark train --online`. The result is offered only where it
// is better on what was held out. Main thread; loops run on the engine's pool.
#pragma once

#include <functional>
#include <string>

#include "engine/engine.h"
#include "train/log_data.h"
#include "train/trainer.h"

namespace dspark {

struct OnlineOptions {
  std::string folder;       // of the result, drafter.gguf, and what is needed on the way
  std::string log;          // of a server with --log-prompts
  std::string drafter;      // the GGUF to start from
  std::string recipe = {};  // of which `training` counts; "": as usual
  DType type = DType::kQ8_0;
};

struct OnlineResult {
  LogDataTotals data;
  int64_t held_out = 0;  // conversations
  int64_t steps = 0;
  double tau_before = 0.0, tau_after = 0.0;  // on them, of the drafter as it was and as the file holds it now
  bool better = false;                       // folder/drafter.gguf is there
};

// kCancelled if `report` returns false; kInvalidArgument where the log has too little to train on and to hold out;
// kUnsupported for drafters that are no GGUF of ours.
Result<OnlineResult> train_online(Engine& engine, const OnlineOptions& options,
                                  const std::function<bool(const TrainProgress&)>& report);

}  // namespace dspark
