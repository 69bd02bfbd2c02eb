// Tests of safetensors.h and hf_folder.h: folders written by the `safetensors` package
// (scripts/goldens/safetensors_files.py) and hostile bytes.
#include "model/safetensors.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/json.h"
#include "base/sha256.h"
#include "model/hf_folder.h"
#include "model/model_file.h"

namespace dspark {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

const std::string kData = DSPARK_TEST_DATA "/safetensors";

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.good()) << path;
  return {std::istreambuf_iterator<char>(in), {}};
}

std::span<const uint8_t> as_bytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

HfFolder open_ok(const std::string& path) {
  auto folder = HfFolder::open(path);
  if (!folder.ok()) ADD_FAILURE() << folder.error().message;
  return std::move(folder).value();
}

std::string open_error(const std::string& path) {
  const auto folder = HfFolder::open(path);
  return folder.ok() ? "" : folder.error().message;
}

void expect_tensors(const TensorSource& source, const json& expected) {
  EXPECT_EQ(source.tensors().size(), expected.size());
  for (const auto& [name, tensor] : expected.items()) {
    SCOPED_TRACE(name);
    const TensorInfo* info = source.info(name);
    ASSERT_NE(info, nullptr);
    EXPECT_EQ(info->type_name, tensor.at("type").get<std::string>());
    EXPECT_EQ(json(std::vector<int64_t>(info->shape.begin(), info->shape.begin() + info->rank)), tensor.at("shape"));
    EXPECT_EQ(info->bytes, tensor.at("bytes").get<uint64_t>());
    EXPECT_EQ(to_hex(sha256({info->data, info->bytes})), tensor.at("sha256").get<std::string>());
  }
}

// A copy of a golden folder that a test may break.
fs::path copy_of(const std::string& name) {
  const fs::path folder = fs::path(testing::TempDir()) / ("dspark_hf_" + name);
  fs::remove_all(folder);
  fs::copy(kData + "/" + name, folder);
  return folder;
}

TEST(HfFolder, ReadsWhatTheSafetensorsPackageWrote) {
  const json expected = parse_json(read_file(kData + "/expected.json"), "expected.json").value();
  for (const char* name : {"single", "sharded"}) {
    SCOPED_TRACE(name);
    const HfFolder folder = open_ok(kData + "/" + name);
    expect_tensors(folder, expected.at(name));
    EXPECT_EQ(json_require<int32_t>(folder.config(), "hidden_size", "config.json").value(), 8);
  }
}

TEST(HfFolder, TextsAreThereOrEmpty) {
  const HfFolder single = open_ok(kData + "/single");
  EXPECT_EQ(single.tokenizer_json(), R"({"version": "1.0"})");
  EXPECT_EQ(single.tokenizer_config_json(), R"({"add_bos_token": false})");
  EXPECT_EQ(single.chat_template(), "{{ messages }}");
  EXPECT_EQ(single.generation_config_json(), R"({"temperature": 0.6})");
  EXPECT_EQ(open_ok(kData + "/sharded").tokenizer_json(), "");
}

TEST(HfFolder, UnusableTensorsAreRefusedOnlyWhenUsed) {
  const HfFolder folder = open_ok(kData + "/single");
  EXPECT_TRUE(folder.find("w.bf16", {5}).ok());
  EXPECT_TRUE(folder.find("scalar", {1}).ok());
  EXPECT_THAT(folder.find("ids").error().message, HasSubstr("tensor 'ids' has type I64, expected one of f32"));
  EXPECT_THAT(folder.find("conv3d").error().message, HasSubstr("shape [1, 2, 1, 2, 2], expected at most 4 dimensions"));
  EXPECT_THAT(folder.find("empty").error().message, HasSubstr("shape [0, 4], expected at least one element"));
}

