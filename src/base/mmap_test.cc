// Tests of mmap.h.
#include "base/mmap.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

namespace dspark {
namespace {

std::string write(const std::string& name, const std::string& content) {
  const std::string path = testing::TempDir() + name;
  std::ofstream(path, std::ios::binary) << content;
  return path;
}

TEST(MappedFile, HoldsTheBytesThroughMovesAndReleases) {
  std::string content(100'000, '\0');
  for (size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i * 7);
  MappedFile file = MappedFile::open(write("dspark_mmap", content)).value();
  MappedFile moved = std::move(file);
  EXPECT_TRUE(file.bytes().empty());  // NOLINT: the moved-from state is specified
  const auto text = [&] { return std::string(moved.bytes().begin(), moved.bytes().end()); };
  EXPECT_EQ(text(), content);
  moved.release(moved.bytes().subspan(5, 50'000));
  EXPECT_EQ(text(), content);
  moved.release_all();
  EXPECT_EQ(text(), content);
}

TEST(MappedFile, EmptyAndRefused) {
  EXPECT_TRUE(MappedFile::open(write("dspark_empty", "")).value().bytes().empty());
  EXPECT_EQ(MappedFile::open(testing::TempDir()).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(MappedFile::open(testing::TempDir() + "dspark_none").error().code, ErrorCode::kNotFound);
  const std::string fifo = testing::TempDir() + "dspark_fifo";
  std::filesystem::remove(fifo);
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_THAT(MappedFile::open(fifo).error().message, testing::HasSubstr("not a regular file"));
}

TEST(MappedFile, KnowsThatItWasWrittenTo) {
  const std::string path = write("dspark_changed", "abc");
  const MappedFile file = MappedFile::open(path).value();
  EXPECT_TRUE(file.check_unchanged().ok());
  std::ofstream(path, std::ios::app) << "d";
  EXPECT_THAT(file.check_unchanged().error().message, testing::HasSubstr("was 3 bytes"));
  const MappedFile again = MappedFile::open(path).value();
  std::filesystem::last_write_time(path, std::filesystem::file_time_type{});  // same size
  EXPECT_FALSE(again.check_unchanged().ok());
}

TEST(MappedFile, KeepsAFileThatIsReplaced) {
  const std::string path = write("dspark_replaced", "abc");
  const MappedFile file = MappedFile::open(path).value();
  std::filesystem::rename(write("dspark_replacement", "defg"), path);
  EXPECT_TRUE(file.check_unchanged().ok());
  EXPECT_EQ(std::string(file.bytes().begin(), file.bytes().end()), "abc");
  std::filesystem::remove(path);
  EXPECT_TRUE(file.check_unchanged().ok());
}

TEST(FileIdentity, ChangesWithTheFile) {
  const std::string path = write("dspark_identity", "abc");
  const auto identity = [&] { return MappedFile::open(path).value().identity(); };
  const FileIdentity before = identity();
  EXPECT_EQ(before.bytes, 3u);
  EXPECT_EQ(before, identity());
  std::filesystem::remove(path);
  write("dspark_identity", "abcd");
  EXPECT_FALSE(before == identity());
}

}  // namespace
}  // namespace dspark
