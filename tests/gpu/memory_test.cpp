// SPDX-License-Identifier: Apache-2.0

#include "gpu/memory.hpp"

#include "gpu/internal/heap.hpp"

#include "tests/gpu/gpu_testing.hpp"
#include <map>

namespace weft::gpu::memory_test {
namespace {

using testing_support::device;

constexpr std::size_t kMiB = std::size_t{1} << 20;

TEST(Memory, BuffersNeverOverlapAndAllComesBack) {
  Memory& memory = device().memory();
  memory.trim();
  const MemoryUse before = memory.use();
  RandomStream random(8, 0, RandomPurpose::test);
  {
    std::map<std::uint64_t, Buffer> live;
    for (int step = 0; step < 2000; ++step) {
      if (live.size() > 60 || (!live.empty() && random.next_below(3) == 0)) {
        live.erase(std::next(live.begin(), random.next_below(static_cast<std::uint32_t>(live.size()))));
        continue;
      }
      const std::size_t bytes = random.next_below(8) == 0 ? random.next_below(3 * kMiB) : random.next_below(5000);
      auto made = memory.allocate(bytes, "a buffer");
      ASSERT_TRUE(made) << made.error().text();
      EXPECT_EQ(made->address() % Memory::kAlignment, 0u);
      EXPECT_EQ(made->bytes(), bytes);
      const auto after = live.upper_bound(made->address());
      EXPECT_TRUE(after == live.end() || made->address() + bytes <= after->first);
      if (after != live.begin()) {
        const auto& prior = std::prev(after)->second;
        EXPECT_LT(prior.address(), made->address());
        EXPECT_LE(prior.address() + prior.bytes(), made->address());
      }
      live.emplace(made->address(), std::move(*made));
    }
    EXPECT_EQ(memory.use().buffers, before.buffers + live.size());
  }
  EXPECT_EQ(memory.use().allocated, before.allocated);
  memory.trim();
  EXPECT_EQ(memory.use().reserved, before.reserved);
}

TEST(Memory, WhatIsUploadedComesBack) {
  auto stream = device().make_stream();
  ASSERT_TRUE(stream);
  // More than staging holds at once, at odd places.
  std::vector<std::uint32_t> sent(5 * kMiB + 3), got(sent.size());
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<std::uint32_t>(i * 2654435761u);
  auto buffer = device().memory().allocate(sent.size() * 4, "words");
  ASSERT_TRUE(buffer);
  (*stream)->upload(sent.data(), sent.size() * 4, buffer->data());
  ASSERT_TRUE((*stream)->download(buffer->data(), got.size() * 4, got.data()));
  EXPECT_TRUE(got == sent);
  (*stream)->upload(sent.data(), 12, buffer->data<std::uint32_t>() + 77);
  ASSERT_TRUE((*stream)->download(buffer->data<std::uint32_t>() + 76, 20, got.data()));
  EXPECT_EQ(got[0], sent[76]);
  EXPECT_EQ(got[1], sent[0]);
  EXPECT_EQ(got[3], sent[2]);
  EXPECT_EQ(got[4], sent[80]);
}

// Addresses know no limit of bound ranges: 128 MiB on Mesa's CPU driver.
TEST(Memory, ABufferMayBeLargerThanABoundRange) {
  const std::size_t bytes = 200 * kMiB, floats = bytes / 4;
  auto buffer = device().memory().allocate(bytes, "a large buffer");
  ASSERT_TRUE(buffer) << buffer.error().text();
  auto stream = device().make_stream();
  ASSERT_TRUE(stream);
  const kernels::MatrixView all{buffer->data(), 1, floats, floats};
  (*stream)->fill({3.0f, all});
  (*stream)->scale({2.0f, {all.data + floats - 5, 1, 5, 5}, {all.data + floats - 5, 1, 5, 5}});
  std::vector<float> end(8);
  ASSERT_TRUE((*stream)->download(all.data + floats - 8, 32, end.data()));
  EXPECT_EQ(end, (std::vector<float>{3, 3, 3, 6, 6, 6, 6, 6}));
}

TEST(Memory, TooMuchIsRefusedWithBothNumbers) {
  const DeviceInfo& info = device().info();
  const std::uint64_t budget = device().memory().use().budget;
  if (info.max_buffer_bytes != 0 && info.max_buffer_bytes < budget + kMiB)
    GTEST_SKIP() << "one buffer holds less than the memory that there is";
  const auto made = device().memory().allocate(budget + kMiB, "layer 'huge'");
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code(), Errc::too_large);
  for (const std::string& part : {std::string("layer 'huge'"), std::to_string(budget)})
    EXPECT_NE(made.error().text().find(part), std::string::npos) << made.error().text();
  EXPECT_FALSE(device().memory().allocate(~std::size_t{0}, "everything"));
}

/// The program's device opened once more, with so little memory.
std::shared_ptr<Device> device_with(std::uint64_t budget) {
  DeviceOptions options = device().options();
  options.cache_folder = "-";
  options.memory_budget = budget;
  auto opened = Device::open("vulkan:" + std::to_string(device().info().index), options);
  EXPECT_TRUE(opened) << opened.error().text();
  return opened ? *opened : nullptr;
}

TEST(Memory, ManyThatTogetherPassTheBudgetAreRefused) {
  const std::uint64_t budget = 200 * kMiB;
  const auto small = device_with(budget);
  ASSERT_TRUE(small);
  Memory& memory = small->memory();
  memory.trim();
  EXPECT_EQ(memory.use().budget, budget);
  // Each of these fits by far, and is too large to share a block.
  constexpr std::uint64_t kEach = 40 * kMiB + Heap::kReadBeyond;
  std::vector<Buffer> held;
  auto made = memory.allocate(40 * kMiB, "layer 'one of many'");
  for (; made && held.size() < 100; made = memory.allocate(40 * kMiB, "layer 'one of many'"))
    held.push_back(std::move(*made));
  EXPECT_EQ(held.size(), (budget - (memory.use().reserved - held.size() * kEach)) / kEach);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code(), Errc::too_large);
  for (const std::string& part : {std::string("layer 'one of many'"), std::to_string(kEach),
                                  std::to_string(memory.use().reserved), std::to_string(budget)})
    EXPECT_NE(made.error().text().find(part), std::string::npos) << made.error().text();
  EXPECT_LE(memory.use().reserved, budget);
  // Small ones take what is left, then are refused too; one that comes back makes room for another.
  std::vector<Buffer> little;
  for (made = memory.allocate(kMiB, "a little"); made && little.size() < 1000; made = memory.allocate(kMiB, "a little"))
    little.push_back(std::move(*made));
  EXPECT_FALSE(made);
  EXPECT_LE(memory.use().reserved, budget);
  held.pop_back();
  EXPECT_TRUE(memory.allocate(40 * kMiB, "another"));
}

