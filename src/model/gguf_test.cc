// Tests of gguf.h: files written by the `gguf` package (scripts/goldens/gguf_files.py) and hostile bytes.
#include "model/gguf.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>

#include "base/json.h"
#include "base/sha256.h"

namespace dspark {
namespace {

using nlohmann::json;
using testing::HasSubstr;

std::string data_path(const std::string& name) { return std::string(DSPARK_TEST_DATA "/gguf/") + name; }

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.good()) << path;
  return {std::istreambuf_iterator<char>(in), {}};
}

std::span<const uint8_t> as_bytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

json expected() {
  auto parsed = parse_json(read_file(data_path("expected.json")), "expected.json");
  EXPECT_TRUE(parsed.ok());
  return std::move(parsed).value();
}

GgufFile open_ok(const std::string& path) {
  auto file = GgufFile::open(path);
  if (!file.ok()) ADD_FAILURE() << file.error().message;
  return std::move(file).value();
}

// Compares one value with what the package's reader says; a float must be the same after rounding to f32.
void expect_value(const GgufFile& file, const std::string& key, const json& value) {
  SCOPED_TRACE(key);
  if (value == "nan") {
    ASSERT_NE(file.entry(key), nullptr);
    EXPECT_EQ(format_gguf_value(*file.entry(key)), "nan");
  } else if (value.is_boolean()) {
    EXPECT_EQ(*file.require<bool>(key), value.get<bool>());
  } else if (value.is_string()) {
    EXPECT_EQ(*file.require<std::string_view>(key), value.get<std::string>());
  } else if (value.is_number_float()) {
    EXPECT_EQ(*file.require<double>(key), value.get<double>());
  } else if (value.is_number_unsigned()) {
    EXPECT_EQ(*file.require<uint64_t>(key), value.get<uint64_t>());
  } else if (value.is_number_integer()) {
    EXPECT_EQ(*file.require<int64_t>(key), value.get<int64_t>());
  } else if (value.at(0).is_string()) {
    const auto strings = file.require<std::vector<std::string_view>>(key).value();
    EXPECT_EQ(json(strings), value);
  } else if (value.at(0).is_boolean()) {
    EXPECT_EQ(json(file.require<std::vector<bool>>(key).value()), value);
  } else if (value.at(0).is_number_float()) {
    EXPECT_EQ(json(file.require<std::vector<float>>(key).value()), value);
  } else {
    EXPECT_EQ(json(file.require<std::vector<int64_t>>(key).value()), value);
  }
}

void expect_tensor(const TensorSource& file, const json& tensor) {
  const auto name = tensor.at("name").get<std::string>();
  SCOPED_TRACE(name);
  const TensorInfo* info = file.info(name);
  ASSERT_NE(info, nullptr);
  EXPECT_EQ(info->type_name, tensor.at("type").get<std::string>());
  EXPECT_EQ(json(std::vector<int64_t>(info->shape.begin(), info->shape.begin() + info->rank)), tensor.at("shape"));
  EXPECT_EQ(info->bytes, tensor.at("bytes").get<uint64_t>());
  EXPECT_EQ(to_hex(sha256({info->data, info->bytes})), tensor.at("sha256").get<std::string>());
}

TEST(Gguf, ReadsWhatTheGgufPackageWrote) {
  const json files = expected();
  for (const char* name : {"values.gguf", "version2.gguf", "types.gguf"}) {
    SCOPED_TRACE(name);
    const GgufFile file = open_ok(data_path(name));
    const json& want = files.at(name);
    EXPECT_EQ(file.version(), name == std::string("version2.gguf") ? 2u : 3u);
    EXPECT_EQ(file.metadata().size(), want.at("metadata").size());
    EXPECT_EQ(file.tensors().size(), want.at("tensors").size());
    for (const auto& [key, value] : want.at("metadata").items()) expect_value(file, key, value.at("value"));
    for (const json& tensor : want.at("tensors")) expect_tensor(file, tensor);
  }
  EXPECT_EQ(open_ok(data_path("values.gguf")).alignment(), 64u);
}

