// Prompts from templates: texts with slots, each filled from a list. Pure; any thread.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace dspark {

struct PromptTemplate {
  std::string name;
  int count = 0;                                             // how many different prompts to make, at most
  std::vector<std::vector<std::string>> conversations = {};  // alternatives, each the user's turns
  std::map<std::string, std::vector<std::string>> slots = {};
};

// `{slot}` becomes one of the slot's values, the same everywhere in the conversation; `{slot.2}`, `{slot.3}`, ... are
// further, different values of the list, as far as it reaches. A value may hold slots itself, four deep. Braces that
// name no slot stay. Deterministic in (seed, number of the prompt); fewer than `count` where fillings repeat.
std::vector<std::vector<std::string>> fill_template(const PromptTemplate& pattern, uint64_t seed);

}  // namespace dspark
