// The whole of training on a tiny target: an interrupted run has the bits of one that was not, kept features change
// nothing, and what is written is a drafter that the engine reads.
#include "train/trainer.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "draft/dspark_weights.h"
#include "train/bigram_factors.h"
#include "train/drafter_export.h"

namespace dspark {
namespace {

constexpr char kRecipe[] = R"({
  "drafter": {"layers": 1, "head": "gated", "rank": 8, "block": 4, "lookup": true, "vocabulary": 100,
              "target_layers": [0, 1], "from_layers": [1]},
  "training": {"steps": 8, "conversations": 2, "anchors": 5, "window": 16, "held_out_every": 4, "soft_steps": 3,
               "warm_up": 2, "evaluate_every": 4, "evaluate_conversations": 2, "save_every": 3}})";

class Training : public testing::Test {
 protected:
  Training() : folder_(std::filesystem::temp_directory_path() / fmt::format("dspark-train-test-{}", getpid())) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    EngineOptions options;
    options.model = std::string(DSPARK_TEST_DATA) + "/models/llama/llama.gguf";
    options.runner.threads = 2;
    options.runner.kv_memory_bytes = 64 << 20;
    engine_ = Engine::open(options).value();
    std::ofstream(path("recipe.json")) << kRecipe;
    std::ofstream data(path("data.jsonl"));
    for (int i = 0; i < 12; ++i) {
      std::vector<int32_t> tokens;
      for (int t = 0; t < 40; ++t) tokens.push_back((t * (i + 3) + i) % 60);
      data << nlohmann::json{{"id", "p/" + std::to_string(i) + "#0"},
                             {"tokens", tokens},
                             {"answers", {{10, 20}, {25, 40}}},
                             {"temperature", i % 2},
                             {"seed", i}}
                  .dump()
           << "\n";
    }
  }
  ~Training() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::unique_ptr<Trainer> open(const std::string& name, int64_t feature_bytes = 0) {
    auto trainer = Trainer::open(*engine_, {.folder = path(name),
                                            .data = path("data.jsonl"),
                                            .recipe = path("recipe.json"),
                                            .feature_bytes = feature_bytes});
    EXPECT_TRUE(trainer.ok()) << trainer.error().message;
    return std::move(trainer).value();
  }
  static void run(Trainer& trainer, int64_t until) {
    const Status done = trainer.run([&](const TrainProgress& now) { return now.step < until; });
    ASSERT_TRUE(done.ok()) << done.error().message;
  }
  static void expect_equal(const Trainer& a, const Trainer& b) {
    for (size_t i = 0; i < a.parameters().all.size(); ++i) {
      const Parameter &x = a.parameters().all[i], &y = b.parameters().all[i];
      EXPECT_EQ(x.value, y.value) << x.name;
      EXPECT_EQ(x.first_moment, y.first_moment) << x.name;
      EXPECT_EQ(x.second_moment, y.second_moment) << x.name;
    }
  }

  std::filesystem::path folder_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(Training, AResumedRunHasTheSameBits) {
  const auto whole = open("whole");
  run(*whole, 100);
  EXPECT_EQ(whole->state().step, 8);
  { run(*open("parts"), 2); }
  { run(*open("parts"), 5); }
  const auto parts = open("parts");
  EXPECT_EQ(parts->state().step, 5);
  run(*parts, 100);
  expect_equal(*whole, *parts);
  std::ifstream log(path("whole") + "/log.jsonl");
  int lines = 0;
  for (std::string line; std::getline(log, line); ++lines) {
    EXPECT_GE(nlohmann::json::parse(line)["tau"].get<double>(), 1.0);
  }
  EXPECT_EQ(lines, 2);
}

TEST_F(Training, KeptFeaturesChangeNothing) {
  const auto fresh = open("fresh"), kept = open("kept", 64 << 20);
  run(*fresh, 6);
  run(*kept, 3);
  EXPECT_GT(kept->features().misses(), 0);
  const auto again = open("kept", 64 << 20);
  run(*again, 6);
  EXPECT_GT(again->features().hits(), 0);
  expect_equal(*fresh, *again);
}

