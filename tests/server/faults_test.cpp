// SPDX-License-Identifier: Apache-2.0
// A mesh that halts, a device that is lost while it is served: told in statistics and metrics, and others go on.
// A full disk: tests/cli/serve_test.py.

#include "mesh/mesh.hpp"
#include "mesh/network/network_json.hpp"

#include "gpu/device.hpp"
#include "gpu/fault_injection.hpp"

#include <gtest/gtest.h>

#include "tests/server/serving.hpp"
#include <chrono>
#include <thread>

namespace weft::faults_test {
namespace {

using namespace weft::testing;

const std::string kMesh = "/api/v1/meshes/a";

/// Metrics, once they have the line; at the end of the time, as they are.
std::string metrics_with(const Serving& serving, const std::string& line) {
  for (int i = 0; i < 500; ++i) {
    const std::string text = serving.ask("GET", "/metrics").body;
    if (text.find(line + "\n") != std::string::npos) return line;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return serving.ask("GET", "/metrics").body;
}

/// One linear layer whose sums overflow where the inputs are large; the first fault halts the mesh.
constexpr const char* kHalting =
    R"({"name":"a","network":{"weft":2,"name":"halting","grid":{"z":1,"y":1,"x":1,"layers":1},"inputs":{"x":[64]},)"
    R"("layers":[{"at":[0,0,0,0],"type":"dense","out":8,"from":["x"]}],"outputs":{"y":[0,0,0,0]},)"
    R"("supervision":{"policy":"halt"}}})";

std::string ticking(const std::string& value) {
  std::string body = R"({"inputs":{"x":[)";
  for (int i = 0; i < 64; ++i) body += (i ? "," : "") + value;
  return body + "]}}";
}

TEST(ServedFaults, AHaltedMeshIsToldAndOthersGoOn) {
  Serving serving;
  ASSERT_EQ(serving.ask("POST", "/api/v1/meshes", kHalting).status, 201);
  serving.make("b", false);
  const Json before = serving.ask("POST", "/api/v1/meshes/b/tick", R"({"n":0})").json()["outputs"];
  ASSERT_EQ(serving.ask("POST", kMesh + "/tick", ticking("1")).status, 200);
  const Reply halted = serving.ask("POST", kMesh + "/tick", ticking("3e38"));
  EXPECT_EQ(halted.status, 503) << halted.body;
  EXPECT_EQ(halted.json()["error"]["code"].text(), "halted");
  EXPECT_EQ(metrics_with(serving, "weft_mesh_halted{mesh=\"a\"} 1"), "weft_mesh_halted{mesh=\"a\"} 1");
  EXPECT_EQ(metrics_with(serving, "weft_mesh_halted{mesh=\"b\"} 0"), "weft_mesh_halted{mesh=\"b\"} 0");
  const Json told = serving.ask("GET", kMesh).json();
  EXPECT_EQ(told["phase"].text(), "halted");
  EXPECT_NE(told["halted"].text().find("output_not_finite"), std::string::npos) << told["halted"].text();
  EXPECT_EQ(serving.ask("POST", kMesh + "/tick", ticking("1")).status, 503) << "until it is told to go on";
  EXPECT_EQ(serving.ask("POST", "/api/v1/meshes/b/tick", R"({"n":0})").json()["outputs"], before);
  EXPECT_EQ(serving.ask("GET", "/health").status, 200);
  EXPECT_EQ(serving.ask("POST", kMesh + "/resume").status, 200);
  EXPECT_EQ(serving.ask("POST", kMesh + "/tick", ticking("1")).status, 200);
  EXPECT_EQ(metrics_with(serving, "weft_mesh_halted{mesh=\"a\"} 0"), "weft_mesh_halted{mesh=\"a\"} 0");
}

TEST(ServedFaults, ALostDeviceIsToldAndCostsNoBit) {
  gpu::DeviceOptions device;
  device.faults = std::make_shared<gpu::FaultInjection>();
  const auto shared = gpu::Device::share("vulkan", device);  // that meshes get, with its faults
  if (!shared) GTEST_SKIP() << "no Vulkan device: " << shared.error().text();
  server::Service::Options options;
  options.meshes.mesh.device = "vulkan";
  Serving serving(std::move(options));
  serving.make("a", false);
  serving.make("b", false);
  mesh::MeshOptions on_cpu;
  on_cpu.threads = 1;
  auto alone = mesh::Mesh::build(small_network(false), on_cpu).value();
  ASSERT_TRUE(alone.set_input("x", std::vector<float>{1, 2, 3, 0.1f}));
  const auto tick = [&](const std::string& name, int n) {
    return serving.ask("POST", "/api/v1/meshes/" + name + "/tick",
                       R"({"n":)" + std::to_string(n) + R"(,"inputs":{"x":[1,2,3,0.1]}})");
  };
  const auto expect_same = [&](const Reply& reply) {
    ASSERT_EQ(reply.status, 200) << reply.body;
    const auto output = alone.output("y").value();
    const Json told = reply.json()["outputs"]["y"];
    for (std::size_t i = 0; i < output.size(); ++i) EXPECT_EQ(static_cast<float>(told[i].get<double>()), output[i]);
  };
  ASSERT_TRUE(alone.tick(3));
  expect_same(tick("a", 3));
  expect_same(tick("b", 3));
  EXPECT_EQ(metrics_with(serving, "weft_device_in_use{mesh=\"a\"} 1"), "weft_device_in_use{mesh=\"a\"} 1");
  device.faults->fail(gpu::DriverFault::lost_at_submit, 0);
  ASSERT_TRUE(alone.tick(5));
  expect_same(tick("a", 5));
  expect_same(tick("b", 5));
  EXPECT_EQ(metrics_with(serving, "weft_device_faults_total{mesh=\"a\"} 1"), "weft_device_faults_total{mesh=\"a\"} 1");
  EXPECT_EQ(serving.ask("GET", kMesh + "/hash").json()["hash"].text(), to_string(alone.state_hash()));
  const Json told = serving.ask("GET", kMesh).json()["device"];
  EXPECT_EQ(told["faults"].get<int>(), 1);
  EXPECT_FALSE(told["last_fault"].text().empty());
  EXPECT_EQ(serving.ask("GET", "/health").status, 200);
  device.faults->clear();
}

}  // namespace
}  // namespace weft::faults_test
