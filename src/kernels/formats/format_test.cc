// Tests of format.h against goldens of the `gguf` Python package (scripts/goldens/formats.py), and of properties that
// hold for every format.
#include "kernels/formats/format.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/half.h"

namespace dspark {
namespace {

std::vector<uint8_t> read_golden(const std::string& name) {
  std::ifstream file(std::string(DSPARK_TEST_DATA) + "/formats/" + name, std::ios::binary);
  EXPECT_TRUE(file.is_open()) << name;
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<float> read_floats(const std::string& name) {
  const std::vector<uint8_t> bytes = read_golden(name);
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

// NaN equals NaN whatever the payload.
uint32_t canonical_bits(float value) { return std::isnan(value) ? 0x7fc00000 : std::bit_cast<uint32_t>(value); }

std::vector<float> gaussian(int count, float deviation, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, deviation);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = normal(random);
  return values;
}

class FormatTest : public testing::TestWithParam<DType> {
 protected:
  const DTypeInfo& info() const { return dtype_info(GetParam()); }
  const Format& format() const { return format_of(GetParam()); }
  size_t bytes_of(size_t elements) const {
    return static_cast<size_t>(dtype_bytes(GetParam(), static_cast<int64_t>(elements)));
  }

  std::vector<uint8_t> quantised(const std::vector<float>& in) const {
    std::vector<uint8_t> blocks(bytes_of(in.size()));
    format().quantise(in.data(), static_cast<int64_t>(in.size()), blocks.data());
    return blocks;
  }

  std::vector<float> dequantised(const std::vector<uint8_t>& blocks) const {
    std::vector<float> out(blocks.size() / static_cast<size_t>(info().block_bytes) *
                           static_cast<size_t>(info().block_elements));
    format().dequantise(blocks.data(), static_cast<int64_t>(out.size()), out.data());
    return out;
  }

  std::vector<float> round_trip(const std::vector<float>& in) const { return dequantised(quantised(in)); }
};

TEST_P(FormatTest, DescribesItsType) {
  EXPECT_EQ(format().type, GetParam());
  EXPECT_EQ(format().unpack == nullptr, is_float(GetParam()));
  EXPECT_EQ(info().block_elements % format().sub_elements, 0);
}

TEST_P(FormatTest, DequantisesAsGguf) {
  if (GetParam() == DType::kF32) return;  // a copy, see FloatsAreCopied
  const std::vector<uint8_t> blocks = read_golden(std::string(info().name) + ".blocks");
  const std::vector<float> expected = read_floats(std::string(info().name) + ".values");
  const std::vector<float> found = dequantised(blocks);
  ASSERT_EQ(found.size(), expected.size());
  ASSERT_GE(found.size(), 256u);
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(canonical_bits(found[i]), canonical_bits(expected[i])) << i << ": " << found[i] << " " << expected[i];
  }
}

// The formula in UnpackedBlock's comment, in doubles and rounded once, gives gguf's values.
TEST_P(FormatTest, UnpackedBlocksMeanWhatTheirCommentSays) {
  if (is_float(GetParam())) return;
  const std::vector<uint8_t> blocks = read_golden(std::string(info().name) + ".blocks");
  const std::vector<float> expected = read_floats(std::string(info().name) + ".values");
  for (size_t i = 0; i < expected.size(); ++i) {
    UnpackedBlock unpacked;
    const size_t in_block = i % static_cast<size_t>(info().block_elements);
    const size_t sub = in_block / static_cast<size_t>(format().sub_elements);
    format().unpack(blocks.data() + bytes_of(i - in_block), &unpacked);
    const int8_t code = unpacked.codes[in_block];
    const double weight = format().code_values ? format().code_values[code] : code - format().code_offset;
    const double dmin = half_to_float(unpacked.dmin_f16);
    double value = static_cast<double>(half_to_float(unpacked.d_f16)) * unpacked.sub_scale[sub] * weight;
    if (format().minimum == Minimum::kAdded) value += dmin;
    if (format().minimum == Minimum::kScaledSubtracted) value -= dmin * unpacked.sub_min[sub];
    ASSERT_EQ(canonical_bits(static_cast<float>(value)), canonical_bits(expected[i])) << i;
  }
}

TEST_P(FormatTest, BlocksAreIndependentAndNeedNoAlignment) {
  const std::vector<float> in = gaussian(1024, 0.1f, 5);
  const std::vector<uint8_t> whole = quantised(in);
  const size_t step = static_cast<size_t>(info().block_elements);
  const size_t bytes = static_cast<size_t>(info().block_bytes);
  std::vector<uint8_t> shifted(whole.size() + 1);
  for (size_t i = 0; i < in.size() / step; ++i) {
    format().quantise(in.data() + i * step, static_cast<int64_t>(step), shifted.data() + 1 + i * bytes);
  }
  EXPECT_TRUE(std::equal(whole.begin(), whole.end(), shifted.begin() + 1));
  std::vector<float> out(in.size());
  format().dequantise(shifted.data() + 1, static_cast<int64_t>(out.size()), out.data());
  EXPECT_EQ(out, dequantised(whole));
}

TEST_P(FormatTest, ZerosStayZeros) {
  for (float value : round_trip(std::vector<float>(512, 0.0f))) ASSERT_EQ(value, 0.0f);
}

TEST_P(FormatTest, NonFiniteValuesShowInTheirBlockOnly) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (float bad : {infinity, -infinity, std::nanf(""), std::numeric_limits<float>::signaling_NaN()}) {
    std::vector<float> in = gaussian(1024, 1.0f, 6);
    const std::vector<float> clean = round_trip(in);
    in[300] = bad;
    const std::vector<float> out = round_trip(in);
    const size_t block = 300 / static_cast<size_t>(info().block_elements);
    for (size_t i = 0; i < in.size(); ++i) {
      if (i / static_cast<size_t>(info().block_elements) != block) {
        ASSERT_EQ(out[i], clean[i]) << i;
      } else if (is_float(GetParam())) {
        ASSERT_EQ(canonical_bits(out[i]), canonical_bits(bad));
      } else {
        ASSERT_TRUE(std::isnan(out[i])) << i;
      }
    }
  }
}

// Any bits: nothing but the values of one block decide whether it is finite, and a block is never partly NaN.
TEST_P(FormatTest, ArbitraryFloatsAreDefined) {
  std::mt19937 random(7);
  const size_t step = static_cast<size_t>(info().block_elements);
  for (int round = 0; round < 200; ++round) {
    std::vector<float> in(256);
    const int top_exponent = static_cast<int>(random() % 255);
    for (float& value : in) {
      const uint32_t exponent = static_cast<uint32_t>(std::max(0, top_exponent - static_cast<int>(random() % 12)));
      value = std::bit_cast<float>((static_cast<uint32_t>(random()) & 0x807fffff) | exponent << 23);
    }
    const std::vector<float> out = round_trip(in);
    if (is_float(GetParam())) continue;
    for (size_t start = 0; start < in.size(); start += step) {
      const bool first_is_nan = std::isnan(out[start]);
      for (size_t i = start; i < start + step; ++i) {
        ASSERT_EQ(std::isnan(out[i]), first_is_nan) << i;
        ASSERT_FALSE(std::isinf(out[i])) << i;
        if (top_exponent < 127 + 16) {
          ASSERT_FALSE(first_is_nan) << in[i];
        }
      }
    }
  }
}

// All steps of the quantisers are exact under a power of two, as long as no half becomes subnormal.
TEST_P(FormatTest, PowersOfTwoScaleThrough) {
  std::vector<float> in = gaussian(1024, 1.0f, 9);
  const std::vector<float> out = round_trip(in);
  for (float& value : in) value *= 64.0f;
  const std::vector<float> scaled = round_trip(in);
  for (size_t i = 0; i < in.size(); ++i) ASSERT_EQ(scaled[i], 64.0f * out[i]) << i;
}

// Values of one sign, far from zero, and constants are the hard cases of a search for a scale and a minimum.
TEST_P(FormatTest, OneSidedAndConstantBlocksKeepTheirLevel) {
  const double levels = is_float(GetParam()) ? 256.0 : std::exp2(8.0 * info().block_bytes / info().block_elements);
  for (float offset : {-1000.0f, -3.0f, 3.0f, 1000.0f}) {
    for (float deviation : {0.0f, 0.5f}) {
      std::vector<float> in = gaussian(512, deviation, 10);
      for (float& value : in) value += offset;
      const std::vector<float> out = round_trip(in);
      // Twice what steps over the range from −farthest to farthest would give, and the rounding of the scales.
      const double bound = (std::fabs(offset) + 4.0 * deviation) * (2.0 / levels + 0.02);
      for (size_t i = 0; i < in.size(); ++i) ASSERT_NEAR(out[i], in[i], bound) << i;
    }
  }
}

// Any bytes may come from a file.
TEST_P(FormatTest, ArbitraryBlocksAreDefined) {
  std::mt19937 random(8);
  for (int round = 0; round < 100; ++round) {
    std::vector<uint8_t> blocks(bytes_of(256));
    for (uint8_t& byte : blocks) byte = static_cast<uint8_t>(random());
    EXPECT_EQ(dequantised(blocks).size(), 256u);
  }
}

INSTANTIATE_TEST_SUITE_P(AllTypes, FormatTest,
                         testing::Values(DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0, DType::kQ4_0,
                                         DType::kQ4_1, DType::kQ5_0, DType::kQ5_1, DType::kQ2_K, DType::kQ3_K,
                                         DType::kQ4_K, DType::kQ5_K, DType::kQ6_K, DType::kIQ4_NL, DType::kIQ4_XS),
                         [](const auto& instance) { return std::string(dtype_info(instance.param).name); });

// Root mean square errors for Gaussian values of deviation 1; docs/formats.md shows them beside llama-quantize's. One
// percent is left for the sample.
TEST(Format, ErrorsForGaussianValues) {
  struct Case {
    DType type;
    double error;
  };
  constexpr Case kCases[] = {
      {DType::kF16, 0.0003},     {DType::kBF16, 0.0025},    {DType::kQ8_0, 0.00535}, {DType::kQ4_0, 0.08596},
      {DType::kQ4_1, 0.07828},   {DType::kQ5_0, 0.04270},   {DType::kQ5_1, 0.03789}, {DType::kQ2_K, 0.26063},
      {DType::kQ3_K, 0.14346},   {DType::kQ4_K, 0.07063},   {DType::kQ5_K, 0.03478}, {DType::kQ6_K, 0.01655},
      {DType::kIQ4_NL, 0.07331}, {DType::kIQ4_XS, 0.07389},
  };
  const std::vector<float> in = gaussian(1 << 17, 1.0f, 11);
  for (const Case& expected : kCases) {
    std::vector<uint8_t> blocks(static_cast<size_t>(dtype_bytes(expected.type, 1 << 17)));
    std::vector<float> out(in.size());
    format_of(expected.type).quantise(in.data(), 1 << 17, blocks.data());
    format_of(expected.type).dequantise(blocks.data(), 1 << 17, out.data());
    double squares = 0.0;
    for (size_t i = 0; i < in.size(); ++i) squares += std::pow(static_cast<double>(out[i] - in[i]), 2);
    EXPECT_LT(std::sqrt(squares / (1 << 17)), 1.01 * expected.error) << dtype_info(expected.type).name;
  }
}

TEST(Format, FloatsAreCopied) {
  const std::vector<float> in = gaussian(100, 1.0f, 1);
  std::vector<uint8_t> blocks(400);
  format_of(DType::kF32).quantise(in.data(), 100, blocks.data());
  const auto* bytes = reinterpret_cast<const uint8_t*>(in.data());
  EXPECT_TRUE(std::equal(blocks.begin(), blocks.end(), bytes));
  std::vector<float> out(100);
  format_of(DType::kF32).dequantise(blocks.data(), 100, out.data());
  EXPECT_EQ(out, in);
}

TEST(Format, QuantisesAsGgufWhereThatDefinesIt) {
  const std::vector<float> in = read_floats("input.values");
  ASSERT_GE(in.size(), 1024u);
  for (DType type : {DType::kF16, DType::kBF16, DType::kQ8_0, DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1}) {
    const DTypeInfo& info = dtype_info(type);
    const std::vector<uint8_t> expected = read_golden(std::string(info.name) + ".quantised");
    std::vector<uint8_t> found(static_cast<size_t>(dtype_bytes(type, static_cast<int64_t>(in.size()))));
    format_of(type).quantise(in.data(), static_cast<int64_t>(in.size()), found.data());
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) {
      ASSERT_EQ(found[i], expected[i]) << info.name << ", block " << i / static_cast<size_t>(info.block_bytes)
                                       << ", byte " << i % static_cast<size_t>(info.block_bytes);
    }
  }
}

}  // namespace
}  // namespace dspark
