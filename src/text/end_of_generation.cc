// See end_of_generation.h.
#include "text/end_of_generation.h"

#include <array>
#include <string_view>

namespace dspark {
namespace {

#define DSPARK_DEEPSEEK_END \
  "<\xEF\xBD\x9C"           \
  "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>"

// The first of these that a vocabulary has is its end of turn.
constexpr std::array<std::string_view, 10> kEndOfTurn = {
    "<|eot_id|>",    "<|im_end|>", "<|end|>",         "<end_of_turn>",     "<turn|>",
    "<|endoftext|>", "<EOT>",      "<|end_of_text|>", DSPARK_DEEPSEEK_END, "<end_of_utterance>"};
constexpr std::array<std::string_view, 9> kOtherEnds = {
    "<|return|>", "<|call|>", "<|tool_response>", "<|eom_id|>", "_<EOT>", "[EOT]", "[EOS]", "<eos>", "[e~["};

}  // namespace

void add_end_of_generation(TokenizerSpec& spec) {
  std::array<int32_t, kEndOfTurn.size()> turn_ids;
  turn_ids.fill(-1);
  bool has_return = false, has_call = false;
  for (size_t i = 0; i < spec.tokens.size(); ++i) {
    const std::string_view text = spec.tokens[i];
    if (text.size() < 5 || text.size() > 32 || (text[0] != '<' && text[0] != '[' && text[0] != '_')) continue;
    const auto id = static_cast<int32_t>(i);
    for (size_t k = 0; k < kEndOfTurn.size(); ++k) {
      if (text == kEndOfTurn[k]) turn_ids[k] = id;
    }
    for (const std::string_view name : kOtherEnds) {
      if (text == name) spec.end_of_generation.push_back(id);
    }
    has_return |= text == "<|return|>";
    has_call |= text == "<|call|>";
  }
  // gpt-oss ends each message with <|end|> and goes on.
  if (has_return && has_call) turn_ids[2] = -1;
  for (const int32_t id : turn_ids) {
    if (id < 0) continue;
    spec.end_of_generation.push_back(id);
    if (spec.eot < 0) spec.eot = id;
  }
}

}  // namespace dspark