TEST(Gguf, OpensAllPartsFromAnyPart) {
  const json files = expected();
  for (const char* name : {"split-00001-of-00002.gguf", "split-00002-of-00002.gguf"}) {
    const GgufFile file = open_ok(data_path(name));
    ASSERT_EQ(file.tensors().size(), 3u);
    EXPECT_EQ(file.tensors()[2].name, "t2");
    EXPECT_EQ(*file.require<std::string_view>("general.architecture"), "llama");
    for (const char* part : {"split-00001-of-00002.gguf", "split-00002-of-00002.gguf"}) {
      for (const json& tensor : files.at(part).at("tensors")) expect_tensor(file, tensor);
    }
  }
}

TEST(Gguf, SplitFilesMustFitTogether) {
  const auto folder = std::filesystem::path(testing::TempDir()) / "dspark_gguf_split";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const auto first = folder / "m-00001-of-00002.gguf";
  const auto second = folder / "m-00002-of-00002.gguf";
  std::filesystem::copy(data_path("split-00001-of-00002.gguf"), first);
  EXPECT_THAT(GgufFile::open(first).error().message, HasSubstr("m-00002-of-00002.gguf: cannot open"));
  std::filesystem::copy(data_path("split-00001-of-00002.gguf"), second);
  EXPECT_THAT(GgufFile::open(first).error().message,
              HasSubstr("m-00002-of-00002.gguf: metadata says part 1 of 2, expected part 2 of 2"));
  const auto renamed = folder / "model.gguf";
  std::filesystem::copy(data_path("split-00001-of-00002.gguf"), renamed);
  EXPECT_THAT(GgufFile::open(renamed).error().message, HasSubstr("ends in '-00001-of-00002.gguf'"));
  EXPECT_THAT(GgufFile::parse(as_bytes(read_file(renamed)), "m").error().message, HasSubstr("part 1 of 2"));
}

TEST(Gguf, UnsupportedTypesAreListedAndRefusedOnlyWhenUsed) {
  const GgufFile file = open_ok(data_path("types.gguf"));
  EXPECT_TRUE(file.find("q4_k").ok());
  const auto refused = file.find("iq2_xxs");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(refused.error().message, HasSubstr("tensor 'iq2_xxs' has type iq2_xxs, expected one of f32, f16"));
}

TEST(Gguf, FindChecksNameAndShape) {
  const GgufFile file = open_ok(data_path("values.gguf"));
  const auto matrix = file.find("matrix", {3, 7});
  ASSERT_TRUE(matrix.ok());
  EXPECT_EQ(matrix->rank, 2);
  EXPECT_EQ(matrix->elements(), 21);
  EXPECT_EQ(file.find("cube")->shape, (std::array<int64_t, 4>{2, 3, 4, 1}));
  EXPECT_THAT(file.find("matrix", {7, 3}).error().message, HasSubstr("has shape [3, 7], expected [7, 3]"));
  EXPECT_EQ(file.find("none").error().code, ErrorCode::kNotFound);
}

TEST(Gguf, ReleasedTensorsReadTheSame) {
  const GgufFile file = open_ok(data_path("types.gguf"));
  const TensorView view = file.find("q6_k").value();
  const auto before = sha256({view.data, view.bytes});
  file.release(view);
  file.release_all();
  EXPECT_EQ(sha256({view.data, view.bytes}), before);
}

