// SPDX-License-Identifier: Apache-2.0
// Cells that stay on the host beside a device, and the keys that say so. Execution is tested in device_executor_test.

#include "mesh/device/device_assignment.hpp"

#include "mesh/device/device_statistics.hpp"
#include "mesh/mesh.hpp"
#include "mesh/network/network_digest.hpp"
#include "mesh/network/network_json.hpp"

#include "testing.hpp"
#include <numeric>
#include <string>

namespace weft::mesh::device_assignment_test {
namespace {

using namespace testing_support;

/// Every other cell stays on the host, as squares of one colour of a board do.
NetworkSpec checkered(std::uint32_t colour) {
  NetworkSpec spec = mixed_network().spec();
  for (LayerSpec& layer : spec.layers)
    if ((layer.at.z + layer.at.y + layer.at.x) % 2 == colour) layer.device = Placement::cpu;
  return spec;
}

TEST(Placement, IsReadWrittenAndNoPartOfWhatANetworkIs) {
  const NetworkSpec placed = checkered(1);
  const NetworkSpec again = must(read_network(must(write_network(placed)), "placed"));
  ASSERT_EQ(again.layers.size(), placed.layers.size());
  for (std::size_t i = 0; i < placed.layers.size(); ++i) EXPECT_EQ(again.layers[i].device, placed.layers[i].device);
  EXPECT_EQ(network_digest(must(Graph::build(placed))), network_digest(must(Graph::build(mixed_network().spec()))));
  // Without a device it says nothing.
  EXPECT_EQ(must(Mesh::build(placed)).device_statistics(), nullptr);
}

TEST(Placement, IsOneOfTwoAndTheSameForACell) {
  std::string text = must(write_network(checkered(0), -1));
  const std::string said = "\"device\":\"cpu\"";
  text.replace(text.find(said), said.size(), "\"device\":\"gpu\"");
  expect_error(read_network(text, "placed"), Errc::unknown_name, {"layers[0].device", "gpu", "cpu", "vulkan"});
  NetworkSpec spec = mixed_network().spec();
  spec.layers[0].device = Placement::vulkan;
  spec.layers[1].device = Placement::cpu;
  expect_error(Graph::build(spec), Errc::duplicate_name,
               {"layers[1].device", "cpu", "vulkan", "a cell has one device"});
  spec.layers[1].device.reset();
  EXPECT_TRUE(Graph::build(spec).has_value());
}

TEST(Placement, KeepsWatchersAndThoseWhoseGradientsTheyMeasure) {
  const auto watched = [](const char* look) {
    return must(Graph::build(NetworkBuilder("watched", {1, 2, 2, 1})
                                 .input("x", 6)
                                 .dense({0, 0, 0, 0}, 10)
                                 .dense({0, 0, 1, 0}, 3)
                                 .layer({0, 1, 0, 0}, "metacognition")
                                 .from({Coord{0, 0, 0, 0}})
                                 .option("statistic", std::string(look))
                                 .option("above", 8.0)
                                 .output("y", {0, 0, 1, 0})
                                 .spec()));
  };
  const HostPlaces by_size = host_places(watched("rms")), by_gradient = host_places(watched("gradient_storm"));
  EXPECT_EQ(by_size.why, "(0,1,0): metacognition decides there");
  EXPECT_EQ(std::accumulate(by_size.is_host.begin(), by_size.is_host.end(), 0), 1);
  EXPECT_FALSE(by_size.is_asked);
  EXPECT_EQ(by_gradient.why, "(0,1,0): metacognition decides there; (0,0,0): metacognition measures their gradients");
  EXPECT_EQ(std::accumulate(by_gradient.is_host.begin(), by_gradient.is_host.end(), 0), 3) << "with the port";
  EXPECT_TRUE(host_places(must(Graph::build(checkered(0)))).is_asked);
}

}  // namespace
}  // namespace weft::mesh::device_assignment_test
