// See train_data.h.
#include "train/train_data.h"

#include <algorithm>
#include <fstream>
#include <numeric>

#include "base/json.h"
#include "train/prompt.h"

namespace dspark {
namespace {

Result<TrainConversation> parse_line(const std::string& line, const std::string& name, int vocab) {
  DSPARK_TRY(const nlohmann::json object, parse_json(line, name));
  TrainConversation out;
  DSPARK_TRY(out.id, json_require<std::string>(object, "id", name));
  DSPARK_TRY(out.tokens, json_require<std::vector<int32_t>>(object, "tokens", name));
  DSPARK_TRY(out.temperature, json_require<double>(object, "temperature", name));
  DSPARK_TRY(out.seed, json_require<uint64_t>(object, "seed", name));
  for (const int32_t token : out.tokens) {
    if (token < 0 || token >= vocab) {
      return make_error(ErrorCode::kCorrupt, "{}: token {}, expected 0 to {}; is it another model's data?", name, token,
                        vocab - 1);
    }
  }
  const auto ranges = object.find("answers");
  if (ranges == object.end() || !ranges->is_array()) {
    return make_error(ErrorCode::kCorrupt, "{}: no list \"answers\"", name);
  }
  int32_t before = 1;  // a token must stand before what is predicted
  for (const nlohmann::json& range : *ranges) {
    DSPARK_TRY(const auto ends, json_require<std::vector<int32_t>>(nlohmann::json{{"range", range}}, "range", name));
    if (ends.size() != 2 || ends[0] < before || ends[1] < ends[0] ||
        ends[1] > static_cast<int32_t>(out.tokens.size())) {
      return make_error(ErrorCode::kCorrupt, "{}: answers are not ascending ranges within {} tokens", name,
                        out.tokens.size());
    }
    out.answers.push_back({ends[0], ends[1]});
    before = ends[1];
  }
  return out;
}

}  // namespace

int64_t TrainConversation::answer_tokens() const {
  int64_t total = 0;
  for (const auto& [first, end] : answers) total += end - first;
  return total;
}

int64_t TrainData::answer_tokens() const {
  int64_t total = 0;
  for (const TrainConversation& conversation : train) total += conversation.answer_tokens();
  return total;
}

Result<TrainData> load_train_data(const std::string& path, int vocab, int held_out_every) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return make_error(ErrorCode::kNotFound, "{}: cannot be read; make it with dspark data generate", path);
  TrainData data;
  std::string line;
  for (int number = 1; std::getline(in, line) && !in.eof(); ++number) {
    DSPARK_TRY(TrainConversation conversation, parse_line(line, fmt::format("{}:{}", path, number), vocab));
    if (conversation.answer_tokens() < 2) continue;  // nothing to anchor on and predict
    const std::string prompt = conversation.id.substr(0, conversation.id.find('#'));
    const bool held = held_out_every > 0 && stable_hash(prompt, 0) % static_cast<uint64_t>(held_out_every) == 0;
    (held ? data.held_out : data.train).push_back(std::move(conversation));
  }
  if (data.train.empty()) return make_error(ErrorCode::kCorrupt, "{}: no conversation to train on", path);
  return data;
}

DraftVocabulary frequent_tokens(const TrainData& data, int vocab, int size) {
  DraftVocabulary vocabulary = {.target_size = vocab, .ids = {}};
  if (size >= vocab) return vocabulary;
  std::vector<int64_t> counts(static_cast<size_t>(vocab), 0);
  for (const TrainConversation& conversation : data.train) {
    for (const auto& [first, end] : conversation.answers) {
      for (int32_t i = first; i < end; ++i) ++counts[static_cast<size_t>(conversation.tokens[static_cast<size_t>(i)])];
    }
  }
  std::vector<int32_t> order(static_cast<size_t>(vocab));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return counts[static_cast<size_t>(a)] > counts[static_cast<size_t>(b)];
  });
  vocabulary.ids.assign(order.begin(), order.begin() + size);
  std::sort(vocabulary.ids.begin(), vocabulary.ids.end());
  return vocabulary;
}

}  // namespace dspark