TEST(Gguf, TypedMetadata) {
  const GgufFile file = open_ok(data_path("values.gguf"));
  EXPECT_EQ(*file.get_or<uint32_t>("absent", 9), 9u);
  EXPECT_EQ(*file.get_or<uint32_t>("v.u8", 9), 255u);
  EXPECT_THAT(file.get_or<uint32_t>("v.i8", 9).error().message,
              HasSubstr("metadata key 'v.i8' is -128 (i8), expected an integer from 0 to 4294967295"));
  EXPECT_THAT(file.require<float>("v.nan").error().message, HasSubstr("is nan (f32), expected a finite f32 or f64"));
  EXPECT_THAT(file.require<bool>("v.u8").error().message, HasSubstr("is 255 (u8), expected a bool"));
  EXPECT_THAT(file.require<std::string_view>("v.strings").error().message, HasSubstr("array of string"));
  EXPECT_THAT(file.require<std::vector<uint32_t>>("v.ints").error().message, HasSubstr("[1, -2, 3]"));
  EXPECT_THAT(file.require<float>("absent").error().message, HasSubstr("metadata key 'absent' is missing"));
  EXPECT_EQ(*file.require_per_layer<int32_t>("v.u8", 3), (std::vector<int32_t>{255, 255, 255}));
  EXPECT_EQ(*file.require_per_layer<int32_t>("v.ints", 3), (std::vector<int32_t>{1, -2, 3}));
  EXPECT_THAT(file.require_per_layer<int32_t>("v.ints", 4).error().message,
              HasSubstr("has 3 values, expected one for each of 4 layers"));
  EXPECT_EQ(format_gguf_value(*file.entry("v.string")), "'grüß \\'dich\\'\\n'");
  EXPECT_EQ(format_gguf_value(*file.entry("v.floats"), 2), "[0.5, -1.5, ...]");
}

// A GGUF file byte by byte, independent of reader and writer, with room for lies.
struct RawGguf {
  std::string bytes;

  template <class T>
  RawGguf& put(T value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
    return *this;
  }
  RawGguf& text(std::string_view value) { return put<uint64_t>(value.size()).raw(value); }
  RawGguf& raw(std::string_view value) {
    bytes += value;
    return *this;
  }
  RawGguf& header(uint64_t tensors, uint64_t keys, uint32_t version = 3) {
    return raw("GGUF").put(version).put(tensors).put(keys);
  }
  RawGguf& u32(std::string_view key, uint32_t value) { return text(key).put<uint32_t>(4).put(value); }
  RawGguf& tensor(std::string_view name, std::vector<uint64_t> innermost_first, uint32_t type, uint64_t offset) {
    text(name).put(static_cast<uint32_t>(innermost_first.size()));
    for (const uint64_t size : innermost_first) put(size);
    return put(type).put(offset);
  }
  RawGguf& data(size_t count) {
    bytes.resize((bytes.size() + 31) / 32 * 32);
    bytes.resize(bytes.size() + count);
    return *this;
  }
};

struct Hostile {
  const char* what;
  std::function<void(RawGguf&)> write;
  const char* message;
};

constexpr uint32_t kArray = 9;
constexpr uint64_t kHuge = ~uint64_t{0};

