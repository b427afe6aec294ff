// SPDX-License-Identifier: Apache-2.0

#include "mesh/memory/byte_ranges.hpp"

#include "mesh/device/host_device_exchange.hpp"

#include "core/philox.hpp"

#include <gtest/gtest.h>

#include <array>
#include <bitset>
#include <utility>
#include <vector>

namespace weft::mesh::byte_ranges_test {
namespace {

constexpr std::size_t kBytes = 64;
using Bytes = std::bitset<kBytes>;

std::vector<ByteRange> drawn(RandomStream& random) {
  std::vector<ByteRange> ranges(random.next_below(9));
  for (ByteRange& range : ranges) {
    range.begin = random.next_below(kBytes);
    range.end = range.begin + random.next_below(12);
    range.end = std::min<std::uintptr_t>(range.end, kBytes);
  }
  return ranges;
}

Bytes bytes_of(const std::vector<ByteRange>& ranges) {
  Bytes bytes;
  for (const ByteRange& range : ranges)
    for (std::uintptr_t at = range.begin; at < range.end; ++at) bytes.set(at);
  return bytes;
}

void expect_in_order(const ByteRanges& set) {
  for (std::size_t i = 0; i < set.size(); ++i) {
    EXPECT_LT(set[i].begin, set[i].end);
    if (i > 0) {
      EXPECT_LT(set[i - 1].end, set[i].begin);
    }
  }
}

TEST(ByteRanges, AreSetsOfBytes) {
  RandomStream random(5, 0, RandomPurpose::test);
  for (int i = 0; i < 3000; ++i) {
    const std::vector<ByteRange> some = drawn(random), others = drawn(random);
    const ByteRanges a = set_of(some), b = set_of(others);
    const Bytes in_a = bytes_of(some), in_b = bytes_of(others);
    EXPECT_EQ(bytes_of(a), in_a);
    EXPECT_EQ(bytes_of(united(a, b)), in_a | in_b);
    EXPECT_EQ(bytes_of(common(a, b)), in_a & in_b);
    EXPECT_EQ(bytes_of(without(a, b)), in_a & ~in_b);
    EXPECT_EQ(size_of(a), in_a.count());
    for (const ByteRanges& set : {a, united(a, b), common(a, b), without(a, b), bridged(a, 3, b)}) expect_in_order(set);
    // A bridge is all of a gap that is short and holds nothing spared.
    Bytes bridges;
    for (std::size_t k = 1; k < a.size(); ++k) {
      const Bytes gap = bytes_of({{a[k - 1].end, a[k].begin}});
      if (gap.count() <= 3 && (gap & in_b).none()) bridges |= gap;
    }
    EXPECT_EQ(bytes_of(bridged(a, 3, b)), in_a | bridges);
  }
}

TEST(HostDeviceExchange, SendsEachSideWhatItTouchesOfWhatTheOtherWrites) {
  HostDeviceExchange border;
  HostDeviceExchange::Step step{.host_writes = {{0, 10}}, .device_writes = {{200, 230}}, .in = {}, .out = {}};
  HostDeviceExchange::PendingTransfers pending = border.meet({{0, 20}, {210, 220}}, {{5, 8}, {200, 300}});
  EXPECT_TRUE(pending.in.empty());
  EXPECT_TRUE(pending.out.empty());
  border.refresh(step);
  EXPECT_EQ(step.in, (ByteRanges{{5, 8}}));
  EXPECT_EQ(step.out, (ByteRanges{{210, 220}}));
  // The host begins to look at what the device alone had, and the other way round.
  pending = border.meet({{290, 310}}, {{15, 30}});
  EXPECT_EQ(pending.in, (ByteRanges{{15, 20}}));
  EXPECT_EQ(pending.out, (ByteRanges{{290, 300}}));
  step.device_writes = {{200, 295}};
  step.made_at = 0;
  border.refresh(step);
  EXPECT_EQ(step.out, (ByteRanges{{210, 220}, {290, 295}}));
}

TEST(HostDeviceExchange, TakesBackWhatWasKeptOnceForEachEra) {
  HostDeviceExchange border;
  std::array<std::byte, 100> memory{};
  const auto range = [&](std::size_t begin, std::size_t end) { return byte_range(&memory[begin], end - begin); };
  const auto write = [&](int value) { memory.fill(std::byte(value)); };
  border.keep({range(0, 10)});
  write(1);
  border.keep({range(5, 20), range(50, 60)});
  write(2);
  border.take_back();
  for (std::size_t i = 0; i < memory.size(); ++i)
    EXPECT_EQ(int(memory[i]), i < 10 ? 0 : i < 20 || (i >= 50 && i < 60) ? 1 : 2) << i;
  write(3);
  border.forget();
  border.keep({range(8, 12)});
  write(4);
  border.take_back();
  for (std::size_t i = 0; i < memory.size(); ++i) EXPECT_EQ(int(memory[i]), i >= 8 && i < 12 ? 3 : 4) << i;
}

}  // namespace
}  // namespace weft::mesh::byte_ranges_test
