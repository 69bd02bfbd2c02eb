// Tests of config.h: hostile numbers in files.
#include "model/config.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "base/json.h"
#include "base/read_file.h"
#include "model/architecture.h"
#include "model/gguf_writer.h"

namespace dspark {
namespace {

// What the architecture reads from a gemma3 file with these numbers, an embedding of 4 x 32 and another such tensor.
Result<ModelConfig> read_gemma(int layers, int heads, const char* other = "other") {
  const std::string path = testing::TempDir() + "dspark_config.gguf";
  GgufWriter writer;
  writer.set("general.architecture", "gemma3");
  const std::pair<const char*, int32_t> numbers[] = {
      {"gemma3.block_count", layers},        {"gemma3.embedding_length", 32},
      {"gemma3.feed_forward_length", 32},    {"gemma3.attention.head_count", heads},
      {"gemma3.attention.head_count_kv", 1}, {"gemma3.attention.key_length", 16},
      {"gemma3.context_length", 64},         {"gemma3.attention.sliding_window", 8},
  };
  for (const auto& [key, value] : numbers) writer.set(key, value);
  writer.set("gemma3.attention.layer_norm_rms_epsilon", 1e-6f);
  const int64_t shape[] = {4, 32};
  for (const char* name : {"token_embd.weight", other}) writer.add_tensor(name, DType::kF32, shape);
  EXPECT_TRUE(writer.create(path).ok());
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(writer.write(std::vector<uint8_t>(4 * 32 * 4)).ok());
  EXPECT_TRUE(writer.finish().ok());
  const ModelFile file = ModelFile::open(path).value();
  return find_architecture(file).value()->read_config(file);
}

TEST(ModelConfig, NothingIsComputedFromAbsurdNumbers) {
  EXPECT_TRUE(read_gemma(62, 2).ok());
  // The attention scale of 62 layers is computed from heads, the pattern of local layers from layers.
  EXPECT_THAT(read_gemma(62, 0).error().message, testing::HasSubstr("head count is 0"));
  EXPECT_THAT(read_gemma(2147483647, 1).error().message, testing::HasSubstr("layer count is 2147483647"));
}

TEST(ModelConfig, TheScaleOfQueriesIsANumber) {
  ModelConfig config = read_gemma(6, 2).value();
  EXPECT_TRUE(check_config(config, "x").ok());
  config.query_scale = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(check_config(config, "x").error().message, testing::HasSubstr("scale of the queries"));
}

// Why the folder of the tiny `model` is refused with these members in its config.json; "" if it is not.
std::string refusal(const std::string& model, const nlohmann::json& changes) {
  const std::string folder = testing::TempDir() + "dspark_config_hf";
  std::filesystem::remove_all(folder);
  std::filesystem::copy(DSPARK_TEST_DATA "/models/" + model + "/hf", folder);
  nlohmann::json config = parse_json(read_file(folder + "/config.json", 1 << 20).value(), "config.json").value();
  config.update(changes);
  std::ofstream(folder + "/config.json") << config;
  const ModelFile file = ModelFile::open(folder).value();
  const auto read = find_architecture(file).value()->read_config(file);
  return read.ok() ? "" : read.error().message;
}

TEST(ModelConfig, WhatIsNotComputedIsRefused) {
  using testing::HasSubstr;
  EXPECT_EQ(refusal("llama", nlohmann::json::object()), "");
  EXPECT_EQ(refusal("llama", {{"hidden_act", "swish"}, {"quantization_config", nullptr}}), "");
  EXPECT_THAT(refusal("llama", {{"hidden_act", "relu"}}), HasSubstr("activation 'relu', expected 'silu'"));
  EXPECT_THAT(refusal("llama", {{"rope_scaling", 5}}), HasSubstr("expected an object"));
  EXPECT_THAT(refusal("llama", {{"quantization_config", {{"bits", 4}}}}), HasSubstr("has 'quantization_config'"));
  EXPECT_THAT(refusal("gemma3", {{"final_logit_softcapping", 30.0}}), HasSubstr("has 'final_logit_softcapping'"));
  EXPECT_THAT(refusal("qwen2", {{"use_sliding_window", true}}), HasSubstr("'use_sliding_window' is true"));
  EXPECT_THAT(refusal("gemma3", {{"layer_types", nlohmann::json::array({"chunked_attention"})}}),
              HasSubstr("layer_types, expected"));
  EXPECT_THAT(read_gemma(6, 2, "blk.5.ffn_up.bias").error().message, HasSubstr("has a tensor 'blk.5.ffn_up.bias'"));
  EXPECT_TRUE(read_gemma(6, 2, "blk.6.ffn_up.bias").ok());
}

}  // namespace
}  // namespace dspark
