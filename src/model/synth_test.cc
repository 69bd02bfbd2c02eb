// Tests of synth.h. That llama.cpp loads these files is checked by hand when shapes or keys change.
#include "model/synth.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "model/gguf.h"

namespace dspark {
namespace {

using testing::HasSubstr;

constexpr SynthShape kTiny = {.name = "tiny-moe",
                              .arch = "qwen3moe",
                              .layers = 3,
                              .embedding = 256,
                              .heads = 4,
                              .kv_heads = 2,
                              .head_size = 32,
                              .feed_forward = 96,
                              .vocabulary = 1200,
                              .tied = false,
                              .rope_base = 1e6f,
                              .norm_epsilon = 1e-6f,
                              .context = 512,
                              .experts = 4,
                              .experts_used = 2,
                              .expert_feed_forward = 96};

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string path_of(const char* name) { return testing::TempDir() + name; }

TEST(Synth, WritesAModelThatTheReaderAccepts) {
  const std::string path = path_of("dspark_synth.gguf");
  int64_t last_total = 0;
  ASSERT_TRUE(
      write_synthetic_model(kTiny, DType::kQ4_K, 2, 1, path, [&](std::string_view, int64_t done, int64_t total) {
        EXPECT_LE(done, total);
        last_total = total;
        return true;
      }).ok());
  EXPECT_EQ(std::filesystem::file_size(path), static_cast<uint64_t>(last_total));
  const GgufFile file = GgufFile::open(path).value();
  EXPECT_EQ(*file.require<std::string_view>("general.architecture"), "qwen3moe");
  EXPECT_EQ(*file.require<uint32_t>("qwen3moe.block_count"), 2u);
  EXPECT_EQ(file.require<std::vector<std::string_view>>("tokenizer.ggml.tokens")->size(), 1200u);
  EXPECT_EQ(file.find("token_embd.weight", {1200, 256})->type, DType::kQ4_K);
  EXPECT_EQ(file.find("output.weight", {1200, 256})->type, DType::kQ6_K);
  EXPECT_EQ(file.find("blk.1.attn_q.weight", {128, 256})->type, DType::kQ4_K);
  EXPECT_EQ(file.find("blk.1.attn_q_norm.weight", {32})->type, DType::kF32);
  EXPECT_EQ(file.find("blk.1.ffn_gate_inp.weight", {4, 256})->type, DType::kF32);
  EXPECT_EQ(file.find("blk.1.ffn_up_exps.weight", {4, 96, 256})->type, DType::kQ4_K);
  EXPECT_EQ(file.find("blk.1.ffn_down_exps.weight", {4, 256, 96})->type, DType::kQ5_0);
  EXPECT_FALSE(file.contains("blk.2.attn_q.weight"));
}

TEST(Synth, TheTokensAreDistinct) {
  const std::string path = path_of("dspark_synth_tokens.gguf");
  ASSERT_TRUE(write_synthetic_model(kTiny, DType::kQ8_0, 1, 1, path, {}).ok());
  const GgufFile file = GgufFile::open(path).value();
  auto tokens = file.require<std::vector<std::string_view>>("tokenizer.ggml.tokens").value();
  EXPECT_EQ(tokens[' '], "\xc4\xa0");  // U+0120, as in GPT-2's vocabulary
  EXPECT_EQ(tokens['A'], "A");
  EXPECT_EQ(tokens[*file.require<uint32_t>("tokenizer.ggml.eos_token_id")], "<|im_end|>");
  std::sort(tokens.begin(), tokens.end());
  EXPECT_EQ(std::adjacent_find(tokens.begin(), tokens.end()), tokens.end());
}

TEST(Synth, BytesDependOnTheSeedAlone) {
  const auto write = [](uint64_t seed) {
    const std::string path = path_of("dspark_synth_seed.gguf");
    EXPECT_TRUE(write_synthetic_model(kTiny, DType::kQ6_K, 1, seed, path, {}).ok());
    return read_file(path);
  };
  const std::string first = write(1);
  EXPECT_EQ(first, write(1));
  EXPECT_NE(first, write(2));
}

// What llama-quantize (llama.cpp b11434) gave the matrices of smollm2-135m and gemma-3-1b.
TEST(Synth, FallsBackAsLlamaQuantizeDoes) {
  EXPECT_EQ(synth_tensor_type(DType::kQ4_K, 2560, false), DType::kQ4_K);
  EXPECT_EQ(synth_tensor_type(DType::kQ2_K, 576, false), DType::kQ4_0);
  EXPECT_EQ(synth_tensor_type(DType::kQ3_K, 576, false), DType::kQ4_0);
  EXPECT_EQ(synth_tensor_type(DType::kQ4_K, 576, false), DType::kQ5_0);
  EXPECT_EQ(synth_tensor_type(DType::kQ5_K, 1152, false), DType::kQ5_1);
  EXPECT_EQ(synth_tensor_type(DType::kQ6_K, 1152, false), DType::kQ8_0);
  EXPECT_EQ(synth_tensor_type(DType::kIQ4_XS, 1152, false), DType::kIQ4_NL);
  EXPECT_EQ(synth_tensor_type(DType::kQ4_0, 100, false), DType::kF16);
  EXPECT_EQ(synth_tensor_type(DType::kQ4_0, 2560, true), DType::kQ6_K);
  EXPECT_EQ(synth_tensor_type(DType::kQ4_0, 576, true), DType::kQ8_0);
  EXPECT_EQ(synth_tensor_type(DType::kQ4_K, 576, true), DType::kQ8_0);
  EXPECT_EQ(synth_tensor_type(DType::kQ8_0, 2560, true), DType::kQ8_0);
  EXPECT_EQ(synth_tensor_type(DType::kBF16, 576, true), DType::kBF16);
}

TEST(Synth, ErrorsAndCancellation) {
  EXPECT_THAT(find_synth_shape("qwen3-5b").error().message,
              HasSubstr("unknown shape 'qwen3-5b'; known: smollm2-135m, "));
  EXPECT_EQ(find_synth_shape("qwen3-4b")->embedding, 2560);
  const std::string path = path_of("dspark_synth_none.gguf");
  std::filesystem::remove(path);
  EXPECT_THAT(write_synthetic_model(kTiny, DType::kQ4_0, 4, 1, path, {}).error().message,
              HasSubstr("4 layers, expected 1 to 3 for tiny-moe"));
  const auto stopped =
      write_synthetic_model(kTiny, DType::kQ4_0, 1, 1, path, [](std::string_view, int64_t, int64_t) { return false; });
  EXPECT_EQ(stopped.error().code, ErrorCode::kCancelled);
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace dspark
