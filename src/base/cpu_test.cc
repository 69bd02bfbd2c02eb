// Tests of cpu.h, on made-up machines.
#include "base/cpu.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <filesystem>
#include <fstream>

namespace dspark {
namespace {

namespace fs = std::filesystem;

class Cpu : public testing::Test {
 protected:
  Cpu() { fs::create_directories(folder_); }
  ~Cpu() override { fs::remove_all(folder_); }
  std::string write(const std::string& name, const std::string& text) {
    const fs::path path = folder_ / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
    return path.string();
  }
  const fs::path folder_ = fs::path(testing::TempDir()) / "cpus";
};

TEST_F(Cpu, HyperthreadsCountOnce) {
  const char* siblings[] = {"0,4", "1,5", "2,6", "3,7"};
  for (int cpu = 0; cpu < 8; ++cpu) {
    write(fmt::format("cpu{}/topology/thread_siblings_list", cpu), std::string(siblings[cpu % 4]) + "\n");
  }
  EXPECT_EQ(physical_cores({0, 1, 2, 3, 4, 5, 6, 7}, folder_.string()), 4);
  EXPECT_EQ(physical_cores({0, 4}, folder_.string()), 1);
  EXPECT_EQ(physical_cores({3, 5, 6}, folder_.string()), 3);
  EXPECT_EQ(physical_cores({8, 9}, folder_.string()), 2);  // not described
}

TEST_F(Cpu, ControlGroupLimitIsRoundedUp) {
  EXPECT_EQ(cgroup_cpus(write("a", "150000 100000\n")), 2);
  EXPECT_EQ(cgroup_cpus(write("b", "200000 100000\n")), 2);
  EXPECT_EQ(cgroup_cpus(write("c", "max 100000\n")), 0);
  EXPECT_EQ(cgroup_cpus(write("d", "100000 0\n")), 0);
  EXPECT_EQ(cgroup_cpus((folder_ / "none").string()), 0);
}

TEST(UsableCores, FollowsTheAffinityMask) {
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  const int all = usable_cores();
  EXPECT_GE(all, 1);
  EXPECT_LE(all, CPU_COUNT(&before));
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_EQ(usable_cores(), 1);
  sched_setaffinity(0, sizeof(before), &before);
}

}  // namespace
}  // namespace dspark
