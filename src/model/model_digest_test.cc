// Tests of model_digest.h.
#include "model/model_digest.h"

#include <gmock/gmock.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "model/gguf.h"
#include "model/gguf_writer.h"
#include "model/hf_folder.h"
#include "model/random_blocks.h"

namespace dspark {
namespace {

namespace fs = std::filesystem;

const std::string kData = DSPARK_TEST_DATA;

fs::path fresh_folder(const char* name) {
  const fs::path folder = fs::path(testing::TempDir()) / name;
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder;
}

Sha256Digest digest_of(const std::string& path, const DigestCache& cache = {}, int threads = 1) {
  return model_digest(GgufFile::open(path).value(), cache, threads, {}).value();
}

TEST(ModelDigest, DependsOnTheBytesAlone) {
  const fs::path folder = fresh_folder("dspark_digest");
  const fs::path copy = folder / "copy.gguf";
  fs::copy(kData + "/gguf/types.gguf", copy);
  const auto digest = digest_of(kData + "/gguf/types.gguf");
  EXPECT_EQ(digest_of(copy), digest);
  EXPECT_NE(digest_of(kData + "/gguf/values.gguf"), digest);
  std::fstream file(copy, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(-40, std::ios::end);  // in the last tensor but one
  file.put(static_cast<char>(0x55));
  file.close();
  EXPECT_NE(digest_of(copy), digest);
}

TEST(ModelDigest, IsTheDocumentedTree) {
  const std::string path = kData + "/gguf/types.gguf";
  std::ifstream in(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  Sha256 file;
  file.add_field("bytes", bytes.size());
  file.add_field("chunk", sha256(bytes));
  Sha256 model;
  model.add_field("dspark model", uint64_t{1});
  model.add_field("file", file.finish());
  EXPECT_EQ(digest_of(path), model.finish());
}

TEST(ModelDigest, IsTheSameForAnyNumberOfThreads) {
  const std::string path = (fresh_folder("dspark_digest") / "large.gguf").string();
  GgufWriter writer;
  const int64_t shape[] = {20'000, 1024};
  writer.add_tensor("t", DType::kBF16, shape);
  ASSERT_TRUE(writer.create(path).ok());
  std::vector<uint8_t> row(2048);
  RandomWords random(3);
  for (int i = 0; i < 20'000; ++i) {
    fill_random_weights(DType::kBF16, 1.0f, random, row);
    ASSERT_TRUE(writer.write(row).ok());
  }
  ASSERT_TRUE(writer.finish().ok());
  EXPECT_EQ(digest_of(path, {}, 1), digest_of(path, {}, 3));
  const auto stopped =
      model_digest(GgufFile::open(path).value(), {}, 2, [](std::string_view, int64_t, int64_t) { return false; });
  EXPECT_EQ(stopped.error().code, ErrorCode::kCancelled);
}

TEST(ModelDigest, HuggingFaceFoldersIncludeConfigAndTokenizer) {
  const fs::path folder = fresh_folder("dspark_digest_hf") / "model";
  fs::copy(kData + "/safetensors/single", folder);
  const auto digest = [&] { return model_digest(HfFolder::open(folder).value(), {}, 1, {}).value(); };
  const auto before = digest();
  std::ofstream(folder / "chat_template.jinja") << "other";
  EXPECT_EQ(digest(), before);
  std::ofstream(folder / "tokenizer.json") << "{}";
  const auto other_tokenizer = digest();
  EXPECT_NE(other_tokenizer, before);
  std::ofstream(folder / "config.json") << "{}";
  EXPECT_NE(digest(), other_tokenizer);
}

TEST(ModelDigest, IsRememberedForSettledFiles) {
  const fs::path folder = fresh_folder("dspark_digest_cache");
  const std::string path = (folder / "m.gguf").string();
  fs::copy(kData + "/gguf/types.gguf", path);
  const DigestCache patient{.folder = (folder / "cache").string(), .settle_ns = 3600'000'000'000};
  const DigestCache cache{.folder = patient.folder, .settle_ns = 0};
  const auto digest = digest_of(path, patient);
  EXPECT_FALSE(fs::exists(cache.folder)) << "a file of this moment was remembered";
  EXPECT_EQ(digest_of(path, cache), digest);

  const fs::path entry = fs::directory_iterator(cache.folder)->path();
  std::ifstream in(entry);
  std::string line;
  std::getline(in, line);
  line.replace(line.size() - 64, 64, std::string(64, 'a'));
  std::ofstream(entry) << line << "\n";
  EXPECT_NE(digest_of(path, cache), digest) << "the cache was not used";
  fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(1));
  EXPECT_EQ(digest_of(path, cache), digest) << "an entry of another state was used";
  std::ofstream(entry) << "nonsense";
  EXPECT_EQ(digest_of(path, cache), digest);
}

}  // namespace
}  // namespace dspark