TEST_F(Training, AnotherRecipeOrABrokenCheckpointIsRefused) {
  run(*open("run"), 1);
  std::ofstream(path("recipe.json"), std::ios::app) << "\n";
  const TrainOptions options = {path("run"), path("data.jsonl"), path("recipe.json"), 0};
  EXPECT_EQ(Trainer::open(*engine_, options).error().code, ErrorCode::kInvalidArgument);
  std::ofstream(path("recipe.json")) << kRecipe;
  std::filesystem::resize_file(path("run") + "/checkpoint.bin", 5000);
  EXPECT_EQ(Trainer::open(*engine_, options).error().code, ErrorCode::kCorrupt);
  std::ofstream(path("run") + "/checkpoint.bin") << "something else";
  EXPECT_EQ(Trainer::open(*engine_, options).error().code, ErrorCode::kCorrupt);
}

TEST_F(Training, StartsFromAnotherTrainingWithOtherTokens) {
  const auto first = open("first");
  run(*first, 4);
  std::string recipe = kRecipe;
  recipe.replace(recipe.find("100"), 3, "120");
  recipe.replace(recipe.find("\"steps\""), 7, "\"start_from\": \"../first\", \"steps\"");
  std::ofstream(path("recipe.json")) << recipe;
  const auto second = open("second");
  const DrafterParameters &from = first->parameters(), &to = second->parameters();
  EXPECT_EQ(to.markov_w1->value, from.markov_w1->value);
  EXPECT_EQ(to.layers[0].down->value, from.layers[0].down->value);
  const std::vector<int32_t>&had = first->state().vocabulary, &has = second->state().vocabulary;
  ASSERT_EQ(has.size(), 120u);
  int kept = 0;
  const auto mean_row = [](const Parameter& parameter) {
    std::vector<float> out;
    for (int64_t column = 0; column < parameter.shape[1]; ++column) {
      double sum = 0.0;
      for (int64_t i = column; i < parameter.size(); i += parameter.shape[1]) {
        sum += static_cast<double>(parameter.value[static_cast<size_t>(i)]);
      }
      out.push_back(static_cast<float>(sum / static_cast<double>(parameter.shape[0])));
    }
    return out;
  };
  for (size_t row = 0; row < has.size(); ++row) {
    const auto row_of = [&](const Parameter& parameter, size_t r) {
      const auto begin = parameter.value.begin() + static_cast<int64_t>(r) * parameter.shape[1];
      return std::vector<float>(begin, begin + parameter.shape[1]);
    };
    const auto old = std::find(had.begin(), had.end(), has[row]);
    if (old != had.end()) {
      const auto at = static_cast<size_t>(old - had.begin());
      EXPECT_EQ(row_of(*to.output, row), row_of(*from.output, at));
      EXPECT_EQ(row_of(*to.markov_w2, row), row_of(*from.markov_w2, at));
      ++kept;
    } else {
      EXPECT_EQ(row_of(*to.output, row), mean_row(*from.output));
      EXPECT_EQ(row_of(*to.markov_w2, row), mean_row(*from.markov_w2));
    }
  }
  EXPECT_EQ(kept, 100);
  run(*second, 1);

  recipe.replace(recipe.find("gated"), 5, "rnn");
  std::ofstream(path("recipe.json")) << recipe;
  const TrainOptions options = {path("third"), path("data.jsonl"), path("recipe.json"), 0};
  EXPECT_EQ(Trainer::open(*engine_, options).error().code, ErrorCode::kCorrupt);
}

