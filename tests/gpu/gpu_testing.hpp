// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "gpu/device.hpp"
#include "gpu/memory.hpp"
#include "gpu/vulkan_stream.hpp"

#include "kernels/cpu_stream.hpp"
#include "kernels/float_environment.hpp"
#include "kernels/isa.hpp"

#include "core/philox.hpp"

#include <gtest/gtest.h>

#include "tests/kernels/comparing.hpp"
#include "tests/kernels/op_cases.hpp"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

/// Fixtures of the GPU tests: one device for the program (WEFT_TEST_DEVICE names another than the first), and cases
/// (tests/kernels/op_cases.hpp) run on the CPU's scalar path and on the device from the same bytes.
namespace weft::gpu::testing_support {

using kernels::ConstMatrixView;
using kernels::ConstWeight;
using kernels::MatrixView;
using kernels::OpStream;
using kernels::testing_ops::Case;
using kernels::testing_ops::Operands;
using kernels::testing_support::same_bits;

inline std::string selector() {
  const char* named = std::getenv("WEFT_TEST_DEVICE");
  return named ? named : "vulkan";
}

inline bool is_device_open = false;

/// The program's device. Without any Vulkan device, and none asked for, the program ends as skipped (77).
inline Device& device() {
  const auto open = [] {
    DeviceOptions options;
    options.validate = std::getenv("WEFT_TEST_NO_VALIDATION") == nullptr;
    options.cache_folder = "-";
    auto result = Device::open(selector(), options);
    if (!result) {
      std::fprintf(stderr, "%s\n", result.error().text().c_str());
      const auto all = devices();
      const bool is_absent = !std::getenv("WEFT_TEST_DEVICE") && (!all || all->empty());
      std::exit(is_absent ? 77 : 1);
    }
    // tools/setup.sh gpu installs the layers with the driver: where they are lost, tests would see less and say
    // nothing.
    if (std::getenv("CI") && options.validate && !(*result)->validates()) {
      std::fprintf(stderr, "CI is set, and the validation layers are not there: tools/setup.sh gpu installs them\n");
      std::exit(1);
    }
    is_device_open = true;
    const SelfTest& proof = (*result)->self_test();
    std::fprintf(stderr, "device: %s, %s; shaders: %s; validation: %s\n", (*result)->info().name.c_str(),
                 (*result)->info().driver.c_str(), proof.variant.c_str(), (*result)->validates() ? "on" : "off");
    return std::move(*result);
  };
#ifdef WEFT_SANITIZED
  // Never closed: the validation layer loses memory of its own, which the leak checker cannot name once it is unloaded.
  static const auto* const opened = new std::shared_ptr<Device>(open());
  return **opened;
#else
  static const std::shared_ptr<Device> opened = open();
  return *opened;
#endif
}

/// Of what the validation layers find; what a plan of faults had them say is asked for. Tests that open no device are
/// none of its business.
class EachTestIsValid : public testing::EmptyTestEventListener {
  void OnTestEnd(const testing::TestInfo&) override {
    if (!is_device_open) return;
    const auto errors = device().validation_errors();
    for (; seen_ < errors.size(); ++seen_)
      if (errors[seen_].find("a plan of faults asked for") == std::string::npos)
        ADD_FAILURE() << "validation layer: " << errors[seen_];
  }
  std::size_t seen_ = 0;
};
inline const bool kListens = [] {
  testing::UnitTest::GetInstance()->listeners().Append(new EachTestIsValid);
  return true;
}();

/// The operands of a case one behind the other, as on the device: a margin behind each, workspaces left out.
struct Image {
  explicit Image(const Case& c) {
    for (const kernels::testing_ops::Block& each : c.blocks) {
      starts.push_back(floats.size());
      if (each.is_workspace) continue;
      floats.insert(floats.end(), each.initial.begin(), each.initial.end());
      floats.resize((floats.size() / 64 + 2) * 64, 1234567.0f);
    }
  }
  std::vector<float> floats;
  std::vector<std::size_t> starts;
};

/// Runs a case on operands that lie at `base` as in `image`.
inline bool run(const Case& c, OpStream& stream, const Image& image, float* base, bool in_place) {
  return c.run(stream, [&](const void* host) -> void* {
    std::size_t i = c.block_of(host);
    if (i == c.blocks.size()) return nullptr;
    if (c.blocks[i].is_workspace) return const_cast<void*>(host);
    const std::ptrdiff_t offset = static_cast<const float*>(host) - c.blocks[i].initial.data();
    if (in_place && i == c.output) i = c.input;
    return base + image.starts[i] + offset;
  });
}

inline std::vector<float> on_the_cpu(const Case& c, const Image& image, bool in_place, bool& answer) {
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

enum class Form { recorded, graph, in_place };

/// Runs a case on the CPU's scalar path and on the device: what each operand holds afterwards, gaps and margins too,
/// must be the same bits.
inline void expect_cpus_bits(VulkanStream& stream, const Case& c, Form form, Device& on = device()) {
  constexpr const char* kForms[] = {"", ", as a command graph", ", in place"};
  const std::string what = c.name + kForms[static_cast<int>(form)];
  const Image image(c);
  const bool in_place = form == Form::in_place;
  bool answer = false, answered = false;
  const std::vector<float> want = on_the_cpu(c, image, in_place, answer);
  const std::size_t bytes = image.floats.size() * sizeof(float);
  auto buffer = on.memory().allocate(bytes, "operands");
  ASSERT_TRUE(buffer) << buffer.error().text();
  stream.upload(image.floats.data(), bytes, buffer->data());
  if (form == Form::graph) {
    ASSERT_TRUE(stream.begin_capture());
  }
  answered = run(c, stream, image, buffer->data(), in_place);
  if (form == Form::graph) {
    const auto graph = stream.end_capture();
    ASSERT_TRUE(graph) << what << ": " << graph.error().text();
    ASSERT_TRUE(stream.run(*graph));
  }
  std::vector<float> got(want.size());
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
/// Recorded and as a command graph; `graphs` false: where compiling for both would take too long.
inline void expect_cpus_bits(const Case& c, bool graphs = true) {
  auto stream = device().make_stream();
  ASSERT_TRUE(stream) << stream.error().text();
  expect_cpus_bits(**stream, c, Form::recorded);
  if (graphs && !testing::Test::HasFatalFailure()) expect_cpus_bits(**stream, c, Form::graph);
}

/// A buffer of the device with these values, which come back.
inline Buffer on_device(VulkanStream& stream, const std::vector<float>& values) {
  auto buffer = device().memory().allocate(values.size() * sizeof(float), "values");
  EXPECT_TRUE(buffer) << buffer.error().text();
  stream.upload(values.data(), values.size() * sizeof(float), buffer->data());
  return std::move(*buffer);
}
inline std::vector<float> from_device(VulkanStream& stream, const Buffer& buffer) {
  std::vector<float> values(buffer.bytes() / sizeof(float));
  const Status status = stream.download(buffer.data(), buffer.bytes(), values.data());
  EXPECT_TRUE(status) << status.error().text();
  return values;
}
/// Normal numbers.
inline std::vector<float> draw(RandomStream& random, std::size_t n) {
  std::vector<float> values(n);
  for (float& each : values) each = random.next_normal();
  return values;
}

}  // namespace weft::gpu::testing_support
