// Answers of an access log as training data: which count, and that their tokens are the log's. Test thread.
#include "train/log_data.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/model_text.h"

namespace dspark {
namespace {

class LogData : public testing::Test {
 protected:
  LogData()
      : folder_(std::filesystem::temp_directory_path() / fmt::format("dspark-log-data-test-{}", getpid())),
        tokenizer_(load_tokenizer(ModelFile::open(DSPARK_TEST_DATA "/models/llama/hf").value()).value()) {
    std::filesystem::create_directories(folder_);
  }
  ~LogData() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  nlohmann::json line(const std::string& prompt, const std::string& answer) const {
    const auto plain = EncodeOptions{.add_special = false, .parse_special = false};
    return {{"endpoint", "completions"},
            {"status", 200},
            {"prompt_tokens", tokenizer_.encode(prompt, {}).size()},
            {"output_tokens", tokenizer_.encode(answer, plain).size()},
            {"prompt", prompt},
            {"answer", answer},
            {"sampling", {{"n", 1}, {"temperature", 0.7}, {"seed", uint64_t{1} << 63}}}};
  }
  Result<LogDataTotals> convert(const std::vector<std::string>& lines, const std::string& torn = "") const {
    std::ofstream out(path("log.jsonl"));
    for (const std::string& each : lines) out << each << "\n";
    out << torn;
    out.close();
    return write_log_data(path("log.jsonl"), tokenizer_, 64, path("data.jsonl"));
  }

  std::filesystem::path folder_;
  Tokenizer tokenizer_;
};

TEST_F(LogData, AnswersBecomeConversations) {
  const auto totals = convert({line("the cat", " sat on the mat").dump(), line("the cat", " ran").dump(),
                               line("the cat", " ran").dump(), line("a dog", " slept").dump()},
                              R"({"endpoint": "comp)");
  ASSERT_TRUE(totals.ok()) << totals.error().message;
  EXPECT_EQ(totals->conversations, 3);
  EXPECT_EQ(totals->repeated, 1);
  EXPECT_EQ(totals->left_out, 0);
  const auto data = load_train_data(path("data.jsonl"), tokenizer_.size(), 0);
  ASSERT_TRUE(data.ok()) << data.error().message;
  ASSERT_EQ(data->train.size(), 3u);
  const TrainConversation& first = data->train[0];
  EXPECT_EQ(tokenizer_.decode(first.tokens), "the cat sat on the mat");
  EXPECT_EQ(first.answers.size(), 1u);
  EXPECT_EQ(first.answers[0][0], static_cast<int32_t>(tokenizer_.encode("the cat", {}).size()));
  EXPECT_EQ(first.answers[0][1], static_cast<int32_t>(first.tokens.size()));
  EXPECT_EQ(first.temperature, 0.7);
  EXPECT_EQ(first.seed, uint64_t{1} << 63);
  const auto prompt_of = [](const TrainConversation& each) { return each.id.substr(0, each.id.find('#')); };
  EXPECT_EQ(prompt_of(first), prompt_of(data->train[1])) << "both on the same side";
  EXPECT_NE(prompt_of(first), prompt_of(data->train[2]));
}

TEST_F(LogData, WhatIsNotTheModelsOwnAnswerIsLeftOut) {
  const auto changed = [&](const char* key, const nlohmann::json& value) {
    nlohmann::json out = line("the cat", " sat on the mat");
    out[key] = value;
    return out.dump();
  };
  nlohmann::json several = line("the cat", " sat");
  several["sampling"]["n"] = 2;
  nlohmann::json without_texts = line("the cat", " sat");
  without_texts.erase("prompt");
  without_texts.erase("answer");
  std::string longer;
  for (int i = 0; i < 200; ++i) longer += " mat";
  const auto totals =
      convert({changed("status", 500), changed("endpoint", "embeddings"), changed("output_tokens", 1),
               changed("prompt_tokens", 100), several.dump(), without_texts.dump(), line("the cat", longer).dump()});
  ASSERT_TRUE(totals.ok()) << totals.error().message;
  EXPECT_EQ(totals->conversations, 0);
  EXPECT_EQ(totals->left_out, 7);
}

TEST_F(LogData, ABrokenLineIsNamed) {
  const auto totals = convert({line("the cat", " sat").dump(), "{}"});
  ASSERT_FALSE(totals.ok());
  EXPECT_EQ(totals.error().code, ErrorCode::kCorrupt);
  EXPECT_NE(totals.error().message.find("log.jsonl:2"), std::string::npos) << totals.error().message;
  EXPECT_EQ(write_log_data(path("nothing"), tokenizer_, 64, path("data.jsonl")).error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace dspark