const Hostile kHostile[] = {
    {"empty", [](RawGguf&) {}, "truncated in the magic: needs 4 bytes at byte 0, found 0"},
    {"magic", [](RawGguf& f) { f.raw("GGML").data(64); }, "begins with 'GGML', expected 'GGUF'"},
    {"version 1", [](RawGguf& f) { f.header(0, 0, 1); }, "GGUF version 1, expected 2 or 3"},
    {"version 4", [](RawGguf& f) { f.header(0, 0, 4); }, "GGUF version 4, expected 2 or 3"},
    {"big-endian", [](RawGguf& f) { f.header(0, 0, 3u << 24); }, "GGUF version 3 in big-endian order, expected 2 or 3"},
    {"no counts", [](RawGguf& f) { f.raw("GGUF").put(3); }, "truncated in the number of tensors"},
    {"tensor count", [](RawGguf& f) { f.header(kHuge, 0); }, "counts 18446744073709551615 tensors, expected at most 0"},
    {"key count", [](RawGguf& f) { f.header(0, kHuge).data(64); },
     "counts 18446744073709551615 metadata keys, expected at most 5"},
    {"key cut", [](RawGguf& f) { f.header(0, 1).put<uint64_t>(100).raw("key").data(16); },
     "truncated in metadata key 1 of 1: needs 100 bytes"},
    {"key length", [](RawGguf& f) { f.header(0, 1).put(kHuge).data(64); },
     "metadata key 1 of 1 at byte 24 is 18446744073709551615 bytes long, expected 1 to 65535"},
    {"empty key", [](RawGguf& f) { f.header(0, 1).u32("", 1).data(8); }, "is 0 bytes long, expected 1 to 65535"},
    {"key twice", [](RawGguf& f) { f.header(0, 2).u32("a", 1).u32("a", 1); }, "metadata key 'a' stands twice"},
    {"escape in key", [](RawGguf& f) { f.header(0, 2).u32("\x1b[2J\n", 1).u32("\x1b[2J\n", 1); },
     "metadata key '\\x1b[2J\\n' stands twice"},
    {"value type", [](RawGguf& f) { f.header(0, 1).text("k").put<uint32_t>(13).data(8); },
     "metadata key 'k' has value type 13, expected 0 to 12"},
    {"bool", [](RawGguf& f) { f.header(0, 1).text("k").put<uint32_t>(7).put<uint8_t>(2); },
     "metadata key 'k' is bool 2, expected 0 or 1"},
    {"value cut", [](RawGguf& f) { f.header(0, 1).text("k").put<uint32_t>(10).put<uint32_t>(0); },
     "metadata key 'k' has 1 elements of 8 bytes at byte 37, found 4 bytes"},
    {"string cut", [](RawGguf& f) { f.header(0, 1).text("k").put<uint32_t>(8).put(kHuge - 7); },
     "truncated in metadata key 'k': needs 18446744073709551608 bytes"},
    {"nested array", [](RawGguf& f) { f.header(0, 1).text("k").put(kArray).put(kArray).put<uint64_t>(0).data(8); },
     "metadata key 'k' is an array of type 9, expected a number, bool or string type"},
    {"array count", [](RawGguf& f) { f.header(0, 1).text("k").put(kArray).put<uint32_t>(10).put(kHuge / 4).data(8); },
     "metadata key 'k' has 4611686018427387903 elements of 8 bytes"},
    {"string array", [](RawGguf& f) { f.header(0, 1).text("k").put(kArray).put<uint32_t>(8).put(kHuge).text("a"); },
     "truncated in metadata key 'k': needs 8 bytes"},
    {"alignment 0", [](RawGguf& f) { f.header(0, 1).u32("general.alignment", 0); },
     "'general.alignment' is 0, expected"},
    {"alignment 48", [](RawGguf& f) { f.header(0, 1).u32("general.alignment", 48); }, "is 48, expected a power of two"},
    {"alignment 2^31", [](RawGguf& f) { f.header(0, 1).u32("general.alignment", 1u << 31); },
     "expected a power of two"},
    {"tensor cut", [](RawGguf& f) { f.header(1, 0).text("t").put<uint32_t>(4).data(0); }, "truncated in tensor 't'"},
    {"tensor name", [](RawGguf& f) { f.header(1, 0).text(std::string(1025, 'n')).data(64); },
     "tensor 1 of 1 at byte 24 is 1025 bytes long, expected 1 to 1024"},
    {"rank",
     [](RawGguf& f) {
       f.header(1, 0).tensor("t", {1, 1, 1, 1, 1}, 0, 0).data(32);
     },
     "tensor 't' has 5 dimensions, expected at most 4"},
    {"dimension", [](RawGguf& f) { f.header(1, 0).tensor("t", {kHuge}, 0, 0).data(32); },
     "tensor 't' has dimension 18446744073709551615, expected less than 2^63"},
    {"elements",
     [](RawGguf& f) {
       f.header(1, 0).tensor("t", {1ull << 32, 1ull << 32}, 0, 0).data(32);
     },
     "tensor 't' has shape [4294967296, 4294967296], expected fewer than 2^60 elements"},
    {"block",
     [](RawGguf& f) {
       f.header(1, 0).tensor("t", {128, 4}, 12, 0).data(1024);
     },
     "tensor 't' has shape [4, 128], expected rows of whole blocks of 256 for type q4_k"},
    {"misaligned", [](RawGguf& f) { f.header(1, 0).tensor("t", {4}, 0, 8).data(64); },
     "tensor 't' has offset 8, expected a multiple of the alignment 32"},
    {"offset", [](RawGguf& f) { f.header(1, 0).tensor("t", {4}, 0, kHuge - 31).data(64); },
     "tensor 't' has 16 bytes at offset 18446744073709551584, expected at most 64 bytes of tensor data"},
    {"data cut", [](RawGguf& f) { f.header(1, 0).tensor("t", {16}, 0, 0).data(60); },
     "tensor 't' has 64 bytes at offset 0, expected at most 60 bytes of tensor data"},
    {"no data", [](RawGguf& f) { f.header(1, 0).tensor("t", {16}, 0, 0); }, "expected at most 0 bytes of tensor data"},
    {"tensor twice", [](RawGguf& f) { f.header(2, 0).tensor("t", {4}, 0, 0).tensor("t", {4}, 0, 32).data(64); },
     "tensor 't' stands twice"},
    {"overlap", [](RawGguf& f) { f.header(2, 0).tensor("a", {4}, 0, 32).tensor("b", {12}, 0, 0).data(64); },
     "tensor 'b' of 48 bytes overlaps 'a', which begins 32 bytes behind it"},
    {"split type", [](RawGguf& f) { f.header(0, 1).text("split.count").put<uint32_t>(8).text("2"); },
     "metadata key 'split.count' is '2' (string), expected an integer"},
    {"split count", [](RawGguf& f) { f.header(0, 1).u32("split.count", 7); }, "part 1 of 7, expected a whole model"},
    {"split total", [](RawGguf& f) { f.header(0, 1).u32("split.tensors.count", 7); },
     "the parts hold 0 tensors, expected 7 by 'split.tensors.count'"},
};