TEST(HfFolder, FoldersThatDoNotFit) {
  fs::path folder = copy_of("sharded");
  fs::remove(folder / "model-00002-of-00002.safetensors");
  EXPECT_THAT(open_error(folder), HasSubstr("model-00002-of-00002.safetensors: cannot open"));
  fs::copy(folder / "model-00001-of-00002.safetensors", folder / "model-00002-of-00002.safetensors");
  EXPECT_THAT(
      open_error(folder),
      HasSubstr("tensor 'layer.1' is missing in 'model-00002-of-00002.safetensors', expected there by the index"));
  fs::remove(folder / "model.safetensors.index.json");
  EXPECT_THAT(open_error(folder), HasSubstr("2 safetensors files, expected model.safetensors.index.json"));
  fs::remove(folder / "model-00002-of-00002.safetensors");
  EXPECT_EQ(open_ok(folder).tensors().size(), 2u);
  fs::remove(folder / "model-00001-of-00002.safetensors");
  EXPECT_THAT(open_ok(folder).find("layer.0").error().message, HasSubstr("holds no tensors, expected 'layer.0'"));
  std::ofstream(folder / "config.json") << "[1]";
  EXPECT_THAT(open_error(folder), HasSubstr("config.json: no JSON object"));
  fs::remove(folder / "config.json");
  EXPECT_THAT(open_error(folder), HasSubstr("expected a Hugging Face folder with config.json, or a GGUF file"));
}

TEST(ModelFile, OpensBothKinds) {
  const auto folder = ModelFile::open(kData + "/single");
  ASSERT_TRUE(folder.ok());
  EXPECT_NE(folder->hf(), nullptr);
  EXPECT_EQ(folder->gguf(), nullptr);
  EXPECT_TRUE(folder->tensors().contains("w.f32"));
  const auto file = ModelFile::open(DSPARK_TEST_DATA "/gguf/values.gguf");
  ASSERT_TRUE(file.ok());
  EXPECT_NE(file->gguf(), nullptr);
  EXPECT_TRUE(file->tensors().contains("matrix"));
}

std::string safetensors(const std::string& header, size_t data_bytes, int64_t length_error = 0) {
  const uint64_t length = header.size() + static_cast<uint64_t>(length_error);
  std::string out(reinterpret_cast<const char*>(&length), sizeof(length));
  return out + header + std::string(data_bytes, 'x');
}

struct Hostile {
  const char* what;
  std::string bytes;
  const char* message;
};

std::string tensor(const char* dtype, const char* shape, const char* offsets) {
  return fmt::format(R"({{"t": {{"dtype": {}, "shape": {}, "data_offsets": {}}}}})", dtype, shape, offsets);
}

const Hostile kHostile[] = {
    {"empty", "", "0 bytes, expected at least the 8"},
    {"header beyond the end", safetensors("{}", 0, 1), "header of 3 bytes, expected at most 2"},
    {"header overflow", safetensors("{}", 8, -3), "header of 18446744073709551615 bytes, expected at most 10"},
    {"no JSON", safetensors("{\"t\":", 0), "not valid JSON"},
    {"no object", safetensors("[]", 0), "the header is no JSON object"},
    {"deep", safetensors("{\"a\":" + std::string(99, '['), 0), "nested deeper than 4 levels"},
    {"name twice", safetensors(R"({"t": {}, "t": {}})", 0), "the key 't' stands twice in one object"},
    {"no tensor", safetensors(R"({"t": 3})", 0), "tensor 't': found 3, expected an object with 'shape'"},
    {"no dtype", safetensors(R"({"t": {"shape": []}})", 0), "tensor 't': key 'dtype' is missing, expected a string"},
    {"shape", safetensors(tensor("\"F32\"", "[1.5]", "[0, 4]"), 4),
     "tensor 't': key 'shape' is an array of 1, expected"},
    {"negative", safetensors(tensor("\"F32\"", "[-1]", "[0, 4]"), 4), "shape [-1], expected no negative dimension"},
    {"rank", safetensors(tensor("\"F32\"", "[1,1,1,1,1,1,1,1,1]", "[0, 4]"), 4),
     "has 9 dimensions, expected at most 8"},
    {"product", safetensors(tensor("\"F32\"", "[4294967296, 4294967296]", "[0, 4]"), 4),
     "tensor 't' has 4 bytes of data, expected fewer than 2^62 for F32"},
    {"size", safetensors(tensor("\"BF16\"", "[3]", "[0, 4]"), 4),
     "tensor 't' has 4 bytes of data, expected 6 for BF16 [3]"},
    {"offsets", safetensors(tensor("\"F32\"", "[1]", "[0]"), 4), "has data_offsets [0], expected [begin, end]"},
    {"backwards", safetensors(tensor("\"F32\"", "[1]", "[4, 0]"), 4), "has data_offsets [4, 0], expected [begin, end]"},
    {"beyond", safetensors(tensor("\"F32\"", "[1]", "[4, 8]"), 4), "expected [begin, end] within 4 bytes of data"},
    {"offset overflow", safetensors(tensor("\"F32\"", "[1]", "[0, 18446744073709551615]"), 4),
     "within 4 bytes of data"},
    {"hole", safetensors(tensor("\"F32\"", "[1]", "[4, 8]"), 8), "begins at byte 4 of the data, expected 0"},
    {"rest", safetensors(tensor("\"F32\"", "[1]", "[0, 4]"), 8), "8 bytes of data, expected 4 by the tensors"},
    {"overlap",
     safetensors(R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
                     "b": {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]}})",
                 12),
     "tensor 'b' begins at byte 4 of the data, expected 8 where the one before it ends"},
};

