// The texts beside a model's weights: what ends an answer, and files that are not what they should be.
#include "engine/model_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

namespace dspark {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// A tiny model's folder, to be spoilt.
class ModelFolder : public ::testing::Test {
 protected:
  ModelFolder() : folder_(fs::path(::testing::TempDir()) / "dspark_model_text") {
    fs::remove_all(folder_);
    fs::copy(fs::path(DSPARK_TEST_DATA) / "models/qwen3/hf", folder_);
  }
  ~ModelFolder() override { fs::remove_all(folder_); }

  void write(const char* name, std::string_view text) {
    fs::remove(folder_ / name);
    std::ofstream(folder_ / name) << text;
  }
  Result<Tokenizer> load() const {
    DSPARK_TRY(const ModelFile file, ModelFile::open(folder_));
    return load_tokenizer(file);
  }
  std::string refusal() const {
    const auto tokenizer = load();
    return tokenizer.ok() ? "accepted" : tokenizer.error().message;
  }

  const fs::path folder_;
};

TEST_F(ModelFolder, TheGenerationConfigNamesMoreEnds) {
  ASSERT_FALSE(load().value().is_end_of_generation(7));
  write("generation_config.json", R"({"eos_token_id": 7})");
  EXPECT_TRUE(load().value().is_end_of_generation(7));
  write("generation_config.json", R"({"eos_token_id": [7, 9, 1000000, -1], "temperature": 0.1})");
  const Tokenizer tokenizer = load().value();
  EXPECT_TRUE(tokenizer.is_end_of_generation(7));
  EXPECT_TRUE(tokenizer.is_end_of_generation(9));
  EXPECT_FALSE(tokenizer.is_end_of_generation(8));
  for (const char* text : {"", "{}", R"({"eos_token_id": null})"}) {
    write("generation_config.json", text);
    EXPECT_FALSE(load().value().is_end_of_generation(7)) << text;
  }
}

TEST_F(ModelFolder, ABrokenGenerationConfigIsRefusedByName) {
  for (const char* text : {"{", "[]", "7", R"({"eos_token_id": "</s>"})", R"({"eos_token_id": [1.5]})"}) {
    write("generation_config.json", text);
    EXPECT_THAT(refusal(), HasSubstr("generation_config.json")) << text;
  }
}

TEST_F(ModelFolder, WhatIsNoFileIsRefusedByName) {
  for (const char* name : {"generation_config.json", "chat_template.jinja", "tokenizer_config.json"}) {
    fs::remove(folder_ / name);
    ASSERT_EQ(mkfifo((folder_ / name).c_str(), 0600), 0);
    EXPECT_THAT(refusal(), HasSubstr(name));
    fs::remove(folder_ / name);
    fs::create_symlink("/nonexistent", folder_ / name);
    EXPECT_THAT(refusal(), HasSubstr(name));
    fs::remove(folder_ / name);
  }
}

}  // namespace
}  // namespace dspark
