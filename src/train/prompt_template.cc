// See prompt_template.h.
#include "train/prompt_template.h"

#include <charconv>
#include <set>

#include "train/prompt.h"

namespace dspark {
namespace {

constexpr int kMaxDepth = 4;

// The value for "slot" or "slot.2" in the filling that `key` names; null where there is no such slot.
const std::string* slot_value(const PromptTemplate& pattern, std::string_view name, std::string_view key,
                              uint64_t seed) {
  size_t rank = 0;
  if (const size_t dot = name.find('.'); dot != std::string_view::npos) {
    const std::string_view digits = name.substr(dot + 1);
    if (std::from_chars(digits.data(), digits.data() + digits.size(), rank).ptr != digits.data() + digits.size()) {
      return nullptr;
    }
    name = name.substr(0, dot);
  }
  const auto slot = pattern.slots.find(std::string(name));
  if (slot == pattern.slots.end() || slot->second.empty()) return nullptr;
  const std::vector<std::string>& values = slot->second;
  // Successive values from a start of the filling's own are different ones.
  const uint64_t hash = stable_hash(std::string(name) + "/" + std::string(key), seed);
  return &values[(hash + rank) % values.size()];
}

std::string filled(const PromptTemplate& pattern, std::string_view text, std::string_view key, uint64_t seed,
                   int depth) {
  std::string out;
  while (!text.empty()) {
    const size_t open = text.find('{');
    out += text.substr(0, open);
    if (open == std::string_view::npos) break;
    const size_t close = text.find('}', open);
    const std::string* value = close == std::string_view::npos || depth == kMaxDepth
                                   ? nullptr
                                   : slot_value(pattern, text.substr(open + 1, close - open - 1), key, seed);
    out += value != nullptr ? filled(pattern, *value, key, seed, depth + 1) : "{";
    text.remove_prefix(value != nullptr ? close + 1 : open + 1);
  }
  return out;
}

}  // namespace

std::vector<std::vector<std::string>> fill_template(const PromptTemplate& pattern, uint64_t seed) {
  std::set<std::vector<std::string>> seen;
  std::vector<std::vector<std::string>> prompts;
  if (pattern.conversations.empty()) return prompts;
  for (int i = 0; i < pattern.count; ++i) {
    const std::string key = pattern.name + "/" + std::to_string(i);
    std::vector<std::string> turns;
    for (const std::string& turn : pattern.conversations[stable_hash(key, seed) % pattern.conversations.size()]) {
      turns.push_back(filled(pattern, turn, key, seed, 0));
    }
    if (seen.insert(turns).second) prompts.push_back(std::move(turns));
  }
  return prompts;
}

}  // namespace dspark
