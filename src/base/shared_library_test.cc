// Tests of shared_library.h.
#include "base/shared_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dspark {
namespace {

using testing::HasSubstr;

TEST(SharedLibrary, BindsFunctions) {
  const Result<SharedLibrary> math = SharedLibrary::open("libm.so.6", "libc6");
  ASSERT_TRUE(math.ok()) << math.error().message;
  double (*smallest_above)(double) = nullptr;
  const Status bound = math->bind("ceil", smallest_above);
  ASSERT_TRUE(bound.ok()) << bound.error().message;
  EXPECT_EQ(smallest_above(26.5), 27.0);
}

TEST(SharedLibrary, NamesThePackageOfAMissingLibrary) {
  const Result<SharedLibrary> none = SharedLibrary::open("libdspark-no-such-thing.so.1", "some-package");
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(none.error().message, HasSubstr("libdspark-no-such-thing.so.1"));
  EXPECT_THAT(none.error().message, HasSubstr("apt-get install some-package"));
}

TEST(SharedLibrary, NamesAMissingFunction) {
  const Result<SharedLibrary> math = SharedLibrary::open("libm.so.6", "libc6");
  ASSERT_TRUE(math.ok()) << math.error().message;
  void (*none)() = nullptr;
  const Status bound = math->bind("dspark_no_such_function", none);
  ASSERT_FALSE(bound.ok());
  EXPECT_EQ(bound.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(bound.error().message, HasSubstr("libm.so.6 has no dspark_no_such_function"));
  EXPECT_EQ(none, nullptr);
}

}  // namespace
}  // namespace dspark
