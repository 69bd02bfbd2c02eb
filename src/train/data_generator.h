// DataGenerator: the loop of `dspark data generate`. Answers of the target to the prompts of the sources, appended to a
// JSONL file as they complete; a run that goes on after another skips what stands there. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "engine/engine.h"
#include "train/prompt_sources.h"

namespace dspark {

struct DataOptions {
  std::string out;           // the JSONL file; the manifest is written beside it, as OUT.manifest.json
  std::string model_digest;  // for the manifest
  int slots = 64;            // answers at once
  int max_tokens = 512;      // of an answer
  int64_t token_target = 0;  // stop once the file has so many answer tokens; 0: when the prompts are used up
};

struct DataTotals {
  int64_t conversations = 0;
  int64_t answer_tokens = 0;
  int64_t dropped_duplicates = 0;  // of this run
  int64_t dropped_overlaps = 0;    // of this run: with evaluation prompts
  int64_t dropped_unusable = 0;    // of this run: written prompts that did not end, prompts too long, no UTF-8
};

// Each line: {"id", "source", "turns", "temperature", "seed", "tokens", "answers": [[first, end], ...], "ended"}:
// tokens are the whole conversation as the target saw it, answers the ranges of them that it wrote, end tokens
// included; ended tells whether the last answer has one. `report` is called after each answer and stops the run when it
// returns false: what is complete has been written.
Result<DataTotals> generate_data(Engine& engine, const PromptSources& sources, const DataOptions& options,
                                 const std::function<bool(const DataTotals&)>& report);

}  // namespace dspark
