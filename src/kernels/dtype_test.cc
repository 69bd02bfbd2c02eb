// Tests of dtype.h.
#include "kernels/dtype.h"

#include <gtest/gtest.h>

namespace dspark {
namespace {

TEST(DType, NamesAndNumbersRoundTrip) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const DTypeInfo& info = dtype_info(static_cast<DType>(i));
    EXPECT_EQ(static_cast<int>(info.type), i);
    EXPECT_EQ(dtype_from_ggml(info.ggml_type), info.type);
    EXPECT_EQ(*dtype_from_name(info.name), info.type);
  }
  EXPECT_EQ(*dtype_from_name("Q4_K"), DType::kQ4_K);
  EXPECT_FALSE(dtype_from_ggml(9999).has_value());
}

TEST(DType, UnknownNameListsKnownOnes) {
  auto result = dtype_from_name("q9");
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.error().message.find("'q9'"), std::string::npos);
  EXPECT_NE(result.error().message.find("q4_k"), std::string::npos);
}

}  // namespace
}  // namespace dspark
