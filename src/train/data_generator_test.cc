// Generation of training data on a tiny model: answers are those of the engine, and an interrupted run goes on.
#include "train/data_generator.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "base/json.h"

namespace dspark {
namespace {

using nlohmann::json;

class DataGeneration : public testing::Test {
 protected:
  DataGeneration() : folder_(std::filesystem::temp_directory_path() / fmt::format("dspark-data-test-{}", getpid())) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    EngineOptions options;
    options.model = std::string(DSPARK_TEST_DATA) + "/models/llama/llama.gguf";
    options.runner.threads = 1;
    engine_ = Engine::open(options).value();
    sources_.seed = 3;
    sources_.temperatures = {0.0, 0.9};
    PromptSource source = {
        .name = "s", .kind = "template", .licence = "MIT", .origin = "", .samples = 2, .prompts = {}};
    for (int i = 0; i < 6; ++i) {
      source.prompts.push_back({fmt::format("s/{}", i), "s", {fmt::format("question {}", i)}});
    }
    source.prompts[4].turns.push_back("and then?");
    sources_.sources = {source};
    options_.out = (folder_ / "out.jsonl").string();
    options_.max_tokens = 12;
    options_.slots = 3;
  }
  ~DataGeneration() override { std::filesystem::remove_all(folder_); }

  std::map<std::string, json> lines() const {
    std::map<std::string, json> all;
    std::ifstream in(options_.out);
    for (std::string line; std::getline(in, line);) {
      const json object = json::parse(line);
      EXPECT_TRUE(all.emplace(object["id"].get<std::string>(), object).second) << "twice: " << object["id"];
    }
    return all;
  }

  std::filesystem::path folder_;
  std::unique_ptr<Engine> engine_;
  PromptSources sources_;
  DataOptions options_;
};

constexpr auto kGoOn = [](const DataTotals&) { return true; };

TEST_F(DataGeneration, AnswersAreTheEngines) {
  const auto totals = generate_data(*engine_, sources_, options_, kGoOn);
  ASSERT_TRUE(totals.ok()) << totals.error().message;
  const auto all = lines();
  EXPECT_EQ(all.size(), 12u);
  for (const auto& [id, line] : all) {
    const auto tokens = line["tokens"].get<std::vector<int32_t>>();
    const auto range = line["answers"].back().get<std::vector<size_t>>();
    ASSERT_EQ(range[1], tokens.size());
    GenerateRequest request;
    request.prompt.assign(tokens.begin(), tokens.begin() + static_cast<int64_t>(range[0]));
    request.sampling.temperature = line["temperature"];
    request.sampling.seed = line["seed"];
    request.max_tokens = options_.max_tokens;
    const auto expected = engine_->generate(request, nullptr);
    ASSERT_TRUE(expected.ok()) << expected.error().message;
    std::vector<int32_t> answer(tokens.begin() + static_cast<int64_t>(range[0]), tokens.end());
    if (line["ended"].get<bool>()) answer.pop_back();
    EXPECT_EQ(answer, expected->tokens) << id;
  }
  EXPECT_GT(all.at("s/0#1")["temperature"].get<double>(), 0.0) << "further samples are drawn";
}

TEST_F(DataGeneration, AnInterruptedRunGoesOnToTheSameData) {
  ASSERT_TRUE(generate_data(*engine_, sources_, options_, kGoOn).ok());
  const auto whole = lines();
  std::filesystem::remove(options_.out);
  const auto some =
      generate_data(*engine_, sources_, options_, [](const DataTotals& now) { return now.conversations < 5; });
  ASSERT_TRUE(some.ok());
  EXPECT_LT(lines().size(), whole.size());
  std::ofstream(options_.out, std::ios::app) << "{\"id\": \"torn";
  ASSERT_TRUE(generate_data(*engine_, sources_, options_, kGoOn).ok());
  EXPECT_EQ(lines(), whole);
}

TEST_F(DataGeneration, RepeatedPromptsAndEvaluationPromptsAreDropped) {
  sources_.sources[0].prompts[1].turns = {"Question  0"};
  sources_.evaluation = {"question 2"};
  const auto totals = generate_data(*engine_, sources_, options_, kGoOn);
  ASSERT_TRUE(totals.ok()) << totals.error().message;
  const auto all = lines();
  EXPECT_EQ(totals->dropped_duplicates, 1);
  EXPECT_EQ(totals->dropped_overlaps, 2);
  EXPECT_FALSE(all.contains("s/2#0"));
  EXPECT_NE(all.contains("s/0#0"), all.contains("s/1#0"));
}

TEST_F(DataGeneration, AConversationThatCannotBeRenderedIsDropped) {
  sources_.sources[0].prompts[2].turns = {"half a character: \xe2\x82"};
  const auto totals = generate_data(*engine_, sources_, options_, kGoOn);
  ASSERT_TRUE(totals.ok()) << totals.error().message;
  EXPECT_EQ(totals->dropped_unusable, 2);
  EXPECT_EQ(lines().size(), 10u);
}

TEST_F(DataGeneration, ABrokenFileIsRefusedAndNotTouched) {
  std::ofstream(options_.out) << "{\"id\": 3}\n";
  const auto totals = generate_data(*engine_, sources_, options_, kGoOn);
  ASSERT_FALSE(totals.ok());
  EXPECT_THAT(totals.error().message, testing::HasSubstr("out.jsonl:1"));
  EXPECT_EQ(std::filesystem::file_size(options_.out), 10u);
}

}  // namespace
}  // namespace dspark
