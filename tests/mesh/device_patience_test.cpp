// SPDX-License-Identifier: Apache-2.0
// How long a mesh waits for its device. A program of its own: meshes that share a device take the first one's answer.
// Skipped where no Vulkan device opens; WEFT_TEST_DEVICE names one.

#include "mesh/mesh.hpp"

#include "on_device.hpp"
#include "testing.hpp"

namespace weft::mesh {
namespace {

NetworkSpec network() { return NetworkBuilder("patient", {1, 1, 1, 1}).input("in", 4).dense({0, 0, 0, 0}, 4).spec(); }

TEST(DevicePatience, IsTheDevices) {
  MeshOptions options{.device = testing_support::device_name(), .device_patience = std::chrono::milliseconds(1234567)};
  Mesh mesh = testing_support::must(Mesh::build(network(), options));
  if (!mesh.device_figures()->why_host.empty()) static_cast<void>(testing_support::open_device({}));  // and tells why
  EXPECT_EQ(mesh.device_figures()->why_host, "");
  // The mesh holds it, so this is the same one.
  const auto device = testing_support::must(gpu::Device::share(testing_support::device_name()));
  EXPECT_EQ(device->options().patience, std::chrono::milliseconds(1234567));
}

}  // namespace
}  // namespace weft::mesh
