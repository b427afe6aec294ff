// SPDX-License-Identifier: Apache-2.0
// Every operation of the table (tests/kernels/op_cases.hpp) on the device: recorded, as a program and in place, the
// bits of the CPU's scalar path, and nothing written beside the operands.

#include "tests/kernels/op_cases.hpp"

#include "tests/gpu/gpu_testing.hpp"
#include <limits>

namespace weft::gpu::op_cases_test {
namespace {

using namespace testing_support;
using kernels::testing_ops::Block;
using kernels::testing_ops::Case;
using Floats = std::vector<float>;

/// The operands of a case one behind the other, as on the device: a margin behind each, workspaces left out.
struct Image {
  explicit Image(const Case& c) {
    for (const Block& each : c.blocks) {
      starts.push_back(floats.size());
      if (each.is_workspace) continue;
      floats.insert(floats.end(), each.initial.begin(), each.initial.end());
      floats.resize((floats.size() / 64 + 2) * 64, 1234567.0f);
    }
  }
  Floats floats;
  std::vector<std::size_t> starts;
};

/// Runs a case on operands that lie at `base` as in `image`.
bool run(const Case& c, OpStream& stream, const Image& image, float* base, bool in_place) {
  return c.run(stream, [&](const void* host) -> void* {
    std::size_t i = c.block_of(host);
    if (i == c.blocks.size()) return nullptr;
    if (c.blocks[i].is_workspace) return const_cast<void*>(host);
    const std::ptrdiff_t offset = static_cast<const float*>(host) - c.blocks[i].initial.data();
    if (in_place && i == c.output) i = c.input;
    return base + image.starts[i] + offset;
  });
}

Floats on_the_cpu(const Case& c, const Image& image, bool in_place, bool& answer) {
  const kernels::FlushSubnormals flush;
  const kernels::Isa before = kernels::active_isa();
  EXPECT_TRUE(kernels::set_active_isa(kernels::Isa::scalar));
  AlignedBuffer<float> memory(image.floats.size());
  std::copy(image.floats.begin(), image.floats.end(), memory.begin());
  kernels::CpuStream cpu;
  answer = run(c, cpu, image, memory.data(), in_place);
  EXPECT_TRUE(kernels::set_active_isa(before));
  return {memory.begin(), memory.end()};
}

void expect_cpus_bits(VulkanStream& stream, const Case& c, bool in_place, bool as_program) {
  const std::string what = c.name + (in_place ? ", in place" : as_program ? ", as a program" : "");
  const Image image(c);
  bool answer = false, answered = false;
  const Floats want = on_the_cpu(c, image, in_place, answer);
  const std::size_t bytes = image.floats.size() * sizeof(float);
  auto buffer = device().memory().allocate(bytes, "operands");
  ASSERT_TRUE(buffer) << buffer.error().text();
  stream.upload(image.floats.data(), bytes, buffer->data());
  if (as_program) {
    ASSERT_TRUE(stream.begin_program());
  }
  answered = run(c, stream, image, buffer->data(), in_place);
  if (as_program) {
    const auto program = stream.end_program();
    ASSERT_TRUE(program) << what << ": " << program.error().text();
    ASSERT_TRUE(stream.run(*program));
  }
  Floats got(want.size());
  const Status status = stream.download(buffer->data(), bytes, got.data());
  ASSERT_TRUE(status) << what << ": " << status.error().text();
  EXPECT_EQ(answered, answer) << what;
  for (std::size_t i = 0; i < c.blocks.size(); ++i) {
    const std::size_t end = i + 1 < c.blocks.size() ? image.starts[i + 1] : want.size();
    for (std::size_t j = image.starts[i]; j < end; ++j)
      ASSERT_TRUE(c.blocks[i].is_bits ? std::memcmp(&got[j], &want[j], sizeof(float)) == 0 : same_bits(got[j], want[j]))
          << what << ": operand " << i << ", element " << j - image.starts[i] << ": " << got[j] << " against the CPU's "
          << want[j] << std::hexfloat << " (" << got[j] << ", " << want[j] << ", before " << image.floats[j] << ")";
  }
}

class EveryOperation : public testing::TestWithParam<int> {};

TEST_P(EveryOperation, HasTheCpusBits) {
  const auto op = static_cast<kernels::OpId>(GetParam());
  const std::vector<Case> cases = cases_of(op, kernels::testing_ops::Breadth::device);
  ASSERT_FALSE(cases.empty()) << name(op) << " has no rows: tests/kernels/op_cases_values.cpp and its neighbours";
  auto stream = device().make_stream();
  ASSERT_TRUE(stream) << stream.error().text();
  for (const Case& c : cases) {
    expect_cpus_bits(**stream, c, false, false);
    if (c.as_program) expect_cpus_bits(**stream, c, false, true);
    if (c.output != c.input) expect_cpus_bits(**stream, c, true, false);
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Table, EveryOperation, testing::Range(0, kernels::kOpCount),
                         [](const auto& op) { return std::string(name(static_cast<kernels::OpId>(op.param))); });

TEST(IsFinite, InfinitiesAndNansAreFoundWhereverTheyStand) {
  auto stream = device().make_stream();
  ASSERT_TRUE(stream);
  constexpr std::size_t kRows = 7, kCols = 300, kStride = 310;
  auto buffer = device().memory().allocate(kRows * kStride * sizeof(float), "a matrix");
  ASSERT_TRUE(buffer);
  const MatrixView x{buffer->data(), kRows, kCols, kStride};
  (*stream)->fill({3e38f, {buffer->data(), 1, kRows * kStride, kRows * kStride}});
  EXPECT_TRUE((*stream)->is_finite({x}));
  const float bad[] = {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(), std::nanf("")};
  (*stream)->upload(bad, 4, x.row(2) + kCols + 3);  // between two rows: none of the matrix
  EXPECT_TRUE((*stream)->is_finite({x}));
  for (const float& each : bad)
    for (const std::size_t i : {std::size_t{0}, kRows - 1}) {
      float* const at = x.row(i) + (i ? kCols - 1 : 0);
      (*stream)->upload(&each, 4, at);
      EXPECT_FALSE((*stream)->is_finite({x})) << each << " in row " << i;
      (*stream)->fill({0.0f, {at, 1, 1, 1}});
      EXPECT_TRUE((*stream)->is_finite({x}));
    }
  EXPECT_TRUE((*stream)->is_finite({{buffer->data(), 0, 5, 5}}));
}

}  // namespace
}  // namespace weft::gpu::op_cases_test
