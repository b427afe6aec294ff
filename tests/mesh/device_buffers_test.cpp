// SPDX-License-Identifier: Apache-2.0

#include "mesh/device/device_buffers.hpp"

#include <gtest/gtest.h>

#include "on_device.hpp"
#include <vector>

namespace weft::mesh::device_buffers_test {
namespace {

// Labels and targets go to the device and stay there: what comes back of a sample is what steps wrote.
TEST(DeviceBuffers, BringsBackOnlyWindowsThatStepsWrite) {
  const auto device = testing_support::open_device(testing_support::device_options());
  std::vector<float> targets(8 * 3, 1.0f), losses(8, 2.0f);  // rings of eight samples
  const auto window = [](std::vector<float>& values, std::size_t each, bool is_input) {
    DeviceRegion region{values.data(), values.size() * sizeof(float), RegionUse::window, each * sizeof(float)};
    region.is_input = is_input;
    return region;
  };
  auto buffers = DeviceBuffers::build(*device, {window(targets, 3, true), window(losses, 1, false)}, 4, 1);
  ASSERT_TRUE(buffers) << buffers.error().text();
  buffers->move_window(6);  // samples 6 to 9: the ring's end lies within
  std::size_t bytes = 0;
  for (const DeviceBuffers::DeviceCopy& copy : buffers->written_windows(10)) {
    bytes += copy.bytes;
    EXPECT_GE(copy.host, reinterpret_cast<const std::byte*>(losses.data()));
    EXPECT_LE(copy.host + copy.bytes, reinterpret_cast<const std::byte*>(losses.data() + losses.size()));
  }
  EXPECT_EQ(bytes, 4 * sizeof(float));

  auto stream = device->make_stream();
  ASSERT_TRUE(stream);
  buffers->upload_window(**stream, 10);
  const auto there = [&](std::vector<float>& values, std::size_t sample, std::size_t each) {
    return kernels::MatrixView{reinterpret_cast<float*>(buffers->to_device(values.data() + sample % 8 * each)), 1, each,
                               each};
  };
  (*stream)->fill({5.0f, there(losses, 9, 1)});
  targets[3 * 6] = 7.0f;  // the host's own from here on
  ASSERT_TRUE(buffers->download_window(**stream, 10));
  EXPECT_EQ(losses[1], 5.0f);
  EXPECT_EQ(losses[0], 2.0f);
  EXPECT_EQ(targets[3 * 6], 7.0f);
}

}  // namespace
}  // namespace weft::mesh::device_buffers_test
