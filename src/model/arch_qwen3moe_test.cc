// Tests of qwen3moe's configuration (arch_qwen3moe.cc).
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "model/model_file.h"
#include "model/read_config.h"

namespace dspark {
namespace {

namespace fs = std::filesystem;

// The tiny model's folder with the number of experts under the given keys.
Result<ModelConfig> config_with(const nlohmann::json& experts) {
  const fs::path folder = fs::path(testing::TempDir()) / "dspark_qwen3moe";
  fs::remove_all(folder);
  fs::copy(fs::path(DSPARK_TEST_DATA) / "models/qwen3moe/hf", folder);
  auto config = nlohmann::json::parse(std::ifstream(folder / "config.json"));
  EXPECT_EQ(config["num_experts"], 8);
  config.erase("num_experts");
  config.update(experts);
  std::ofstream(folder / "config.json") << config;
  DSPARK_TRY(const ModelFile file, ModelFile::open(folder.string()));
  return read_model_config(file);
}

TEST(Qwen3MoeFolder, ItsExpertsAreCountedUnderTheNamesOfTransformers4And5) {
  EXPECT_EQ(config_with({{"num_experts", 8}}).value().experts, 8);
  EXPECT_EQ(config_with({{"num_local_experts", 8}}).value().experts, 8);
  const auto none = config_with(nlohmann::json::object());
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(none.error().message, testing::HasSubstr("'num_experts' is missing"));
}

}  // namespace
}  // namespace dspark