TEST(Memory, WhatStreamsStageCountsToo) {
  const auto small = device_with(100 * kMiB);
  ASSERT_TRUE(small);
  Memory& memory = small->memory();
  memory.trim();
  // Each stream stages 16 MiB upwards and 8 downwards, from one heap or two, one of which may be that of buffers.
  const std::uint64_t before = memory.use().reserved;
  std::vector<std::unique_ptr<VulkanStream>> streams;
  auto made = small->make_stream();
  for (; made && streams.size() < 100; made = small->make_stream()) streams.push_back(std::move(*made));
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code(), Errc::too_large);
  EXPECT_NE(made.error().text().find("staging memory: "), std::string::npos) << made.error().text();
  EXPECT_TRUE(streams.size() >= 3 && streams.size() <= 6) << streams.size();
  // If it is the heap of buffers as well, they have the rest.
  const std::uint64_t staged = memory.use().reserved - before;
  const std::uint64_t each = staged / streams.size() / kMiB;
  EXPECT_TRUE(each == 0 || each == 8 || each == 16 || each == 24) << each;
  EXPECT_EQ(static_cast<bool>(memory.allocate(100 * kMiB - before - Heap::kReadBeyond, "all of it")), staged == 0);
  streams.clear();
  EXPECT_EQ(memory.use().reserved, before);
  EXPECT_TRUE(small->make_stream());
}

TEST(Memory, AForeignAddressIsAnErrorThatStays) {
  auto stream = device().make_stream();
  ASSERT_TRUE(stream);
  float host[4] = {};
  EXPECT_FALSE((*stream)->download(reinterpret_cast<float*>(64), 16, host));
  (*stream)->upload(host, 16, reinterpret_cast<float*>(64));
  EXPECT_FALSE((*stream)->status());
  EXPECT_FALSE((*stream)->finish());
}

}  // namespace
}  // namespace weft::gpu::memory_test
