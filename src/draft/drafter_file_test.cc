// Drafters written and read again, and the checks of what is read. Test thread.
#include "draft/drafter_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/cache_dir.h"
#include "draft/draft_goldens.h"
#include "draft/find_drafter.h"

namespace dspark {
namespace {

using ::testing::HasSubstr;

std::string scratch(const std::string& name) {
  const std::string folder = ::testing::TempDir() + "/drafter_file_test";
  DSPARK_CHECK(create_folders(folder).ok(), "{}", folder);
  return folder + "/" + name;
}

std::vector<std::vector<float>> logits_of(const std::string& path, const GoldenDraft& golden, LoadOptions load = {}) {
  GoldenRig rig(path, {.load = load});
  rig.inject(0, kGoldenPositions);
  RecordingSampler sampler;
  DraftRequest request = rig.request(golden, &sampler, 0);
  DraftRequest* const requests[] = {&request};
  rig.drafter().propose(requests);
  for (const DraftToken& token : request.draft) sampler.rows.push_back({token.confidence});
  return sampler.rows;
}

TEST(DrafterFile, ConvertedDraftersDraftTheSame) {
  for (const std::string name : {"markov", "gated", "rnn", "reduced", "lookup"}) {
    const std::string path = scratch(name + ".gguf");
    const ModelFile source = checked(ModelFile::open(drafter_path(name)));
    const int rows = checked(read_dspark_config(source)).draft_vocab;
    const GoldenDraft golden = golden_drafts(name, rows)[0];
    ASSERT_TRUE(convert_drafter(source, {}, path).ok());
    EXPECT_EQ(logits_of(path, golden), logits_of(drafter_path(name), golden)) << name;
    // Quantised when written is quantised when loaded; and a GGUF converts, too.
    const std::string small = scratch(name + "-q8_0.gguf");
    ASSERT_TRUE(convert_drafter(checked(ModelFile::open(path)), {.type = DType::kQ8_0}, small).ok());
    EXPECT_LT(std::filesystem::file_size(small), std::filesystem::file_size(path));
    EXPECT_EQ(logits_of(small, golden), logits_of(path, golden, {.quantize = DType::kQ8_0})) << name;
  }
}

TEST(DrafterFile, ParametersSurvive) {
  const std::string path = scratch("parameters.gguf");
  Sha256Digest digest = {};
  digest[0] = 0xAB;
  const ModelFile source = checked(ModelFile::open(drafter_path("rnn")));
  ASSERT_TRUE(convert_drafter(source, {.target_digest = digest}, path).ok());
  const DsparkConfig a = checked(read_dspark_config(source));
  const DsparkConfig b = checked(read_dspark_config(checked(ModelFile::open(path))));
  EXPECT_EQ(b.target_digest, digest);
  EXPECT_EQ(a.target_layers, b.target_layers);
  EXPECT_EQ(a.backbone.local, b.backbone.local);
  EXPECT_EQ(a.backbone.window, b.backbone.window);
  EXPECT_EQ(a.backbone.vocab, b.backbone.vocab);
  EXPECT_EQ(b.head, DraftHead::kRnn);
  EXPECT_EQ(b.rank, 32);
  EXPECT_TRUE(b.causal);
  EXPECT_TRUE(b.mask_embedding);
  EXPECT_TRUE(b.sample_from_anchor);
  EXPECT_EQ(b.target_layer_count, 2);
}

TEST(DrafterFile, EmbeddingAndHeadCanBeTheTargets) {
  const std::string path = scratch("shared.gguf");
  ASSERT_TRUE(convert_drafter(checked(ModelFile::open(drafter_path("gated"))), {.share_embedding = true}, path).ok());
  const ModelFile file = checked(ModelFile::open(path));
  EXPECT_FALSE(file.tensors().contains("token_embd.weight"));
  EXPECT_TRUE(file.tensors().contains("output.weight"));  // of the reduced vocabulary
}

TEST(DrafterFile, SaysWhyLlamaCppCannotRunIt) {
  DsparkConfig config = checked(read_dspark_config(checked(ModelFile::open(drafter_path("markov")))));
  EXPECT_THAT(llamacpp_obstacle(config), HasSubstr("embedding"));
  config.target_layers = {0};
  EXPECT_EQ(llamacpp_obstacle(config), "");
  config.head = DraftHead::kRnn;
  EXPECT_THAT(llamacpp_obstacle(config), HasSubstr("'rnn'"));
}

TEST(DrafterFile, IsFoundByItsModelsDigest) {
  const std::string folder = scratch("found");
  std::filesystem::remove_all(folder);
  ASSERT_TRUE(create_folders(folder).ok());
  Sha256Digest mine = {}, other = {};
  mine[3] = 1;
  const ModelFile source = checked(ModelFile::open(drafter_path("markov")));
  ASSERT_TRUE(convert_drafter(source, {.target_digest = other}, folder + "/a.gguf").ok());
  ASSERT_TRUE(convert_drafter(source, {.target_digest = mine}, folder + "/b.gguf").ok());
  std::filesystem::copy_file(DSPARK_TEST_DATA "/models/llama/llama.gguf", folder + "/0.gguf");
  std::ofstream(folder + "/notes.txt") << "no drafter";
  const std::string folders[] = {scratch("missing"), folder};
  EXPECT_EQ(checked(find_drafter(folders, mine)), folder + "/b.gguf");
  mine[3] = 2;
  EXPECT_EQ(checked(find_drafter(folders, mine)), std::nullopt);
}

TEST(DrafterFile, RefusesATargetThatDoesNotFit) {
  const DsparkConfig good = checked(read_dspark_config(checked(ModelFile::open(drafter_path("markov")))));
  ModelConfig target;
  target.vocab = kGoldenVocab;
  target.hidden = kGoldenHidden;
  target.layers = 2;
  Sha256Digest digest = {};
  EXPECT_TRUE(check_target(good, target, digest, "d").ok());
  DsparkConfig config = good;
  config.target_digest = digest;
  digest[0] = 7;
  EXPECT_THAT(check_target(config, target, digest, "d").error().message, HasSubstr("07000000"));
  EXPECT_TRUE(check_target(config, target, std::nullopt, "d").ok());
  config = good;
  config.backbone.vocab = 282;
  EXPECT_THAT(check_target(config, target, digest, "d").error().message, HasSubstr("282, the model's is 283"));
  config = good;
  config.backbone.hidden = 96;
  EXPECT_THAT(check_target(config, target, digest, "d").error().message, HasSubstr("96, the model's is 64"));
  config = good;
  config.target_layers = {0, 2};
  EXPECT_THAT(check_target(config, target, digest, "d").error().message, HasSubstr("layer 2, the model has 2"));
  config.target_layer_count = 3;
  EXPECT_FALSE(check_target(config, target, digest, "d").ok());
}

// The folder of `name` with one member of config.json changed.
Result<DsparkConfig> with_member(const std::string& name, const std::string& key, nlohmann::json value) {
  const std::string folder = scratch("changed");
  std::filesystem::remove_all(folder);
  std::filesystem::copy(drafter_path(name), folder);
  std::ifstream in(folder + "/config.json");
  nlohmann::json config = nlohmann::json::parse(in);
  config[key] = std::move(value);
  std::ofstream(folder + "/config.json") << config;
  DSPARK_TRY(const ModelFile file, ModelFile::open(folder));
  return read_dspark_config(file);
}

TEST(DrafterFile, BadParametersAreNamed) {
  const auto message = [](const std::string& key, nlohmann::json value) {
    const Result<DsparkConfig> config = with_member("markov", key, std::move(value));
    return config.ok() ? std::string("read") : config.error().message;
  };
  EXPECT_EQ(message("block_size", 16), "read");
  EXPECT_THAT(message("block_size", 17), HasSubstr("block size is 17, expected 1 to 16"));
  EXPECT_THAT(message("block_size", 0), HasSubstr("block size is 0"));
  EXPECT_THAT(message("num_hidden_layers", 9), HasSubstr("layer count is 9, expected 1 to 8"));
  EXPECT_THAT(message("mask_token_id", kGoldenVocab), HasSubstr("mask token is 283"));
  EXPECT_THAT(message("markov_rank", 16), HasSubstr("16, but the file's Markov factors have rank 32"));
  EXPECT_THAT(message("markov_head_type", "lstm"), HasSubstr("'lstm', expected none, markov, gated or rnn"));
  EXPECT_THAT(message("target_layer_ids", {1, 1}), HasSubstr("expected at least 2"));
  EXPECT_THAT(message("target_layer_ids", {-2}), HasSubstr("expected at least -1"));
  EXPECT_THAT(message("target_layer_ids", nlohmann::json::array()), HasSubstr("number of target layers is 0"));
  EXPECT_THAT(message("architectures", {"LlamaForCausalLM"}), HasSubstr("'Qwen3DSparkModel'"));
  EXPECT_THAT(message("attention_bias", true), HasSubstr("attention_bias true"));
  EXPECT_THAT(message("head_dim", 24), HasSubstr("24"));
}

TEST(DrafterFile, AModelIsNoDrafter) {
  const Result<DsparkConfig> config =
      read_dspark_config(checked(ModelFile::open(DSPARK_TEST_DATA "/models/llama/llama.gguf")));
  ASSERT_FALSE(config.ok());
  EXPECT_THAT(config.error().message, HasSubstr("'llama' is no drafter, expected 'dflash'"));
}

}  // namespace
}  // namespace dspark
