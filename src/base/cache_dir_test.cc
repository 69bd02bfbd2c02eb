// Tests of cache_dir.h.
#include "base/cache_dir.h"

#include <gmock/gmock.h>
#include <stdlib.h>  // NOLINT: setenv is POSIX

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

namespace dspark {
namespace {

// Sets a variable for one test.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const char* value) : name_(name) {
    const char* before = std::getenv(name);
    before_ = before == nullptr ? "" : before;
    value == nullptr ? ::unsetenv(name) : ::setenv(name, value, 1);
  }
  ~ScopedVariable() { before_.empty() ? ::unsetenv(name_) : ::setenv(name_, before_.c_str(), 1); }

 private:
  const char* name_;
  std::string before_;
};

TEST(CacheDir, FollowsTheSpecification) {
  const ScopedVariable home("HOME", "/home/x");
  {
    const ScopedVariable xdg("XDG_CACHE_HOME", "/var/cache/y");
    EXPECT_EQ(cache_dir().value(), "/var/cache/y/dspark");
  }
  for (const char* unset : {static_cast<const char*>(nullptr), "", "relative"}) {
    const ScopedVariable xdg("XDG_CACHE_HOME", unset);
    EXPECT_EQ(cache_dir().value(), "/home/x/.cache/dspark");
    const ScopedVariable no_home("HOME", nullptr);
    EXPECT_THAT(cache_dir().error().message, testing::HasSubstr("neither XDG_CACHE_HOME nor HOME"));
  }
}

TEST(ReplaceFile, LeavesOnlyTheFile) {
  const std::string folder = testing::TempDir() + "dspark_replace/a/b";
  std::filesystem::remove_all(testing::TempDir() + "dspark_replace");
  ASSERT_TRUE(create_folders(folder).ok());
  ASSERT_TRUE(replace_file(folder + "/f", "first").ok());
  ASSERT_TRUE(replace_file(folder + "/f", "second").ok());
  std::string content;
  std::ifstream(folder + "/f") >> content;
  EXPECT_EQ(content, "second");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
  EXPECT_FALSE(replace_file(folder + "/none/f", "x").ok());
  EXPECT_THAT(create_folders(folder + "/f/g").error().message, testing::HasSubstr("cannot create the folder"));
}

TEST(FileLock, ExcludesOthersUntilReleased) {
  const std::string path = testing::TempDir() + "dspark_lock";
  std::atomic<int> inside = 0;
  std::atomic<int> most = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      const auto lock = FileLock::acquire(path, {});
      ASSERT_TRUE(lock.ok());
      most = std::max<int>(most, ++inside);
      std::this_thread::yield();
      --inside;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(most, 1);
}

TEST(FileLock, WaitingCanBeCancelled) {
  const std::string path = testing::TempDir() + "dspark_lock_held";
  const auto held = FileLock::acquire(path, {});
  ASSERT_TRUE(held.ok());
  const auto second = FileLock::acquire(path, [](std::string_view what, int64_t, int64_t) {
    EXPECT_EQ(what, "waiting for another process");
    return false;
  });
  EXPECT_EQ(second.error().code, ErrorCode::kCancelled);
}

}  // namespace
}  // namespace dspark