TEST(Gguf, HostileBytesNameWhatIsWrong) {
  for (const Hostile& hostile : kHostile) {
    RawGguf raw;
    hostile.write(raw);
    const auto file = GgufFile::parse(as_bytes(raw.bytes), "evil.gguf");
    ASSERT_FALSE(file.ok()) << hostile.what;
    EXPECT_THAT(file.error().message, HasSubstr("evil.gguf: ")) << hostile.what;
    EXPECT_THAT(file.error().message, HasSubstr(hostile.message)) << hostile.what;
    EXPECT_EQ(file.error().message.find('\n'), std::string::npos) << hostile.what;
  }
}

TEST(Gguf, EveryTruncationIsAnError) {
  const std::string whole = read_file(data_path("types.gguf"));
  const json tensors = expected().at("types.gguf").at("tensors");
  const size_t last = whole.size() - 32;  // the last tensor's 16 bytes and its padding
  for (size_t size = 0; size < last + 16; ++size) {
    // A copy of exactly this size, so that the sanitizer sees a read beyond the end.
    const std::vector<uint8_t> cut(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size));
    EXPECT_FALSE(GgufFile::parse(cut, "cut.gguf").ok()) << size;
  }
  EXPECT_TRUE(GgufFile::parse(as_bytes(whole).first(last + 16), "cut.gguf").ok());
}

TEST(Gguf, VocabularyOnlyAndOddButValidFiles) {
  RawGguf vocabulary;
  vocabulary.header(0, 1).u32("a", 1);
  EXPECT_TRUE(GgufFile::parse(as_bytes(vocabulary.bytes), "v").ok());

  RawGguf scalar;
  scalar.header(2, 0).tensor("scalar", {}, 0, 0).tensor("empty", {0, 4}, 0, 32).data(64);
  const auto file = GgufFile::parse(as_bytes(scalar.bytes), "v").value();
  EXPECT_TRUE(file.find("scalar", {1}).ok());
  EXPECT_THAT(file.find("empty").error().message, HasSubstr("shape [4, 0], expected at least one element"));

  RawGguf unknown;
  unknown.header(1, 0).tensor("t", {5}, 77, 0).data(64);
  const auto listed = GgufFile::parse(as_bytes(unknown.bytes), "v").value();
  EXPECT_EQ(listed.tensors()[0].type_name, "unknown(77)");
  EXPECT_THAT(listed.find("t").error().message, HasSubstr("has type unknown(77)"));
}

TEST(Gguf, OpenRefusesWhatIsNoFile) {
  EXPECT_EQ(GgufFile::open("/nonexistent/x.gguf").error().code, ErrorCode::kNotFound);
  EXPECT_THAT(GgufFile::open(DSPARK_TEST_DATA).error().message, HasSubstr("not a regular file"));
}

}  // namespace
}  // namespace dspark
