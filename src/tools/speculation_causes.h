// Why nothing is guessed although speculation is on, or why it does not help: the usual causes, each by name. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/drafter_choice.h"
#include "engine/loop_stats.h"

namespace dspark {

struct SpeculationFacts {
  // The settings.
  bool enabled = true;
  bool varying_length = true;  // --enable-mtp-varlen
  DraftWith with = DraftWith::kAuto;
  int fixed = -1;
  double threshold = 0.0;
  // The request.
  int draft_tokens = -1;  // Request::draft_tokens
  int prompt_tokens = 0;
  int output_tokens = 0;
  // What happened to it.
  bool trained_drafter = false;  // there is one
  int proposals = 0;             // steps in which something was proposed for it
  double best_survival = 0.0;    // of all first guesses
  LoopStats stats = {};          // of its time
};

struct SpeculationCause {
  std::string name;  // "switched_off", "threshold", ...
  std::string text;  // what it is and what to do, one line
};

// All that apply, the decisive one first. Where guesses were accepted: what kept them from being more, if anything did.
std::vector<SpeculationCause> speculation_causes(const SpeculationFacts& facts);

}  // namespace dspark
