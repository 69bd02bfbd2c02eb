// Loss and gradients against PyTorch: tests/data/training, made by scripts/goldens/training.py.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "train/tiny_drafter.h"

namespace dspark {
namespace {

using nlohmann::json;

class Golden {
 public:
  explicit Golden(const std::string& name) {
    const std::string path = std::string(DSPARK_TEST_DATA) + "/training/train-" + name;
    std::ifstream(path + ".json") >> about;
    std::ifstream in(path + ".bin", std::ios::binary | std::ios::ate);
    floats_.resize(static_cast<size_t>(in.tellg()) / sizeof(float));
    in.seekg(0);
    in.read(reinterpret_cast<char*>(floats_.data()), static_cast<std::streamsize>(floats_.size() * sizeof(float)));
  }
  std::vector<float> take(int64_t count) {
    const auto from = floats_.begin() + at_;
    at_ += count;
    return {from, from + count};
  }
  bool at_end() const { return at_ == static_cast<int64_t>(floats_.size()); }

  json about;

 private:
  std::vector<float> floats_;
  int64_t at_ = 0;
};

DraftHead head_named(const std::string& name) {
  for (const DraftHead head : {DraftHead::kMarkov, DraftHead::kGated, DraftHead::kRnn}) {
    if (name == draft_head_name(head)) return head;
  }
  return DraftHead::kNone;
}

void add_block(const json& block, const DraftVocabulary& vocabulary, TrainBatch* batch) {
  const int anchor = block["anchor"], slots = block["slots"];
  const auto proposal = block["proposal"].get<std::vector<int32_t>>();
  batch->blocks.push_back({block["context"], anchor, static_cast<int>(batch->slots()), slots});
  for (int j = 0; j < slots; ++j) {
    const json& row = block["predictions"][static_cast<size_t>(j)];
    const auto ahead = static_cast<size_t>(j);
    batch->positions.push_back(anchor + j);
    batch->inputs.push_back(j == 0 ? row["previous"].get<int32_t>() : -1);
    batch->lookup_token.push_back(j >= 1 && ahead <= proposal.size() ? proposal[ahead - 1] : -1);
    batch->lookup_next.push_back(ahead < proposal.size() ? proposal[ahead] : -1);
    batch->previous.push_back(row["previous"]);
    batch->labels.push_back(row["label"]);
    batch->labels_drafted.push_back(vocabulary.row(row["label"]));
    batch->temperatures.push_back(0.0);
    batch->seeds.push_back(0);
    for (size_t i = 0; i < kTargetTokens; ++i) {
      const bool has = i < row["target_tokens"].size();
      batch->target_rows.push_back(has ? vocabulary.row(row["target_tokens"][i]) : -1);
      batch->target_probabilities.push_back(has ? row["target_probabilities"][i].get<float>() : 0.0f);
    }
  }
}

class AgainstPyTorch : public testing::TestWithParam<const char*> {};

TEST_P(AgainstPyTorch, LossAndGradients) {
  Golden golden(GetParam());
  const json& about = golden.about;
  DsparkConfig config = tiny_config(head_named(about["head"]), about["lookup"], about["causal"], 2);
  DraftVocabulary vocabulary = {.target_size = config.backbone.vocab, .ids = about["vocabulary"]};
  if (vocabulary.rows() == vocabulary.target_size) vocabulary.ids.clear();
  config.draft_vocab = static_cast<int>(vocabulary.rows());
  FrozenTarget target;
  target.embedding = golden.take(int64_t{config.backbone.vocab} * config.backbone.hidden);
  target.head = golden.take(int64_t{config.backbone.vocab} * config.backbone.hidden);
  TrainBatch batch;
  batch.features = golden.take(about["positions"].get<int64_t>() * config.features());
  for (int p = 0; p < about["positions"]; ++p) batch.context_positions.push_back(p);
  for (const json& block : about["blocks"]) add_block(block, vocabulary, &batch);
  DrafterParameters parameters(config);
  std::map<std::string, std::vector<float>> expected;
  for (const std::string name : about["tensors"]) {
    Parameter* parameter = parameters.find(name);
    ASSERT_NE(parameter, nullptr) << name;
    parameter->value = golden.take(parameter->size());
    expected[name] = golden.take(parameter->size());
  }
  ASSERT_TRUE(golden.at_end());
  ASSERT_EQ(expected.size(), parameters.all.size());
  ThreadPool pool({.threads = 1});
  DrafterGraph graph(config, vocabulary, target, &parameters, pool, ops(best_isa()));
  const json& options = about["loss_options"];
  const LossOptions loss = {.cross_entropy = options["cross_entropy"],
                            .l1 = options["l1"],
                            .soft = options["soft"],
                            .confidence = options["confidence"],
                            .decay = options["decay"]};
  EXPECT_NEAR(graph.train(batch, loss).total(loss), about["loss"].get<double>(), 1e-5);
  for (const Parameter& parameter : parameters.all) {
    const std::vector<float>& wanted = expected[parameter.name];
    double largest = 0;
    for (const float g : wanted) largest = std::max(largest, std::abs(double{g}));
    EXPECT_GT(largest, 0.0) << parameter.name;
    for (size_t i = 0; i < wanted.size(); ++i) {
      ASSERT_NEAR(parameter.gradient[i], wanted[i], 1e-6 + 1e-4 * largest) << parameter.name << "[" << i << "]";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Heads, AgainstPyTorch, testing::Values("markov", "gated", "rnn"),
                         [](const auto& head) { return std::string(head.param); });

}  // namespace
}  // namespace dspark
