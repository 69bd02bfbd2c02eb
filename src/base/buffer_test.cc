// Tests of buffer.h.
#include "base/buffer.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace dspark {
namespace {

bool aligned(const void* pointer, uintptr_t alignment) { return reinterpret_cast<uintptr_t>(pointer) % alignment == 0; }

TEST(Buffer, IsAlignedAndUsableToItsEnd) {
  for (size_t count : {1, 3, 63, 64, 65, 4096, 100'001, 4 << 20, (4 << 20) + 1, 9 << 20}) {
    Buffer<uint8_t> buffer(count);
    EXPECT_EQ(buffer.capacity(), count);
    EXPECT_TRUE(aligned(buffer.data(), count >= size_t{4} << 20 ? 2 << 20 : 64)) << count;
    buffer[0] = 1;
    buffer[count - 1] = 2;
    EXPECT_EQ(buffer[count - 1], 2);
  }
}

TEST(Buffer, GrowsOnlyWhenItMust) {
  Buffer<int64_t> buffer;
  EXPECT_EQ(buffer.data(), nullptr);
  buffer.ensure(0);
  EXPECT_EQ(buffer.data(), nullptr);
  buffer.ensure(100);
  int64_t* first = buffer.data();
  for (int64_t i = 0; i < 100; ++i) buffer[static_cast<size_t>(i)] = i * i;
  buffer.ensure(50);
  buffer.ensure(100);
  EXPECT_EQ(buffer.data(), first);
  EXPECT_EQ(buffer.capacity(), 100u);
  for (int64_t i = 0; i < 100; ++i) EXPECT_EQ(buffer[static_cast<size_t>(i)], i * i);
  buffer.ensure(101);
  EXPECT_EQ(buffer.capacity(), 101u);
}

TEST(Buffer, MovesItsMemory) {
  Buffer<int> a(10), b(20);
  a[3] = 7;
  int* memory = a.data();
  Buffer<int> c = std::move(a);
  EXPECT_EQ(c.data(), memory);
  EXPECT_EQ(a.data(), nullptr);  // NOLINT: the moved-from state is specified
  EXPECT_EQ(a.capacity(), 0u);
  b = std::move(c);
  EXPECT_EQ(b.data(), memory);
  EXPECT_EQ(b.capacity(), 10u);
  EXPECT_EQ(b[3], 7);
  a.ensure(5);
  EXPECT_EQ(a.capacity(), 5u);
}

TEST(BufferDeathTest, SizesThatNoMachineHasAreNamed) {
  EXPECT_DEATH(Buffer<uint8_t>(std::numeric_limits<size_t>::max()), "out of memory: 18446744073709551615 items of 1");
  EXPECT_DEATH(Buffer<int64_t>(std::numeric_limits<size_t>::max() / 4), "out of memory: .* items of 8 bytes");
  EXPECT_DEATH(Buffer<uint8_t>(std::numeric_limits<size_t>::max() / 2), "out of memory");
}

}  // namespace
}  // namespace dspark
