// SPDX-License-Identifier: Apache-2.0
// Repeated layers and relative sources of network files, against places counted by hand.

#include "mesh/network/graph.hpp"
#include "mesh/network/network_json.hpp"

#include <gtest/gtest.h>

#include <set>

namespace weft::mesh::network_repeat_test {
namespace {

Result<NetworkSpec> read(const std::string& grid, const std::string& layers) {
  return read_network(R"({"weft": 2, "grid": )" + grid + R"(, "inputs": {"in": [1]}, "layers": [)" + layers + "]}",
                      "test");
}

std::vector<std::string> sources(const NetworkSpec& spec, Coord at) {
  std::vector<std::string> out;
  for (const LayerSpec& layer : spec.layers)
    if (layer.at == at)
      for (const Source& source : layer.from) out.push_back(to_string(source));
  return out;
}

using Names = std::vector<std::string>;

TEST(Repeat, PutsALayerAtEveryPlaceInIndexOrder) {
  const auto spec = read(R"({"y": 3, "x": 4, "layers": 2})",
                         R"({"repeat": {"y": [1, 3], "x": [0, 4, 3], "layer": 1}, "type": "dense", "out": 5})");
  ASSERT_TRUE(spec) << spec.error().text();
  ASSERT_EQ(spec->layers.size(), 4u);
  EXPECT_EQ(spec->layers[0].at, (Coord{0, 1, 0, 1}));
  EXPECT_EQ(spec->layers[1].at, (Coord{0, 1, 3, 1}));
  EXPECT_EQ(spec->layers[2].at, (Coord{0, 2, 0, 1}));
  EXPECT_EQ(spec->layers[3].at, (Coord{0, 2, 3, 1}));
  for (const LayerSpec& layer : spec->layers) EXPECT_EQ(layer.out, 5u);
}

TEST(Repeat, OfAnAxisLeftAwayIsAllOfIt) {
  const auto spec = read(R"({"z": 2, "y": 3, "x": 4})", R"({"repeat": {}, "type": "dense", "out": 1})");
  ASSERT_TRUE(spec) << spec.error().text();
  std::set<Coord> places;
  for (const LayerSpec& layer : spec->layers) places.insert(layer.at);
  EXPECT_EQ(places.size(), 24u);
}

TEST(Repeat, EqualsTheSameNetworkWrittenOut) {
  const auto repeated =
      read(R"({"x": 3})", R"({"repeat": {"x": 0}, "type": "dense", "out": 2, "from": ["in", {"offset": [0, 0, 2, 0]}]},
                            {"repeat": {"x": [1, 3]}, "type": "dense", "out": 2, "activation": "tanh"})");
  const auto plain = read(R"({"x": 3})", R"({"at": [0,0,0,0], "type": "dense", "out": 2, "from": ["in", [0,0,2,0]]},
                                            {"at": [0,0,1,0], "type": "dense", "out": 2, "activation": "tanh"},
                                            {"at": [0,0,2,0], "type": "dense", "out": 2, "activation": "tanh"})");
  ASSERT_TRUE(repeated && plain);
  EXPECT_EQ(write_network(*repeated).value(), write_network(*plain).value());
}

TEST(RelativeSources, OutsideTheGridAreDroppedOrWrapped) {
  const auto spec = read(R"({"y": 2, "x": 3})",
                         R"({"repeat": {"y": 0}, "type": "dense", "out": 1, "from": ["in", {"offset": [0, 0, -1, 0]}]},
                            {"repeat": {"y": 1}, "type": "dense", "out": 1, "from": [{"offset": [0, 0, -1, 0], "edge": "wrap"}]})");
  ASSERT_TRUE(spec) << spec.error().text();
  EXPECT_EQ(sources(*spec, {0, 0, 0, 0}), (Names{"\"in\""}));
  EXPECT_EQ(sources(*spec, {0, 0, 2, 0}), (Names{"\"in\"", "[0,0,1,0]"}));
  EXPECT_EQ(sources(*spec, {0, 1, 0, 0}), (Names{"[0,1,2,0]"}));
}

TEST(RelativeSources, OfAStencilComeInTheOrderOfOffsets) {
  const auto spec =
      read(R"({"y": 3, "x": 3})", R"({"repeat": {}, "type": "dense", "out": 1, "from": [{"stencil": "von_neumann"}]})");
  ASSERT_TRUE(spec) << spec.error().text();
  EXPECT_EQ(sources(*spec, {0, 1, 1, 0}), (Names{"[0,0,1,0]", "[0,1,0,0]", "[0,1,2,0]", "[0,2,1,0]"}));
  EXPECT_EQ(sources(*spec, {0, 0, 0, 0}), (Names{"[0,0,1,0]", "[0,1,0,0]"}));
  const auto wrapped = read(
      R"({"y": 3, "x": 3})",
      R"({"repeat": {}, "type": "dense", "out": 1, "from": [{"stencil": "von_neumann", "edge": "wrap", "centre": true}]})");
  ASSERT_TRUE(wrapped) << wrapped.error().text();
  EXPECT_EQ(sources(*wrapped, {0, 0, 0, 0}), (Names{"[0,2,0,0]", "[0,0,2,0]", "[0,0,0,0]", "[0,0,1,0]", "[0,1,0,0]"}));
}

TEST(RelativeSources, OfAStencilAreThoseOfTheKeyNeighbours) {
  for (const std::string shape : {"von_neumann", "moore"}) {
    const auto given = read(R"({"z": 2, "y": 3, "x": 3})",
                            R"({"repeat": {}, "type": "dense", "out": 1, "from": [{"stencil": ")" + shape + R"("}]})");
    const auto key = read(R"({"z": 2, "y": 3, "x": 3})",
                          R"({"repeat": {}, "type": "dense", "out": 1, "neighbours": ")" + shape + R"("})");
    ASSERT_TRUE(given && key);
    const auto one = Graph::build(*given), other = Graph::build(*key);
    ASSERT_TRUE(one && other) << one.error().text();
    ASSERT_EQ(one->edges().size(), other->edges().size());
    for (std::size_t i = 0; i < one->edges().size(); ++i)
      EXPECT_EQ(std::pair(one->edges()[i].from, one->edges()[i].to),
                std::pair(other->edges()[i].from, other->edges()[i].to));
  }
}

TEST(RelativeSources, WithARadiusAreCounted) {
  const auto count = [](const std::string& source) {
    const auto spec =
        read(R"({"y": 9, "x": 9})", R"({"repeat": {}, "type": "dense", "out": 1, "from": [)" + source + "]}");
    EXPECT_TRUE(spec) << spec.error().text();
    return sources(*spec, {0, 4, 4, 0}).size();
  };
  // 2 r (r + 1) cells of a diamond, (2 r + 1)^2 - 1 of a square.
  EXPECT_EQ(count(R"({"stencil": "von_neumann", "radius": 2})"), 12u);
  EXPECT_EQ(count(R"({"stencil": "von_neumann", "radius": 3, "edge": "wrap"})"), 24u);
  EXPECT_EQ(count(R"({"stencil": "moore", "radius": 3})"), 48u);
  EXPECT_EQ(count(R"({"stencil": "moore", "radius": 8, "edge": "wrap", "centre": true})"), 81u);  // all, each once
}

TEST(RelativeSources, MayNameAnotherLevelAndSkipHoles) {
  const auto spec = read(R"({"x": 4, "layers": 2})",
                         R"({"repeat": {"x": [0, 4, 2], "layer": 0}, "type": "dense", "out": 1, "from": ["in"]},
                            {"repeat": {"layer": 1}, "type": "dense", "out": 1, "from":
                             [{"stencil": "moore", "centre": true, "offset": [0, 0, 0, -1]}]})");
  ASSERT_TRUE(spec) << spec.error().text();
  EXPECT_EQ(sources(*spec, {0, 0, 1, 1}), (Names{"[0,0,0,0]", "[0,0,2,0]"}));
  EXPECT_EQ(sources(*spec, {0, 0, 2, 1}), (Names{"[0,0,2,0]"}));
}

TEST(RelativeSources, ThatAllFallAwayAreRefused) {
  const auto spec =
      read(R"({"x": 2})", R"({"repeat": {}, "type": "dense", "out": 1, "from": [{"offset": [0, 0, -1, 0]}]})");
  ASSERT_FALSE(spec);
  EXPECT_EQ(spec.error().code(), Errc::shape_mismatch);
  EXPECT_NE(spec.error().text().find("layers[0].from (at [0,0,0,0])"), std::string::npos) << spec.error().text();
}

TEST(Repeat, RefusesWhatIsNoRange) {
  for (const std::string axis : {"[0, 5]", "[1, 1]", "[2, 1]", "[0]", "[0, 1, 0]", "[0, 1, 1, 1]", "4", "-1", "1.5",
                                 "\"all\"", "{}", "null", "[-1, 2]", "[0, 4294967296]"}) {
    const auto spec = read(R"({"x": 4})", R"({"repeat": {"x": )" + axis + R"(}, "type": "dense", "out": 1})");
    ASSERT_FALSE(spec) << axis;
    EXPECT_NE(spec.error().text().find("layers[0].repeat.x"), std::string::npos) << spec.error().text();
  }
  for (const std::string entry :
       {R"({"repeat": {"w": 1}, "type": "dense", "out": 1})",
        R"({"repeat": {}, "at": [0,0,0,0], "type": "dense", "out": 1})", R"({"type": "dense", "out": 1})",
        R"({"repeat": [], "type": "dense", "out": 1})",
        R"({"repeat": {}, "type": "sequential", "layers": [{"repeat": {}, "type": "identity"}]})",
        R"({"repeat": {}, "type": "dense", "out": 1, "from": [{}]})",
        R"({"repeat": {}, "type": "dense", "out": 1, "from": [{"offset": [0, 0, 1.5, 0]}]})",
        R"({"repeat": {}, "type": "dense", "out": 1, "from": [{"offset": [0, 0, 1, 0], "radius": 2}]})",
        R"({"repeat": {}, "type": "dense", "out": 1, "from": [{"stencil": "moore", "radius": 9}]})",
        R"({"repeat": {}, "type": "dense", "out": 1, "from": [{"stencil": "none"}]})"})
    EXPECT_FALSE(read(R"({"x": 4})", entry)) << entry;
}

// The layers alone would take over 100 GiB, so they cannot have been made before.
TEST(Repeat, OfMoreThanMemoryOrTheFormatHoldsIsRefused) {
  const auto spec = read(R"({"y": 40000, "x": 40000})", R"({"repeat": {}, "type": "dense", "out": 1})");
  ASSERT_FALSE(spec);
  EXPECT_EQ(spec.error().code(), Errc::too_large);
  EXPECT_NE(spec.error().text().find("1600000000 layers, at most 16777216"), std::string::npos) << spec.error().text();
}

}  // namespace
}  // namespace weft::mesh::network_repeat_test
