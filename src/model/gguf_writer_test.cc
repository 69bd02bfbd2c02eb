// Tests of gguf_writer.h: copies of files by the `gguf` package must come out byte for byte the same.
#include "model/gguf_writer.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "model/gguf.h"

namespace dspark {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.good()) << path;
  return {std::istreambuf_iterator<char>(in), {}};
}

// Sets one pair again with the type that it has in the file.
void copy_pair(GgufWriter& writer, const GgufFile& file, const GgufEntry& entry) {
  const std::string_view key = entry.key;
  const auto integer = [&] { return file.require<int64_t>(key).value(); };
  const auto integers = [&] { return file.require<std::vector<int32_t>>(key).value(); };
  switch (entry.type) {
    case GgufType::kU8:
      return writer.set(key, static_cast<uint8_t>(integer()));
    case GgufType::kI8:
      return writer.set(key, static_cast<int8_t>(integer()));
    case GgufType::kU16:
      return writer.set(key, static_cast<uint16_t>(integer()));
    case GgufType::kI16:
      return writer.set(key, static_cast<int16_t>(integer()));
    case GgufType::kU32:
      return writer.set(key, static_cast<uint32_t>(integer()));
    case GgufType::kI32:
      return writer.set(key, static_cast<int32_t>(integer()));
    case GgufType::kU64:
      return writer.set(key, file.require<uint64_t>(key).value());
    case GgufType::kI64:
      return writer.set(key, integer());
    case GgufType::kF32:
      return writer.set(key, key == "v.nan" ? std::numeric_limits<float>::quiet_NaN() : *file.require<float>(key));
    case GgufType::kF64:
      return writer.set(key, file.require<double>(key).value());
    case GgufType::kBool:
      return writer.set(key, file.require<bool>(key).value());
    case GgufType::kString:
      return writer.set(key, file.require<std::string_view>(key).value());
    case GgufType::kArray:
      break;
  }
  if (entry.element == GgufType::kString) {
    return writer.set_array(key, file.require<std::vector<std::string_view>>(key).value());
  }
  if (entry.element == GgufType::kF32) return writer.set_array(key, file.require<std::vector<float>>(key).value());
  if (entry.element == GgufType::kBool) {
    const auto values = file.require<std::vector<bool>>(key).value();
    const std::unique_ptr<bool[]> plain(new bool[values.size()]);
    std::copy(values.begin(), values.end(), plain.get());
    return writer.set_array(key, std::span<const bool>(plain.get(), values.size()));
  }
  ASSERT_EQ(entry.element, GgufType::kI32);
  writer.set_array(key, integers());
}

TEST(GgufWriter, CopiesFilesOfTheGgufPackageByteForByte) {
  for (const char* name : {"values.gguf", "types.gguf"}) {
    SCOPED_TRACE(name);
    const std::string source = std::string(DSPARK_TEST_DATA "/gguf/") + name;
    const std::string target = testing::TempDir() + "dspark_copy.gguf";
    const GgufFile file = GgufFile::open(source).value();
    GgufWriter writer;
    for (const GgufEntry& entry : file.metadata()) {
      if (entry.key == "general.alignment") {
        writer.set_alignment(file.alignment());
      } else {
        copy_pair(writer, file, entry);
      }
    }
    bool whole = true;
    for (const TensorInfo& tensor : file.tensors()) {
      whole = whole && tensor.type;
      if (tensor.type) {
        writer.add_tensor(tensor.name, *tensor.type, {tensor.shape.data(), static_cast<size_t>(tensor.rank)});
      }
    }
    ASSERT_TRUE(writer.create(target).ok());
    for (const TensorInfo& tensor : file.tensors()) {
      if (!tensor.type) continue;
      const std::span<const uint8_t> data(tensor.data, tensor.bytes);
      ASSERT_TRUE(writer.write(data.first(3)).ok());
      ASSERT_TRUE(writer.write(data.subspan(3)).ok());
    }
    const uint64_t bytes = writer.file_bytes();
    ASSERT_TRUE(writer.finish().ok());
    EXPECT_EQ(std::filesystem::file_size(target), bytes);
    if (whole) {
      EXPECT_EQ(read_file(target), read_file(source));
    } else {
      const GgufFile copy = GgufFile::open(target).value();
      for (const TensorInfo& tensor : copy.tensors()) {
        const TensorInfo& original = *file.info(tensor.name);
        EXPECT_EQ(std::string(tensor.data, tensor.data + tensor.bytes),
                  std::string(original.data, original.data + original.bytes));
      }
    }
  }
}

TEST(GgufWriter, AnUnfinishedFileLeavesNothing) {
  const std::string target = testing::TempDir() + "dspark_unfinished.gguf";
  std::filesystem::remove(target);
  {
    GgufWriter writer;
    const int64_t shape[] = {8};
    writer.add_tensor("t", DType::kF32, shape);
    ASSERT_TRUE(writer.create(target).ok());
    EXPECT_TRUE(std::filesystem::exists(target + ".part"));
  }
  EXPECT_FALSE(std::filesystem::exists(target + ".part"));
  EXPECT_FALSE(std::filesystem::exists(target));
  GgufWriter writer;
  EXPECT_THAT(GgufWriter().create("/dev/null").error().message, testing::HasSubstr("not a regular file"));
  EXPECT_THAT(writer.create("/dev/null/x.gguf").error().message, testing::HasSubstr("x.gguf: cannot create"));
}

TEST(GgufWriter, CopiesPairsAsTheyAreAndWritesIntegers) {
  const std::string source = DSPARK_TEST_DATA "/models/llama/llama.gguf";
  const GgufFile file = GgufFile::open(source).value();
  const std::string path = ::testing::TempDir() + "/copied_pairs.gguf";
  const int64_t ids[] = {3, -1, int64_t{1} << 40};
  GgufWriter writer;
  for (const GgufEntry& entry : file.metadata()) writer.copy(entry);
  writer.add_int64_tensor("ids", 3);
  ASSERT_TRUE(writer.create(path).ok());
  ASSERT_TRUE(writer.write({reinterpret_cast<const uint8_t*>(ids), sizeof(ids)}).ok());
  ASSERT_TRUE(writer.finish().ok());
  const GgufFile copy = GgufFile::open(path).value();
  ASSERT_EQ(copy.metadata().size(), file.metadata().size());
  for (size_t i = 0; i < copy.metadata().size(); ++i) {
    const GgufEntry &a = file.metadata()[i], &b = copy.metadata()[i];
    EXPECT_EQ(a.key, b.key);
    EXPECT_EQ(a.type, b.type) << a.key;
    EXPECT_EQ(a.count, b.count) << a.key;
    EXPECT_TRUE(std::equal(a.data.begin(), a.data.end(), b.data.begin(), b.data.end())) << a.key;
  }
  const TensorInfo* info = copy.info("ids");
  ASSERT_NE(info, nullptr);
  EXPECT_EQ(info->type_name, "i64");
  EXPECT_EQ(std::memcmp(info->data, ids, sizeof(ids)), 0);
}

}  // namespace
}  // namespace dspark