TEST_F(Training, TheWrittenDrafterIsRead) {
  const auto trainer = open("run");
  run(*trainer, 2);
  ASSERT_TRUE(trainer->write(DType::kF32, nullptr, path("run") + "/drafter.gguf").ok());
  const auto file = ModelFile::open(path("run") + "/drafter.gguf");
  ASSERT_TRUE(file.ok()) << file.error().message;
  const auto config = read_dspark_config(*file);
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->head, DraftHead::kGated);
  EXPECT_EQ(config->target_layers, (std::vector<int>{0, 1}));
  EXPECT_EQ(config->draft_vocab, 100);
  EXPECT_TRUE(config->lookup && config->confidence && config->confidence_sees_token && config->sample_from_anchor);
  EXPECT_EQ(config->block_size, 4);
  ASSERT_TRUE(config->target_digest.has_value());
  EXPECT_EQ(*config->target_digest, engine_->runner().digest());
  EXPECT_TRUE(check_target(*config, engine_->config(), engine_->runner().digest(), "drafter").ok());
  const auto weights = load_dspark_weights(*file, *config, engine_->runner().model(), engine_->runner().pool(), {});
  ASSERT_TRUE(weights.ok()) << weights.error().message;
  EXPECT_EQ(weights->vocabulary, trainer->state().vocabulary);
  std::vector<float> row(8);
  weights->markov_w1.dequantise_row(3, row.data());
  const auto& w1 = trainer->parameters().markov_w1->value;
  EXPECT_EQ(row, std::vector<float>(w1.begin() + 24, w1.begin() + 32));
}

TEST_F(Training, GoesOnFromAFileWithItsValues) {
  const auto trainer = open("run");
  run(*trainer, 2);
  const std::string file = path("run") + "/drafter.gguf";
  ASSERT_TRUE(trainer->write(DType::kF32, nullptr, file).ok());
  const TrainOptions options = {
      .folder = path("more"), .data = path("data.jsonl"), .recipe = path("recipe.json"), .start = file};
  const auto more = Trainer::open(*engine_, options);
  ASSERT_TRUE(more.ok()) << more.error().message;
  EXPECT_EQ((*more)->state().vocabulary, trainer->state().vocabulary);
  for (size_t i = 0; i < trainer->parameters().all.size(); ++i) {
    const Parameter &was = trainer->parameters().all[i], &is = (*more)->parameters().all[i];
    EXPECT_EQ(is.value, was.value) << was.name;
  }
  EXPECT_EQ((*more)->evaluate()->tau(), trainer->evaluate()->tau());
  run(**more, 3);
  EXPECT_NE((*more)->parameters().fc->value, trainer->parameters().fc->value);

  TrainOptions folder = options;
  folder.start = std::string(DSPARK_TEST_DATA) + "/drafters/markov";
  EXPECT_EQ(Trainer::open(*engine_, folder).error().code, ErrorCode::kUnsupported) << "no GGUF";
}

TEST(BigramFactors, LowRankTablesComeBack) {
  TrainData data;
  TrainConversation text = {.id = "t", .tokens = {}, .answers = {{1, 2000}}, .temperature = 0, .seed = 0};
  for (int i = 0; i < 2000; ++i) text.tokens.push_back(i % 10);
  data.train = {text};
  const DraftVocabulary vocabulary = {.target_size = 12, .ids = {}};
  const BigramFactors factors = bigram_factors(data, vocabulary, 10, 1);
  for (size_t a = 0; a < 12; ++a) {
    for (size_t b = 0; b < 12; ++b) {
      double bias = 0;
      for (size_t r = 0; r < 10; ++r) bias += double{factors.w1[a * 10 + r]} * factors.w2[b * 10 + r];
      // count 200 (199 at the start), expected 20: log((200 + 20) / 21)
      const bool follows = a < 10 && b == (a + 1) % 10;
      EXPECT_NEAR(bias, follows ? 2.35 : 0.0, 0.02) << a << " " << b;
    }
  }
}

TEST(Recipe, ShippedRecipesAreRead) {
  ModelConfig target;
  target.layers = 30;
  target.hidden = 576;
  target.ffn = 1536;
  target.heads = 9;
  target.kv_heads = 3;
  target.head_dim = 64;
  target.vocab = 49152;
  for (const char* name : {"lookup", "lookup-2", "plain"}) {
    const auto recipe = load_recipe(std::string(DSPARK_TEST_DATA) + "/../../training/" + name + ".json", target);
    ASSERT_TRUE(recipe.ok()) << recipe.error().message;
    EXPECT_EQ(recipe->drafter.lookup, std::string(name) != "plain");
  }
}

}  // namespace
}  // namespace dspark
