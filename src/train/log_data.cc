// See log_data.h.
#include "train/log_data.h"

#include <fstream>
#include <optional>
#include <unordered_set>

#include "base/cache_dir.h"
#include "base/json.h"
#include "engine/model_text.h"
#include "train/prompt.h"

namespace dspark {
namespace {

constexpr JsonLimits kLimits = {.max_bytes = 64 << 20, .max_depth = 8};

// Nothing for a request that cannot be learnt from.
Result<std::optional<TrainConversation>> conversation_of(const nlohmann::json& line, const std::string& name,
                                                         const Tokenizer& tokenizer, int context) {
  DSPARK_TRY(const std::string endpoint, json_require<std::string>(line, "endpoint", name));
  DSPARK_TRY(const int32_t status, json_require<int32_t>(line, "status", name));
  DSPARK_TRY(const int64_t prompt_tokens, json_require<int64_t>(line, "prompt_tokens", name));
  DSPARK_TRY(const int64_t output_tokens, json_require<int64_t>(line, "output_tokens", name));
  DSPARK_TRY(const std::string prompt, json_get_or<std::string>(line, "prompt", "", name));
  DSPARK_TRY(const std::string answer, json_get_or<std::string>(line, "answer", "", name));
  const nlohmann::json sampling = line.value("sampling", nlohmann::json::object());
  DSPARK_TRY(const int32_t choices, json_get_or<int32_t>(sampling, "n", 1, name));
  TrainConversation out;
  DSPARK_TRY(out.temperature, json_get_or<double>(sampling, "temperature", 0.0, name));
  DSPARK_TRY(out.seed, json_get_or<uint64_t>(sampling, "seed", 0, name));
  const bool chat = endpoint == "chat";
  if ((!chat && endpoint != "completions") || status != 200 || choices != 1 || prompt.empty() || answer.empty()) {
    return std::optional<TrainConversation>();
  }
  out.tokens = chat ? encode_rendered(tokenizer, prompt, 1) : tokenizer.encode(prompt, {});
  const std::vector<int32_t> written = tokenizer.encode(answer, {.add_special = false, .parse_special = false});
  if (std::ssize(out.tokens) != prompt_tokens || std::ssize(written) != output_tokens ||
      prompt_tokens + output_tokens > context || prompt_tokens < 1) {
    return std::optional<TrainConversation>();
  }
  const auto first = static_cast<int32_t>(out.tokens.size());
  out.tokens.insert(out.tokens.end(), written.begin(), written.end());
  out.answers = {{first, static_cast<int32_t>(out.tokens.size())}};
  // All answers to one prompt are trained on, or all are held out.
  out.id = fmt::format("{:016x}#{:016x}", stable_hash(prompt, 0), stable_hash(answer, 0));
  return std::optional(std::move(out));
}

}  // namespace

Result<LogDataTotals> write_log_data(const std::string& log_path, const Tokenizer& tokenizer, int context,
                                     const std::string& out_path) {
  std::ifstream in(log_path, std::ios::binary);
  if (!in) {
    return make_error(ErrorCode::kNotFound,
                      "{}: cannot be read; record one with dspark serve --access-log FILE --log-prompts", log_path);
  }
  LogDataTotals totals;
  std::string out, text;
  std::unordered_set<std::string> seen;
  for (int number = 1; std::getline(in, text) && !in.eof(); ++number) {
    const std::string name = fmt::format("{}:{}", log_path, number);
    DSPARK_TRY(const nlohmann::json line, parse_json(text, name, kLimits));
    DSPARK_TRY(const auto conversation, conversation_of(line, name, tokenizer, context));
    if (!conversation) {
      ++totals.left_out;
      continue;
    }
    if (!seen.insert(conversation->id).second) {
      ++totals.repeated;
      continue;
    }
    ++totals.conversations;
    totals.answer_tokens += conversation->answer_tokens();
    out += nlohmann::ordered_json{{"id", conversation->id},
                                  {"source", "log"},
                                  {"temperature", conversation->temperature},
                                  {"seed", conversation->seed},
                                  {"tokens", conversation->tokens},
                                  {"answers", conversation->answers}}
               .dump() +
           "\n";
  }
  DSPARK_RETURN_IF_ERROR(replace_file(out_path, out));
  return totals;
}

}  // namespace dspark
