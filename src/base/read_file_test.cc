// Files are read byte for byte up to the limit, and no further.
#include "base/read_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace dspark {
namespace {

using ::testing::HasSubstr;

TEST(ReadFile, BytesComeAsTheyAreUpToTheLimit) {
  const std::string path = ::testing::TempDir() + "/dspark_read_file";
  const std::string bytes("a\0\r\n\xff", 5);
  std::ofstream(path, std::ios::binary) << bytes;
  EXPECT_EQ(read_file(path, 5).value(), bytes);
  const auto beyond = read_file(path, 4);
  ASSERT_FALSE(beyond.ok());
  EXPECT_EQ(beyond.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(beyond.error().message, HasSubstr(path));
  std::filesystem::remove(path);
}

TEST(ReadFile, EndlessDeviceIsAnError) {
  const auto zeros = read_file("/dev/zero", kMaxDocumentBytes);
  ASSERT_FALSE(zeros.ok());
  EXPECT_THAT(zeros.error().message, HasSubstr("'/dev/zero' has more than 16 MiB"));
  EXPECT_EQ(read_file("/dev/null", 0).value(), "");
}

TEST(ReadFile, MissingFileAndFolderAreNamed) {
  for (const char* path : {"/nonexistent/file", "/tmp"}) {
    const auto failed = read_file(path, 100);
    ASSERT_FALSE(failed.ok());
    EXPECT_EQ(failed.error().code, ErrorCode::kNotFound);
    EXPECT_THAT(failed.error().message, HasSubstr(path));
  }
}

}  // namespace
}  // namespace dspark
