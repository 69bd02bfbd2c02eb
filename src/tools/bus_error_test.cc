// Tests of bus_error.h.
#include "tools/bus_error.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/mmap.h"

namespace dspark {
namespace {

TEST(BusError, IsOneLineAndTheExitCodeOfABadFile) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const std::string path = testing::TempDir() + "dspark_truncated";
  std::ofstream(path) << std::string(1 << 16, 'x');
  const MappedFile file = MappedFile::open(path).value();
  std::filesystem::resize_file(path, 1);
  const auto read_lost_page = [&] {
    explain_bus_errors();
    volatile uint8_t last = file.bytes().back();
    (void)last;
  };
  EXPECT_EXIT(read_lost_page(), testing::ExitedWithCode(3), "^dspark: a file lost bytes .* then start again\n$");
}

}  // namespace
}  // namespace dspark
