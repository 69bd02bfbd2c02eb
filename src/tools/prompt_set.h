// Prompt files for the commands that measure: {"turns": ["...", ...]} a line, of which the first turn is asked. Main
// thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace dspark {

struct PromptSet {
  std::string name;    // the file's, without folder and suffix
  std::string bucket;  // kind of task
  std::vector<std::vector<int32_t>> prompts;
};

// `limit` of the file's prompts, evenly chosen; 0: all. kNotFound and kCorrupt name the file and the line.
Result<PromptSet> load_prompt_set(const Engine& engine, const std::string& path, int64_t limit);

}  // namespace dspark
