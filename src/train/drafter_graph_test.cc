// Every gradient against finite differences, on tiny drafters of every kind; and the row-independent results of loops.
#include "train/drafter_graph.h"

#include <gmock/gmock.h>

#include "kernels/half.h"
#include "train/adamw.h"
#include "train/tiny_drafter.h"

namespace dspark {
namespace {

struct Kind {
  const char* name;
  DraftHead head;
  bool lookup, causal;
  int vocabulary;  // 0: the target's
  LossOptions loss;
};

std::ostream& operator<<(std::ostream& out, const Kind& kind) { return out << kind.name; }

struct Tiny {
  explicit Tiny(const Kind& kind, int threads = 1)
      : pool({.threads = threads}), config(tiny_config(kind.head, kind.lookup, kind.causal, 2)) {
    vocabulary.target_size = config.backbone.vocab;
    for (int i = 0; i < kind.vocabulary; ++i) vocabulary.ids.push_back(2 * i);
    config.draft_vocab = static_cast<int>(vocabulary.rows());
    target.embedding = random_values("embedding", config.backbone.vocab * config.backbone.hidden, 0.5);
    target.head = random_values("head", config.backbone.vocab * config.backbone.hidden, 0.5);
    parameters = std::make_unique<DrafterParameters>(config);
    fill_all(parameters.get());
    batch = tiny_batch(config, vocabulary);
    graph = std::make_unique<DrafterGraph>(config, vocabulary, target, parameters.get(), pool, ops(Isa::kPortable));
  }
  double loss(const LossOptions& options) { return graph->evaluate(batch, options).total(options); }

