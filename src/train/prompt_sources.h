// The sources file of `dspark data generate`: where prompts come from, under which licences, and what they must not
// overlap with (docs/training.md has the format). Read once by the main thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "train/prompt.h"

namespace dspark {

struct PromptSource {
  std::string name;
  std::string kind;     // "jsonl", "template", "python" or "self"
  std::string licence;  // SPDX identifier
  std::string origin;   // for the manifest: what it is
  int samples = 1;      // answers for each prompt
  std::vector<TrainPrompt> prompts;
};

struct PromptSources {
  uint64_t seed = 0;
  // Of an answer: the first sample takes any of them, further samples one above 0.
  std::vector<double> temperatures;
  std::vector<std::string> fixed_instructions;
  std::vector<std::string> evaluation;  // texts of all evaluation prompts
  std::vector<PromptSource> sources;
};

// Relative paths in the file are relative to `data_folder`. kCorrupt and kNotFound name the file and the entry.
Result<PromptSources> load_prompt_sources(const std::string& path, const std::string& data_folder);

// The user turns of one conversation a line: {"turns": ["...", ...]}.
Result<std::vector<std::vector<std::string>>> load_turns(const std::string& path);

}  // namespace dspark
