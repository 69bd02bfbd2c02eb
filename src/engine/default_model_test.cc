// The default model against what others compute from it: perplexity, golden greedy tokens, and the token law on a real
// vocabulary. Needs DSPARK_TEST_MODEL, the path of its file (make test sets it).
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>

#include "engine/engine.h"

namespace dspark {
namespace {

const std::string kData = DSPARK_TEST_DATA;

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// Null, with a note, where the model is not at hand.
std::unique_ptr<Engine> open_default(const RunnerOptions& runner = {}, int chunk = 512) {
  const char* path = std::getenv("DSPARK_TEST_MODEL");
  if (path == nullptr) {
    std::cout << "[ note     ] DSPARK_TEST_MODEL is not set: the default model was NOT checked (make test sets it)\n";
    return nullptr;
  }
  EngineOptions options;
  options.model = path;
  options.runner = runner;
  options.schedule.max_rows = chunk;
  auto engine = Engine::open(options);
  EXPECT_TRUE(engine.ok()) << engine.error().message;
  return std::move(*engine);
}

// KV is f32, as in every comparison with other implementations (docs/numerics.md).
TEST(DefaultModel, PerplexityIsThatOfFloatActivations) {
  const std::unique_ptr<Engine> engine = open_default({.kv_type = DType::kF32});
  if (engine == nullptr) return;
  const auto golden = nlohmann::json::parse(read_file(kData + "/smollm2/perplexity.json"));
  const std::vector<int32_t> tokens = engine->tokenizer().encode(read_file(kData + "/text/sample-64k.txt"));
  ASSERT_EQ(tokens.size(), golden["tokens"].get<size_t>());
  const auto score = engine->score(tokens, {.window = golden["window"].get<int>(), .chunk = 256}, {});
  ASSERT_TRUE(score.ok()) << score.error().message;
  ASSERT_EQ(score->log_probs.size(), golden["float"]["scored"].get<size_t>());
  const double expected = golden["float"]["perplexity"].get<double>();
  std::cout << "[ measured ] perplexity " << score->perplexity << ", with float activations " << expected << "\n";
  EXPECT_NEAR(score->perplexity / expected, 1.0, 0.003);
}

// Set DSPARK_WRITE_GOLDENS=1 to write the file anew; scripts/goldens/check_greedy.py (make golden) then checks it
// against transformers.
TEST(DefaultModel, GreedyTokensAreTheSameOnEveryMachine) {
  const std::unique_ptr<Engine> engine = open_default();
  if (engine == nullptr) return;
  const auto prompts = nlohmann::ordered_json::parse(read_file(kData + "/smollm2/prompts.json"));
  nlohmann::ordered_json answers = nlohmann::ordered_json::array();
  for (const auto& prompt : prompts) {
    const auto text = engine->render(prompt["messages"]);
    ASSERT_TRUE(text.ok()) << text.error().message;
    GenerateRequest request;
    request.prompt = engine->encode_rendered(*text);
    request.max_tokens = 48;
    request.sampling.temperature = 0.0;
    const auto answer = engine->generate(request, {});
    ASSERT_TRUE(answer.ok()) << answer.error().message;
    answers.push_back({{"name", prompt["name"]}, {"prompt_tokens", request.prompt}, {"tokens", answer->tokens}});
  }
  ASSERT_EQ(answers.size(), 10u);
  const std::string path = kData + "/smollm2/greedy.json";
  if (std::getenv("DSPARK_WRITE_GOLDENS") != nullptr) {
    std::ofstream file(path);
    file << "[\n";
    for (size_t i = 0; i < answers.size(); ++i) file << " " << answers[i] << (i + 1 < answers.size() ? ",\n" : "\n");
    file << "]\n";
  }
  const auto golden = nlohmann::ordered_json::parse(read_file(path));
  ASSERT_EQ(golden.size(), answers.size());
  for (size_t i = 0; i < answers.size(); ++i) EXPECT_EQ(answers[i], golden[i]);
}

// The answer to one sampled request, with its seed, under a setting that must not matter.
std::vector<int32_t> sampled(const RunnerOptions& runner, int chunk, const std::string& before) {
  const std::unique_ptr<Engine> engine = open_default(runner, chunk);
  const std::string story = "Tell me a long story about a lighthouse keeper, a storm, and a ship full of clocks. ";
  std::string prompt;
  for (int i = 0; i < 8; ++i) prompt += story;
  GenerateRequest request;
  request.prompt = engine->tokenizer().encode(prompt);
  request.max_tokens = 40;
  request.sampling.temperature = 0.9;
  request.sampling.top_p = 0.95;
  request.sampling.top_k = 50;
  request.sampling.repetition_penalty = 1.1;
  request.sampling.seed = 20240607;
  if (!before.empty()) {
    // It leaves KV in the cache that shares a part of the prompt.
    GenerateRequest earlier;
    earlier.prompt = engine->tokenizer().encode(before);
    earlier.max_tokens = 5;
    EXPECT_TRUE(engine->generate(earlier, {}).ok());
  }
  const auto answer = engine->generate(request, {});
  EXPECT_TRUE(answer.ok()) << answer.error().message;
  EXPECT_TRUE(before.empty() || answer->cached_tokens > 5);
  return answer->tokens;
}

TEST(DefaultModel, TheSameSeedGivesTheSameTokensUnderEverySetting) {
  if (std::getenv("DSPARK_TEST_MODEL") == nullptr) {
    open_default();  // says so
    return;
  }
  const std::vector<int32_t> expected = sampled({.threads = 1}, 512, "");
  EXPECT_GE(expected.size(), 20u);
  EXPECT_EQ(sampled({.threads = 2}, 512, ""), expected);
  EXPECT_EQ(sampled({.threads = 3}, 7, ""), expected);
  EXPECT_EQ(sampled({.threads = 2}, 1, ""), expected);
  EXPECT_EQ(sampled({.threads = 2}, 512, "Tell me a long story about a lighthouse keeper, a dog"), expected);
  for (Isa isa : {Isa::kAvx2, Isa::kAvx512}) {
    if (!isa_supported(isa)) continue;
    std::cout << "[ here     ] compared " << isa_name(isa) << "\n";
    EXPECT_EQ(sampled({.threads = 2, .isa = isa}, 128, ""), expected) << isa_name(isa);
  }
}

}  // namespace
}  // namespace dspark
