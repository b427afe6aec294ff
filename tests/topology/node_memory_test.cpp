// SPDX-License-Identifier: Apache-2.0

#include "topology/node_memory.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace weft::topology::node_memory_test {
namespace {

std::uint64_t total_bytes(const NodeMemory& memory, const Machine& machine) {
  std::uint64_t total = 0;
  for (std::uint32_t node = 0; node < machine.info().nodes.size(); ++node) total += memory.bytes(node);
  return total;
}

TEST(NodeMemory, IsZeroedAlignedAndAccountedFor) {
  for (const Machine& machine : {Machine::discover().value(), Machine::synthetic("node:2 core:2 pu:1").value()}) {
    NodeMemory memory(machine);
    const std::uint64_t page = machine.info().page_bytes;
    const std::uint32_t node = static_cast<std::uint32_t>(machine.info().nodes.size()) - 1;
    {
      auto small = memory.allocate(100, node);
      auto large = memory.allocate((std::size_t{5} << 20) + 1, node);
      ASSERT_TRUE(small && large);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(small->data()) % 64, 0u);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(large->data()) % (std::size_t{2} << 20), 0u);
      for (NodeBuffer* buffer : {&*small, &*large}) {
        EXPECT_EQ(buffer->node(), node);
        EXPECT_EQ(std::count(buffer->data(), buffer->data() + buffer->size(), std::byte{0}),
                  static_cast<std::ptrdiff_t>(buffer->size()));
        std::memset(buffer->data(), 0xff, buffer->size());  // all of it is ours
      }
      EXPECT_EQ(memory.bytes(node), page + (std::uint64_t{5} << 20) + page);
      EXPECT_EQ(large->as<float>().size(), large->size() / 4);
      NodeBuffer moved = std::move(*large);
      EXPECT_TRUE(large->empty());
      EXPECT_EQ(total_bytes(memory, machine), memory.bytes(node));
    }
    EXPECT_EQ(total_bytes(memory, machine), 0u);
  }
}

TEST(NodeMemory, OutlivesItsMaker) {
  NodeBuffer buffer;
  {
    NodeMemory memory(Machine::discover().value());
    buffer = memory.allocate(4096, 0).value();
  }
  buffer.data()[4095] = std::byte{1};
}

TEST(NodeMemory, RefusesNodesAndSizesThatCannotBe) {
  const Machine machine = Machine::synthetic("node:2 core:2 pu:1").value();
  NodeMemory memory(machine);
  EXPECT_EQ(memory.allocate(1, 2).error().code(), Errc::out_of_range);
  EXPECT_EQ(memory.allocate(~std::size_t{0}, 0).error().code(), Errc::too_large);
  EXPECT_EQ(memory.allocate(~std::size_t{0} / 2, 0).error().code(), Errc::too_large);
  EXPECT_TRUE(memory.allocate(0, 0)->empty());
  EXPECT_EQ(total_bytes(memory, machine), 0u);
}

}  // namespace
}  // namespace weft::topology::node_memory_test
