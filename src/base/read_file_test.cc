// Files are read byte for byte up to the limit, and no further.
#include "base/read_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

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

TEST(ReadFile, APipeIsReadToItsEndAndNotWaitedForWithoutAWriter) {
  const std::string path = ::testing::TempDir() + "/dspark_read_pipe";
  std::filesystem::remove(path);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const auto alone = read_file(path, 1000);
  ASSERT_FALSE(alone.ok());
  EXPECT_THAT(alone.error().message, HasSubstr("a pipe into which nobody writes"));
  const std::string text(300'000, 'x');
  std::thread writer([&] { std::ofstream(path) << text; });
  EXPECT_EQ(read_file(path, kMaxDocumentBytes).value(), text);
  writer.join();
  std::thread silent([&] { std::ofstream opened(path); });
  EXPECT_EQ(read_file(path, 1000).value(), "");
  silent.join();
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace dspark
