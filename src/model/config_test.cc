// Tests of config.h: hostile numbers in files.
#include "model/config.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "base/json.h"
#include "base/read_file.h"
#include "model/gguf_writer.h"
#include "model/read_config.h"

namespace dspark {
namespace {

// What the architecture reads from a gemma3 file with these numbers, an embedding of 4 x 32, and what `add` adds.
Result<ModelConfig> read_gemma(
    int layers, int heads, const std::function<void(GgufWriter&)>& add = [](GgufWriter&) {}) {
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
  add(writer);
  const int64_t shape[] = {4, 32};
  writer.add_tensor("token_embd.weight", DType::kF32, shape);
  EXPECT_TRUE(writer.create(path).ok());
  EXPECT_TRUE(writer.write(std::vector<uint8_t>(4 * 32 * 4)).ok());
  EXPECT_TRUE(writer.finish().ok());
  const ModelFile file = ModelFile::open(path).value();
  return read_model_config(file);
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
  const auto read = read_model_config(file);
  return read.ok() ? "" : read.error().message;
}

TEST(ModelConfig, WhatFoldersAskForAndIsNotComputedIsRefused) {
  struct Case {
    const char* model;
    nlohmann::json changes;
    const char* message;  // "" for what is computed, or asks for nothing
  };
  const auto rope = [](const char* type) { return nlohmann::json{{"rope_type", type}, {"factor", 4.0}}; };
  const nlohmann::json old_yarn = {{"type", "yarn"}, {"factor", 4.0}};
  const nlohmann::json nested = {{"full_attention", {{"rope_theta", 1e6}, {"rope_type", "yarn"}, {"factor", 8.0}}}};
  const nlohmann::json half = {{"rope_theta", 1e4}, {"rope_type", "default"}, {"partial_rotary_factor", 0.5}};
  const Case cases[] = {
      {"llama", nlohmann::json::object(), ""},
      {"llama", {{"hidden_act", "swish"}, {"quantization_config", nullptr}, {"partial_rotary_factor", 1.0}}, ""},
      {"llama", {{"hidden_act", "relu"}}, "activation 'relu', expected 'silu'"},
      {"llama", {{"quantization_config", {{"bits", 4}}}}, "has 'quantization_config'"},
      {"llama", {{"partial_rotary_factor", 0.5}}, "'partial_rotary_factor' is 0.5, expected 1"},
      {"llama", {{"rope_parameters", half}}, "'partial_rotary_factor' is 0.5, expected 1"},
      {"llama", {{"rope_scaling", 5}}, "expected an object"},
      {"llama", {{"rope_scaling", rope("linear")}}, ""},
      {"llama", {{"rope_scaling", rope("dynamic")}}, "RoPE scaling 'dynamic', expected 'default', 'linear' or"},
      {"llama", {{"rope_scaling", rope("longrope")}}, "RoPE scaling 'longrope'"},
      {"llama", {{"rope_scaling", rope("llama3")}}, "low_freq_factor"},
      {"llama", {{"rope_parameters", rope("yarn")}}, "RoPE scaling 'yarn'"},
      {"qwen3", {{"rope_scaling", old_yarn}}, "RoPE scaling 'yarn'"},
      {"qwen3",
       {{"rope_parameters", nested}},
       "'rope_parameters' for each kind of layer, expected one for all of 'qwen3'"},
      {"qwen2", {{"use_sliding_window", true}}, "'use_sliding_window' is true"},
      {"qwen3moe", {{"mlp_only_layers", {0}}}, "some layers are dense"},
      {"qwen3moe", {{"decoder_sparse_step", 2}}, "some layers are dense"},
      {"gemma3", {{"use_bidirectional_attention", true}}, "'use_bidirectional_attention' is true"},
      {"gemma3", {{"final_logit_softcapping", 30.0}}, "has 'final_logit_softcapping'"},
      {"gemma3", {{"attn_logit_softcapping", 50.0}}, "has 'attn_logit_softcapping'"},
      {"gemma3", {{"hidden_activation", "silu"}}, "'hidden_activation' is \"silu\""},
      {"gemma3", {{"rope_parameters", nested}}, "RoPE scaling 'yarn', expected 'default' or 'linear'"},
      {"gemma3", {{"layer_types", nlohmann::json::array({"chunked_attention"})}}, "1 layer_types, expected 7"},
      {"gemma3-types",
       {{"layer_types", {"chunked_attention", "full_attention", "full_attention"}}},
       "layer_types[0] is 'chunked_attention'"},
  };
  for (const Case& one : cases) {
    const std::string found = refusal(one.model, one.changes);
    if (*one.message == 0) {
      EXPECT_EQ(found, "") << one.changes;
    } else {
      EXPECT_THAT(found, testing::HasSubstr(one.message)) << one.changes;
    }
  }
}

TEST(ModelConfig, WhatGgufFilesAskForAndIsNotComputedIsRefused) {
  const auto with = [](auto key, auto value) {
    const auto read = read_gemma(6, 2, [&](GgufWriter& writer) { writer.set(key, value); });
    return read.ok() ? "" : read.error().message;
  };
  using testing::HasSubstr;
  EXPECT_EQ(with("gemma3.rope.scaling.type", "none"), "");
  EXPECT_THAT(with("gemma3.rope.scaling.type", "yarn"), HasSubstr("RoPE scaling 'yarn', expected 'linear' or 'none'"));
  EXPECT_THAT(with("gemma3.rope.scaling.attn_factor", 1.19f), HasSubstr("gemma3.rope.scaling.attn_factor is 1.19"));
  EXPECT_EQ(with("gemma3.final_logit_softcapping", 0.0f), "");
  EXPECT_THAT(with("gemma3.final_logit_softcapping", 30.0f), HasSubstr("gemma3.final_logit_softcapping is 30"));
  EXPECT_THAT(with("gemma3.attn_logit_softcapping", 50.0f), HasSubstr("gemma3.attn_logit_softcapping is 50"));
  EXPECT_THAT(with("gemma3.attention.causal", false), HasSubstr("gemma3.attention.causal is false, expected true"));
  EXPECT_THAT(with("gemma3.attention.value_length", 32), HasSubstr("value length 32 differs from key length 16"));
  EXPECT_THAT(with("gemma3.rope.dimension_count", 8), HasSubstr("8 rotary dimensions of 16, expected all"));
}

TEST(ModelConfig, ARopeFactorWithoutATypeIsLinear) {
  const auto scale = [](const char* key) {
    return read_gemma(6, 2, [&](GgufWriter& writer) { writer.set(key, 8.0f); }).value().rope.scale;
  };
  EXPECT_EQ(scale("gemma3.rope.scaling.factor"), 8.0);
  EXPECT_EQ(scale("gemma3.rope.scale_linear"), 8.0);  // of files from 2023
  EXPECT_EQ(scale("gemma3.other"), 1.0);
}

}  // namespace
}  // namespace dspark