TEST(Safetensors, HostileBytesNameWhatIsWrong) {
  for (const Hostile& hostile : kHostile) {
    const auto tensors = parse_safetensors(as_bytes(hostile.bytes), "evil.safetensors");
    ASSERT_FALSE(tensors.ok()) << hostile.what;
    EXPECT_THAT(tensors.error().message, HasSubstr("evil.safetensors: ")) << hostile.what;
    EXPECT_THAT(tensors.error().message, HasSubstr(hostile.message)) << hostile.what;
  }
  EXPECT_TRUE(parse_safetensors(as_bytes(safetensors(tensor("\"F32\"", "[1]", "[0, 4]"), 4)), "ok").ok());
  EXPECT_TRUE(parse_safetensors(as_bytes(safetensors(tensor("\"NEW\"", "[7]", "[0, 4]"), 4)), "ok").ok());
}

TEST(Safetensors, EveryTruncationIsAnError) {
  const std::string whole = read_file(kData + "/single/model.safetensors");
  for (size_t size = 0; size < whole.size(); ++size) {
    const std::vector<uint8_t> cut(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size));
    EXPECT_FALSE(parse_safetensors(cut, "cut").ok()) << size;
  }
  EXPECT_TRUE(parse_safetensors(as_bytes(whole), "whole").ok());
}

TEST(SafetensorsIndex, FilesMustBePlainNames) {
  const auto message = [](const std::string& file) {
    const auto index = parse_safetensors_index(fmt::format(R"({{"weight_map": {{"t": {}}}}})", file), "i.json");
    return index.ok() ? "" : index.error().message;
  };
  EXPECT_EQ(message(R"("model-1.safetensors")"), "");
  for (const char* file : {R"("../x.safetensors")", R"("/etc/x.safetensors")", R"("a/b.safetensors")", R"("x.bin")",
                           R"(".safetensors")", R"("a\u0000.safetensors")"}) {
    EXPECT_THAT(message(file), HasSubstr("i.json: tensor 't' is in file ")) << file;
    EXPECT_THAT(message(file), HasSubstr("expected a plain name ending in .safetensors")) << file;
  }
  EXPECT_THAT(message("3"), HasSubstr("key 't' is 3, expected a string"));
  EXPECT_THAT(parse_safetensors_index("{}", "i.json").error().message, HasSubstr("key 'weight_map' is missing"));
  EXPECT_THAT(parse_safetensors_index("[]", "i.json").error().message, HasSubstr("key 'weight_map' is missing"));
}

}  // namespace
}  // namespace dspark
