// See overlap_filter.h.
#include "train/overlap_filter.h"

#include "train/prompt.h"

namespace dspark {
namespace {

uint64_t run_hash(std::span<const int32_t> tokens) {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a over whole tokens, then mixed
  for (const int32_t token : tokens) hash = (hash ^ static_cast<uint32_t>(token)) * 0x100000001b3;
  hash ^= hash >> 29;
  return hash * 0xbf58476d1ce4e5b9;
}

// Lower case (ASCII), runs of white space as one space, none at the ends.
std::string normalised(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool space = c == ' ' || c == '\n' || c == '\t' || c == '\r';
    if (!space) {
      out += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    } else if (!out.empty() && out.back() != ' ') {
      out += ' ';
    }
  }
  if (out.ends_with(' ')) out.pop_back();
  return out;
}

}  // namespace

std::string OverlapFilter::without_fixed(std::string_view text) const {
  std::string out(text);
  for (const std::string& fixed : fixed_) {
    for (size_t at = out.find(fixed); !fixed.empty() && at != std::string::npos; at = out.find(fixed, at)) {
      out.replace(at, fixed.size(), 1, ' ');
    }
  }
  return out;
}

void OverlapFilter::add_evaluation(std::string_view text) {
  const std::string bare = without_fixed(text);
  prompts_.insert(stable_hash(normalised(bare), 0));
  const std::vector<int32_t> tokens = tokenizer_.encode(bare, {.add_special = false, .parse_special = false});
  for (size_t i = 0; i + kTokens <= tokens.size(); ++i) runs_.insert(run_hash(std::span(tokens).subspan(i, kTokens)));
}

bool OverlapFilter::overlaps(std::span<const int32_t> tokens) const {
  for (size_t i = 0; i + kTokens <= tokens.size(); ++i) {
    if (runs_.contains(run_hash(tokens.subspan(i, kTokens)))) return true;
  }
  return false;
}

bool OverlapFilter::overlaps(std::string_view text) const {
  const std::string bare = without_fixed(text);
  if (prompts_.contains(stable_hash(normalised(bare), 0))) return true;
  return overlaps(tokenizer_.encode(bare, {.add_special = false, .parse_special = false}));
}

bool OverlapFilter::seen_before(std::span<const std::string> turns) {
  std::string all;
  for (const std::string& turn : turns) all += normalised(turn) + '\n';
  return !seen_.insert(stable_hash(all, 0)).second;
}

}  // namespace dspark
