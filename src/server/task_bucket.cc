// See task_bucket.h.
#include "server/task_bucket.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <utility>

namespace dspark {
namespace {

constexpr size_t kLooked = 4096;  // bytes at the beginning of a text

using Names = std::pair<std::string_view, std::string_view>;
constexpr std::array kNames = std::to_array<Names>({
    {"code", "code"},
    {"humaneval", "code"},
    {"mbpp", "code"},
    {"json", "json"},
    {"math", "math"},
    {"gsm8k", "math"},
    {"reasoning", "math"},
    {"chat", "chat"},
    {"mt-bench", "chat"},
});

constexpr auto kCode =
    std::to_array<std::string_view>({"```", "def ", "#include", "import ", "python", "javascript", "function", " code",
                                     "c++", " sql", "regex", "class ", " bug", "script", "compile", "algorithm"});
constexpr auto kMath = std::to_array<std::string_view>(
    {"how many", "how much", "how long", "how far", "how old", "solve", "calculate", "equation", "percent",
     "probability", "integral", "remainder", "reason step by step", "total cost", "average"});
constexpr auto kChat = std::to_array<std::string_view>(
    {"write a",   "compose", "describe", "explain", "what ", "why ", "how ",  "who ",   "imagine", "pretend", "suggest",
     "could you", "can you", "draft",    "hello",   "hi ",   "hi!",  "thank", "please", "tell me", "give me", "?"});

template <size_t size>
int hits(std::string_view text, const std::array<std::string_view, size>& words) {
  return static_cast<int>(std::count_if(
      words.begin(), words.end(), [&](std::string_view word) { return text.find(word) != std::string_view::npos; }));
}

}  // namespace

std::string_view bucket_of_name(std::string_view name) {
  for (const auto& [known, bucket] : kNames) {
    if (known == name) return bucket;
  }
  return "other";
}

std::string_view bucket_of_text(std::string_view whole, int turns) {
  std::string text(whole.substr(0, kLooked));
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  if (text.find("json") != std::string::npos) return "json";
  const auto digits = std::count_if(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  const int code = hits(text, kCode), math = hits(text, kMath) * (digits > 0 ? 2 : 1);
  if (code > 0 && code >= math) return "code";
  if (math >= 2) return "math";
  return turns > 1 || hits(text, kChat) > 0 ? "chat" : "other";
}

}  // namespace dspark
