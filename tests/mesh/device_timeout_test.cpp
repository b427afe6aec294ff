// SPDX-License-Identifier: Apache-2.0
// Timeout of a mesh for its device. A separate program: meshes that share a device take the first one's timeout.
// Skipped where no Vulkan device opens; WEFT_TEST_DEVICE names one.

#include "mesh/device/device_statistics.hpp"
#include "mesh/mesh.hpp"

#include "on_device.hpp"
#include "testing.hpp"
#include <memory>
#include <string>
#include <vector>

namespace weft::mesh::device_timeout_test {
namespace {

NetworkSpec network() { return NetworkBuilder("patient", {1, 1, 1, 1}).input("in", 4).dense({0, 0, 0, 0}, 4).spec(); }

TEST(DevicePatience, IsTheDevices) {
  MeshOptions options{.device = testing_support::device_name(), .device_timeout = std::chrono::milliseconds(1234567)};
  options.validates_device = testing_support::device_options().validate;
  Mesh mesh = testing_support::must(Mesh::build(network(), options));
  if (!mesh.device_statistics()->why_host.empty())
    static_cast<void>(testing_support::open_device({}));  // and tells why
  EXPECT_EQ(mesh.device_statistics()->why_host, "");
  // The mesh holds it, so this is the same one.
  // Never closed, as in need_device.
  static auto* const held =
      new std::shared_ptr<gpu::Device>(testing_support::must(gpu::Device::share(testing_support::device_name())));
  const gpu::Device& device = **held;
  EXPECT_EQ(device.options().timeout, std::chrono::milliseconds(1234567));
  EXPECT_EQ(device.options().validate, options.validates_device);
  testing_support::must(mesh.tick(3));
  EXPECT_EQ(mesh.device_statistics()->device_steps, 3u);
  EXPECT_EQ(device.validation_errors(), std::vector<std::string>());
}

}  // namespace
}  // namespace weft::mesh::device_timeout_test
