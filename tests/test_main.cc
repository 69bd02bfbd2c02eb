// main() of every unit test program. Each process gets a temporary folder of its own (testing::TempDir()), since ctest
// runs many of them at once, and leaves nothing behind.
#include <gtest/gtest.h>
#include <stdlib.h>  // NOLINT: mkdtemp and setenv are POSIX

#include <cstdio>
#include <filesystem>
#include <string>

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  std::string folder = (std::filesystem::temp_directory_path() / "dspark_test_XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr || setenv("TEST_TMPDIR", folder.c_str(), 1) != 0) {
    std::perror("cannot make a temporary folder");
    return 1;
  }
  const int result = RUN_ALL_TESTS();
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  return result;
}
