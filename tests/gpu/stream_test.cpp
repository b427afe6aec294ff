// SPDX-License-Identifier: Apache-2.0

#include "gpu/vulkan_stream.hpp"

#include "tests/gpu/gpu_testing.hpp"

namespace weft::gpu::stream_test {
namespace {

using kernels::MatrixView;
using testing_support::device;

struct Four {
  explicit Four(VulkanStream& stream) {
    for (Buffer& each : buffers) {
      auto made = device().memory().allocate(64, "sixteen floats");
      EXPECT_TRUE(made);
      each = std::move(*made);
      stream.fill({1.0f, {each.data(), 1, 16, 16}});
    }
  }
  MatrixView operator[](std::size_t i) const { return {buffers[i].data(), 1, 16, 16}; }
  Buffer buffers[4];
};

TEST(Stream, BarriersStandWhereOperandsTouchAndNowhereElse) {
  auto stream = device().make_stream();
  ASSERT_TRUE(stream);
  const Four m(**stream);
  ASSERT_TRUE((*stream)->finish());
  auto before = (*stream)->barriers();
  const auto barriers = [&] { return (*stream)->barriers() - std::exchange(before, (*stream)->barriers()); };
  (*stream)->scale({2.0f, m[0], m[1]});
  EXPECT_EQ(barriers(), 1u);  // for what other submissions wrote
  (*stream)->scale({2.0f, m[0], m[2]});
  EXPECT_EQ(barriers(), 0u);  // both only read m[0]
  (*stream)->scale({2.0f, m[1], m[3]});
  EXPECT_EQ(barriers(), 1u);  // reads what was written
  (*stream)->fill({5.0f, m[0]});
  EXPECT_EQ(barriers(), 0u);  // the barrier came after its readers
  (*stream)->fill({5.0f, m[1]});
  EXPECT_EQ(barriers(), 1u);  // writes what is being read
  (*stream)->fill({6.0f, {m[1].data + 15, 1, 1, 1}});
  EXPECT_EQ(barriers(), 1u);  // writes what was written
  ASSERT_TRUE((*stream)->finish());
}

// A chain in one submission, and the same over many: commands run in order.
TEST(Stream, OperationsRunInOrder) {
  for (const bool many : {false, true}) {
    auto stream = device().make_stream();
    ASSERT_TRUE(stream);
    const Four m(**stream);
    for (int i = 0; i < 200; ++i) {
      (*stream)->axpy({1.0f, m[0], m[1]});
      (*stream)->copy({m[1], m[2]});
      (*stream)->axpy({1.0f, m[3], m[2]});
      (*stream)->copy({m[2], m[1]});
      ASSERT_TRUE(!many || (*stream)->submit());
    }
    float got = 0;
    ASSERT_TRUE((*stream)->download(m[1].data, 4, &got));
    EXPECT_EQ(got, 401.0f);
  }
}

TEST(Stream, TransfersInOrder) {
  auto stream = device().make_stream();
  ASSERT_TRUE(stream);
  const Four m(**stream);
  (*stream)->fill({2.0f, m[0]});
  (*stream)->transfer(m[0].data, 32, m[1].data + 8);
  (*stream)->scale({3.0f, m[1], m[2]});
  (*stream)->fill({9.0f, m[0]});
  std::vector<float> got(16);
  ASSERT_TRUE((*stream)->download(m[2].data, 64, got.data()));
  std::vector<float> want(8, 3.0f);
  want.resize(16, 6.0f);
  EXPECT_EQ(got, want);
  (*stream)->transfer(m[0].data, std::size_t{1} << 40, m[1].data);
  EXPECT_EQ((*stream)->status().error().code(), Errc::invalid_argument);
}

TEST(Stream, AFailureStaysAndNothingRunsAfterIt) {
  auto stream = device().make_stream();
  ASSERT_TRUE(stream);
  const Four m(**stream);
  ASSERT_TRUE((*stream)->finish());
  // More scratch memory than there is.
  kernels::ConstWeight stored;
  stored.dtype = Dtype::int8;
  stored.out = 4, stored.in = std::size_t{1} << 20;
  const kernels::ConstMatrixView x{m[0].data, std::size_t{1} << 38, stored.in, stored.in};
  (*stream)->linear({stored, nullptr, x, kernels::Activation::linear, {}, m[1]});
  const auto status = (*stream)->status();
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().text().find("scratch memory of operations"), std::string::npos) << status.error().text();
  const auto before = (*stream)->dispatches();
  (*stream)->fill({9.0f, m[0]});
  EXPECT_EQ((*stream)->dispatches(), before);
  EXPECT_FALSE((*stream)->submit());
}

}  // namespace
}  // namespace weft::gpu::stream_test
