// Tests of config.h: hostile numbers in files.
#include "model/config.h"

#include <gmock/gmock.h>

#include "model/architecture.h"
#include "model/gguf_writer.h"

namespace dspark {
namespace {

// What the architecture reads from a gemma3 file with these numbers and an embedding of 4 x 32.
Result<ModelConfig> read_gemma(int layers, int heads) {
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
  writer.add_tensor("token_embd.weight", DType::kF32, shape);
  EXPECT_TRUE(writer.create(path).ok());
  EXPECT_TRUE(writer.write(std::vector<uint8_t>(4 * 32 * 4)).ok());
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

}  // namespace
}  // namespace dspark