  ThreadPool pool;
  DsparkConfig config;
  DraftVocabulary vocabulary;
  FrozenTarget target;
  std::unique_ptr<DrafterParameters> parameters;
  TrainBatch batch;
  std::unique_ptr<DrafterGraph> graph;
};

class Gradients : public testing::TestWithParam<Kind> {};

TEST_P(Gradients, EqualFiniteDifferences) {
  const Kind& kind = GetParam();
  Tiny tiny(kind);
  tiny.graph->train(tiny.batch, kind.loss);
  StepRandom random(5, 0);
  for (Parameter& parameter : tiny.parameters->all) {
    double largest = 0;
    for (const float g : parameter.gradient) largest = std::max(largest, std::abs(double{g}));
    EXPECT_GT(largest, 0.0) << parameter.name << " has no gradient";
    for (int sample = 0; sample < 6; ++sample) {
      const auto i = static_cast<size_t>(random.below(parameter.size()));
      const float before = parameter.value[i];
      constexpr float kStep = 4e-3f;
      parameter.value[i] = before + kStep;
      const double above = tiny.loss(kind.loss);
      parameter.value[i] = before - kStep;
      const double below = tiny.loss(kind.loss);
      parameter.value[i] = before;
      const double expected = (above - below) / (2.0 * double{kStep});
      EXPECT_NEAR(parameter.gradient[i], expected, 2e-4 + 0.02 * std::max(std::abs(expected), largest))
          << parameter.name << "[" << i << "]";
    }
  }
}

TEST_P(Gradients, DoNotDependOnThreads) {
  const Kind& kind = GetParam();
  Tiny one(kind), three(kind, 3);
  one.graph->train(one.batch, kind.loss);
  three.graph->train(three.batch, kind.loss);
  for (size_t i = 0; i < one.parameters->all.size(); ++i) {
    EXPECT_EQ(one.parameters->all[i].gradient, three.parameters->all[i].gradient) << one.parameters->all[i].name;
  }
}

// The confidence label is what agrees, which jumps; so losses with and without the confidence stand apart.
constexpr LossOptions kPaper = {.cross_entropy = 0.1, .l1 = 0.9, .soft = 0, .confidence = 1, .decay = 4};
constexpr LossOptions kSoft = {.cross_entropy = 0, .l1 = 0, .soft = 1, .confidence = 1, .decay = 2};
constexpr LossOptions kHard = {.cross_entropy = 1, .l1 = 0, .soft = 0, .confidence = 0.5, .decay = 0};

INSTANTIATE_TEST_SUITE_P(Kinds, Gradients,
                         testing::Values(Kind{"none", DraftHead::kNone, false, false, 0, kHard},
                                         Kind{"markov", DraftHead::kMarkov, true, false, 16, kPaper},
                                         Kind{"gated", DraftHead::kGated, false, true, 0, kSoft},
                                         Kind{"rnn", DraftHead::kRnn, true, true, 0, kSoft}),
                         [](const auto& kind) { return kind.param.name; });

TEST(DraftVocabulary, RowsAndIds) {
  const DraftVocabulary all = {.target_size = 9, .ids = {}}, some = {.target_size = 9, .ids = {1, 4, 8}};
  EXPECT_EQ(all.row(5), 5);
  EXPECT_EQ(all.rows(), 9);
  EXPECT_EQ(some.row(4), 1);
  EXPECT_EQ(some.row(5), -1);
  EXPECT_EQ(some.id(2), 8);
}

TEST(LearningRate, WarmsUpAndFollowsACosine) {
  EXPECT_DOUBLE_EQ(learning_rate(0, 10, 110, 2.0, 0.1), 0.2);
  EXPECT_DOUBLE_EQ(learning_rate(9, 10, 110, 2.0, 0.1), 2.0);
  EXPECT_NEAR(learning_rate(60, 10, 110, 2.0, 0.1), 1.1, 1e-12);
  EXPECT_NEAR(learning_rate(110, 10, 110, 2.0, 0.1), 0.2, 1e-12);
  EXPECT_NEAR(learning_rate(500, 10, 110, 2.0, 0.1), 0.2, 1e-12);
}

// Features that say which position it is, and a text that never repeats: what is memorised gives whole blocks.
TEST(Overfit, AMemorisedTextIsDraftedWhole) {
  ThreadPool pool({.threads = 1});
  DsparkConfig config = tiny_config(DraftHead::kMarkov, true, false);
  config.backbone.hidden = 32;
  config.draft_vocab = config.backbone.vocab;
  const DraftVocabulary vocabulary = {.target_size = config.backbone.vocab, .ids = {}};
  FrozenTarget target;
  target.embedding = random_values("embedding", config.backbone.vocab * config.backbone.hidden, 0.5);
  DrafterParameters parameters(config);
  fill_all(&parameters);
  DrafterGraph graph(config, vocabulary, target, &parameters, pool, ops(best_isa()));

  TrainConversation text = {.id = "t", .tokens = {}, .answers = {{4, 36}}, .temperature = 0, .seed = 0};
  for (int i = 0; i < 36; ++i) text.tokens.push_back((i * i + 3 * i) % 37);
  TargetFeatures features;
  features.positions = 35;
  features.first_prediction = 4;
  for (const float x : random_values("features", 35 * config.features(), 1.0)) {
    features.hidden.push_back(half_from_float(x));
  }
  features.tokens.assign(31 * kTargetTokens, -1);
  features.probabilities.assign(31 * kTargetTokens, 0);
  for (int p = 4; p < 35; ++p) {
    features.tokens[static_cast<size_t>(p - 4) * kTargetTokens] = text.tokens[static_cast<size_t>(p) + 1];
    features.probabilities[static_cast<size_t>(p - 4) * kTargetTokens] = kHalfOne;
  }
  const BatchOptions options = {.block = 4, .anchors = 12, .window = 16, .short_blocks = 0.2, .lookup_drop = 0.5};
  const LossOptions loss;
  double total = 0;
  for (int step = 0; step < 600; ++step) {
    StepRandom random(1, static_cast<uint64_t>(step));
    TrainBatch batch;
    add_blocks(text, features, vocabulary, options, &random, &batch);
    parameters.clear_gradients();
    total = graph.train(batch, loss).total(loss);
    adamw_step(pool, {}, step, learning_rate(step, 20, 600, 6e-3, 0.05), &parameters);
  }
  EXPECT_LT(total, 0.15);
  TrainBatch batch;
  StepRandom random(2, 0);
  add_blocks(text, features, vocabulary,
             {.block = 4, .anchors = 100, .window = 16, .short_blocks = 0, .lookup_drop = 0}, &random, &batch);
  LossSums sums = graph.evaluate(batch, loss);
  EXPECT_GT(sums.blocks, 25);
  EXPECT_EQ(sums.accepted, sums.reached) << "tau " << sums.tau();
}

}  // namespace
}  // namespace dspark
