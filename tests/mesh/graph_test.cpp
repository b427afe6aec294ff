// SPDX-License-Identifier: Apache-2.0

#include "mesh/network/graph.hpp"

#include "testing.hpp"
#include <algorithm>
#include <cstdlib>

namespace weft::mesh::graph_test {
namespace {

using namespace testing_support;

NetworkBuilder pair() { return NetworkBuilder("pair", {1, 1, 2, 1}).input("in", 4); }

std::vector<Coord> sources_of(const Graph& graph, Coord at) {
  std::vector<Coord> sources;
  for (const std::uint32_t e : graph.nodes()[*graph.find_layer(at)].sources)
    sources.push_back(graph.nodes()[graph.edges()[e].from].at);
  return sources;
}

TEST(Graph, CountsPortsByNameFirstAndThenLayersInGridOrder) {
  const Graph graph = must(Graph::build(NetworkBuilder("order", {2, 1, 2, 2})
                                            .input("right", 3)
                                            .input("left", 2)
                                            .dense({1, 0, 0, 0}, 5)
                                            .dense({0, 0, 0, 1}, 6)
                                            .dense({0, 0, 1, 0}, 7)
                                            .dense({0, 0, 0, 0}, 8)
                                            .from({"right"})
                                            .spec()));
  ASSERT_EQ(graph.nodes().size(), 6u);
  EXPECT_EQ(graph.port_count(), 2u);
  EXPECT_EQ(graph.nodes()[0].port, "left");
  EXPECT_EQ(graph.nodes()[1].port, "right");
  const std::vector<Coord> places{{0, 0, 0, 0}, {0, 0, 0, 1}, {0, 0, 1, 0}, {1, 0, 0, 0}};
  for (NodeId id = 2; id < 6; ++id) {
    EXPECT_EQ(graph.nodes()[id].at, places[id - 2]);
    EXPECT_EQ(graph.find_layer(places[id - 2]), id);
  }
  EXPECT_EQ(graph.nodes()[2].cell, graph.nodes()[3].cell);
  EXPECT_NE(graph.nodes()[3].cell, graph.nodes()[4].cell);
  EXPECT_EQ(graph.find_layer({1, 0, 1, 0}), std::nullopt);
  EXPECT_EQ(graph.find_layer({9, 9, 9, 9}), std::nullopt);
  EXPECT_EQ(graph.find_port("left"), NodeId{0});
  EXPECT_EQ(graph.find_port("up"), std::nullopt);
  // Messages name a layer by its position in the description, which is not its index.
  EXPECT_EQ(graph.nodes()[2].object, "layers[3] [0,0,0,0]");
}

TEST(Graph, CountsOutputsByName) {
  const Graph graph = must(Graph::build(pair()
                                            .dense({0, 0, 0, 0}, 5)
                                            .dense({0, 0, 1, 0}, 6)
                                            .output("y", {0, 0, 0, 0})
                                            .output("beside", {0, 0, 1, 0})
                                            .spec()));
  ASSERT_EQ(graph.spec().outputs.size(), 2u);
  EXPECT_EQ(graph.spec().outputs[0].name, "beside");
  EXPECT_EQ(graph.spec().outputs[1].name, "y");
  EXPECT_EQ(graph.outputs(), (std::vector<NodeId>{2, 1}));
}

TEST(Graph, LetsALayerReadThePlaceBeforeItInIndexOrderAndTheFirstOneTheOnlyPort) {
  const Graph graph = must(Graph::build(NetworkBuilder("defaults", {1, 2, 2, 2})
                                            .input("in", 3)
                                            .dense({0, 1, 1, 0}, 7)
                                            .dense({0, 0, 0, 0}, 4)
                                            .dense({0, 0, 0, 1}, 5)
                                            .spec()));
  const auto in_of = [&](Coord at) { return graph.nodes()[*graph.find_layer(at)].in; };
  EXPECT_EQ(in_of({0, 0, 0, 0}), 3u);
  EXPECT_EQ(in_of({0, 0, 0, 1}), 4u);
  EXPECT_EQ(in_of({0, 1, 1, 0}), 5u);  // empty places in between are passed over
  EXPECT_EQ(sources_of(graph, {0, 1, 1, 0}), (std::vector<Coord>{{0, 0, 0, 1}}));
  EXPECT_TRUE(graph.nodes()[0].is_port());
}

TEST(Graph, JoinsSourcesInTheirOrderAndSaysWhereEachBegins) {
  const Graph graph = must(Graph::build(NetworkBuilder("joined", {1, 1, 3, 1})
                                            .input("a", 3)
                                            .input("b", 5)
                                            .dense({0, 0, 0, 0}, 7)
                                            .from({"b"})
                                            .dense({0, 0, 1, 0}, 2)
                                            .from({Coord{0, 0, 0, 0}, "b", "a", "b"})
                                            .dense({0, 0, 2, 0}, 2)
                                            .from({"a", "a"}, Combine::max)
                                            .spec()));
  const Node& joined = graph.nodes()[*graph.find_layer({0, 0, 1, 0})];
  EXPECT_EQ(joined.in, 7u + 5u + 3u + 5u);
  const std::size_t offsets[] = {0, 7, 12, 15}, widths[] = {7, 5, 3, 5};
  ASSERT_EQ(joined.sources.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(graph.edges()[joined.sources[i]].offset, offsets[i]);
    EXPECT_EQ(graph.edges()[joined.sources[i]].width, widths[i]);
    EXPECT_EQ(graph.edges()[joined.sources[i]].position, i);
  }
  EXPECT_EQ(graph.nodes()[*graph.find_layer({0, 0, 2, 0})].in, 3u);
}

TEST(Graph, FindsLoopsAndTheLinksThatCloseThem) {
  // in -> A -> B -> out, B -> C -> A: C closes the loop. D reads a later place without any loop.
  const Graph graph = must(Graph::build(NetworkBuilder("loop", {1, 1, 6, 1})
                                            .input("in", 3)
                                            .dense({0, 0, 0, 0}, 3)  // A
                                            .from({"in", Coord{0, 0, 3, 0}})
                                            .dense({0, 0, 1, 0}, 3)  // B
                                            .dense({0, 0, 2, 0}, 3)  // D
                                            .from({Coord{0, 0, 4, 0}})
                                            .dense({0, 0, 3, 0}, 3)  // C
                                            .from({Coord{0, 0, 1, 0}})
                                            .dense({0, 0, 4, 0}, 3)
                                            .from({Coord{0, 0, 1, 0}})
                                            .dense({0, 0, 5, 0}, 3)
                                            .from({"in", Coord{0, 0, 5, 0}})  // reads itself
                                            .spec()));
  std::vector<std::pair<Coord, Coord>> feedback;
  for (const Edge& edge : graph.edges())
    if (edge.is_feedback) feedback.emplace_back(graph.nodes()[edge.from].at, graph.nodes()[edge.to].at);
  const std::vector<std::pair<Coord, Coord>> expected{{{0, 0, 3, 0}, {0, 0, 0, 0}}, {{0, 0, 5, 0}, {0, 0, 5, 0}}};
  EXPECT_EQ(feedback, expected);
  std::vector<std::vector<Coord>> loops;
  for (const auto& loop : graph.loops()) {
    loops.emplace_back();
    for (const NodeId id : loop) loops.back().push_back(graph.nodes()[id].at);
  }
  EXPECT_EQ(loops, (std::vector<std::vector<Coord>>{{{0, 0, 0, 0}, {0, 0, 1, 0}, {0, 0, 3, 0}}, {{0, 0, 5, 0}}}));
  EXPECT_FALSE(graph.is_in_loop(*graph.find_layer({0, 0, 2, 0})));
  EXPECT_FALSE(graph.is_in_loop(0));

  // Every other link goes forward in order().
  std::vector<std::size_t> place(graph.nodes().size());
  for (std::size_t i = 0; i < graph.order().size(); ++i) place[graph.order()[i]] = i;
  for (const Edge& edge : graph.edges()) EXPECT_TRUE(edge.is_feedback || place[edge.from] < place[edge.to]);
}

TEST(Graph, CountsTheLinksOfTheShortestPathAndSettlesAfterTheLongest) {
  // in -> A -> B -> C -> Y and in -> Y; other -> Z alone.
  const Graph graph = must(Graph::build(NetworkBuilder("skip", {1, 1, 5, 1})
                                            .input("in", 3)
                                            .input("other", 3)
                                            .dense({0, 0, 0, 0}, 3)
                                            .from({"in"})
                                            .dense({0, 0, 1, 0}, 3)
                                            .dense({0, 0, 2, 0}, 3)
                                            .dense({0, 0, 3, 0}, 3)
                                            .from({Coord{0, 0, 2, 0}, "in"})
                                            .dense({0, 0, 4, 0}, 3)
                                            .from({"other", Coord{0, 0, 4, 0}})
                                            .output("y", {0, 0, 3, 0})
                                            .output("z", {0, 0, 4, 0})
                                            .spec()));
  const NodeId in = *graph.find_port("in"), other = *graph.find_port("other");
  EXPECT_EQ(graph.latency(in, *graph.find_output("y")), 1u);
  EXPECT_EQ(graph.latency(in, *graph.find_layer({0, 0, 2, 0})), 3u);
  EXPECT_EQ(graph.latency(other, *graph.find_output("z")), 1u);
  EXPECT_EQ(graph.latency(other, *graph.find_output("y")), std::nullopt);
  EXPECT_EQ(graph.settle_ticks(), 4u);
  EXPECT_EQ(graph.outputs(), (std::vector<NodeId>{*graph.find_layer({0, 0, 3, 0}), *graph.find_layer({0, 0, 4, 0})}));
  EXPECT_EQ(graph.find_output("w"), std::nullopt);
}

TEST(Graph, LeavesFeedbackAsideWhenItCountsTicksToSettle) {
  const Graph graph = must(Graph::build(NetworkBuilder("digits", {1, 2, 2, 1})
                                            .input("pixels", 64)
                                            .dense({0, 0, 0, 0}, 64)
                                            .from({"pixels", Coord{0, 1, 1, 0}})
                                            .dense({0, 0, 1, 0}, 64)
                                            .dense({0, 1, 0, 0}, 10)
                                            .dense({0, 1, 1, 0}, 16)
                                            .from({Coord{0, 0, 1, 0}})
                                            .output("digit", {0, 1, 0, 0})
                                            .spec()));
  EXPECT_EQ(graph.settle_ticks(), 3u);
  EXPECT_EQ(graph.latency(0, *graph.find_output("digit")), 3u);
}

class Stencil : public testing::TestWithParam<Neighbourhood> {};

TEST_P(Stencil, ReadsWhatStandsAroundInIndexOrderAlsoAtTheBorders) {
  // All 27 cells at level 0, save two empty places; level 1 only in the centre's x neighbours.
  const GridShape grid{3, 3, 3, 2};
  const std::vector<Coord> empty{{0, 0, 1, 0}, {1, 2, 1, 0}};
  NetworkBuilder builder("stencil", grid);
  builder.input("in", 2);
  std::vector<Coord> places;
  for (std::size_t i = 0; i < grid.size(); ++i) {
    const Coord at = grid.coord(i);
    if (at.l == 1 && !(at.z == 1 && at.y == 1)) continue;
    if (std::find(empty.begin(), empty.end(), at) != empty.end()) continue;
    places.push_back(at);
    builder.dense(at, 2).from({"in"}).neighbours(GetParam());
  }
  const Graph graph = must(Graph::build(builder.spec()));
  for (const Coord at : places) {
    std::vector<Coord> expected{{}};  // the port of `from` comes first
    for (const Coord other : places) {
      const auto gap = [](std::uint32_t a, std::uint32_t b) {
        return std::abs(static_cast<int>(a) - static_cast<int>(b));
      };
      const int dz = gap(at.z, other.z), dy = gap(at.y, other.y), dx = gap(at.x, other.x);
      if (at.l != other.l || dz + dy + dx == 0) continue;
      const bool near = GetParam() == Neighbourhood::moore ? std::max({dz, dy, dx}) == 1 : dz + dy + dx == 1;
      if (near) expected.push_back(other);
    }
    EXPECT_EQ(sources_of(graph, at), expected) << to_string(at);
  }
  const auto count = [&](Coord at) { return sources_of(graph, at).size() - 1; };
  const bool moore = GetParam() == Neighbourhood::moore;
  EXPECT_EQ(count({1, 1, 1, 0}), moore ? 24u : 5u);  // 26 and 6 without the empty ones
  EXPECT_EQ(count({2, 2, 2, 0}), moore ? 6u : 3u);   // 7 and 3
  EXPECT_EQ(count({1, 1, 0, 1}), 1u);
}

INSTANTIATE_TEST_SUITE_P(All, Stencil, testing::Values(Neighbourhood::von_neumann, Neighbourhood::moore),
                         [](const auto& tested) { return std::string(name(tested.param)); });

TEST(Graph, BuildsAChainOfAHundredThousandLayersWithoutDeepRecursion) {
  constexpr std::uint32_t kLength = 100000;
  NetworkBuilder builder("chain", {1, 1, kLength, 1});
  builder.input("in", 2);
  for (std::uint32_t x = 0; x < kLength; ++x) builder.layer({0, 0, x, 0}, "identity");
  const Graph graph = must(Graph::build(builder.spec()));
  EXPECT_EQ(graph.settle_ticks(), kLength);
  EXPECT_EQ(graph.latency(0, *graph.find_layer({0, 0, kLength - 1, 0})), kLength);
  EXPECT_TRUE(graph.loops().empty());
  EXPECT_EQ(graph.nodes().back().width, 2u);
}

TEST(Graph, BuildsARingOfAHundredThousandLayers) {
  constexpr std::uint32_t kLength = 100000;
  NetworkBuilder builder("ring", {1, 1, kLength, 1});
  builder.input("in", 2).dense({0, 0, 0, 0}, 3).from({"in", Coord{0, 0, kLength - 1, 0}});
  for (std::uint32_t x = 1; x < kLength; ++x) builder.layer({0, 0, x, 0}, "identity");
  const Graph graph = must(Graph::build(builder.spec()));
  ASSERT_EQ(graph.loops().size(), 1u);
  EXPECT_EQ(graph.loops()[0].size(), kLength);
  EXPECT_EQ(graph.nodes()[1].in, 5u);
  EXPECT_EQ(graph.nodes().back().width, 3u);
}

TEST(Graph, InfersWidthsAgainstIndexOrderRoundALoopInOnePass) {
  // Each layer reads the next one, the last states its width and reads the first: widths travel backwards.
  constexpr std::uint32_t kLength = 100000;
  NetworkBuilder builder("backwards", {1, 1, kLength, 1});
  for (std::uint32_t x = 0; x + 1 < kLength; ++x) builder.layer({0, 0, x, 0}, "identity").from({Coord{0, 0, x + 1, 0}});
  builder.dense({0, 0, kLength - 1, 0}, 3).from({Coord{0, 0, 0, 0}});
  const Graph graph = must(Graph::build(builder.spec()));
  EXPECT_EQ(graph.nodes().front().width, 3u);
  EXPECT_EQ(graph.nodes().front().in, 3u);
}

NetworkSpec grid_of(GridShape grid) {
  return NetworkBuilder("grid", grid).input("in", 4).dense({0, 0, 0, 0}, 2).spec();
}

void refuse(const NetworkSpec& spec, Errc code, std::string_view fragments) {
  expect_refused(Graph::build(spec), code, fragments);
}

TEST(Graph, RefusesWithThePlaceBothValuesAndWhatToDo) {
  refuse(pair().dense({0, 0, 0, 0}, 2).dense({0, 0, 5, 0}, 2).spec(), Errc::out_of_range,
         "layers[1].at|[0,0,5,0]|1x1x2x1");
  refuse(pair().dense({0, 0, 0, 1}, 2).spec(), Errc::out_of_range, "layers[0].at|[0,0,0,1]|1x1x2x1");
  refuse(pair().dense({0, 0, 0, 0}, 2).from({"in", Coord{9, 0, 0, 0}}).spec(), Errc::out_of_range,
         "layers[0]|from[1]|[9,0,0,0]|1x1x2x1");
  refuse(pair().dense({0, 0, 0, 0}, 2).from({Coord{~0u, ~0u, ~0u, ~0u}}).spec(), Errc::out_of_range,
         "from[0]|[4294967295,4294967295,4294967295,4294967295]");
  refuse(pair().dense({0, 0, 0, 0}, 2).from({Coord{0, 0, 1, 0}}).spec(), Errc::unknown_name,
         "layers[0]|from[0]|no layer|[0,0,1,0]");
  refuse(pair().dense({0, 0, 0, 0}, 2).from({"inn"}).spec(), Errc::unknown_name, "layers[0]|from[0]|'inn'");
  refuse(pair().dense({0, 0, 0, 0}, 2).output("y", {0, 1, 0, 0}).spec(), Errc::out_of_range,
         "outputs.y|[0,1,0,0]|1x1x2x1");
  refuse(pair().dense({0, 0, 0, 0}, 2).output("y", {0, 0, 1, 0}).spec(), Errc::unknown_name, "outputs.y|[0,0,1,0]");
  refuse(grid_of({1, 0, 1, 1}), Errc::out_of_range, "grid|1x0x1x1|at least 1");
  refuse(pair().dense({0, 0, 1, 0}, 2).dense({0, 0, 0, 0}, 2).dense({0, 0, 1, 0}, 2).spec(), Errc::duplicate_name,
         "layers[2]|[0,0,1,0]|layers[0]");
  refuse(pair().input("in", 3).dense({0, 0, 0, 0}, 2).spec(), Errc::duplicate_name, "inputs.in|twice");
  refuse(pair().dense({0, 0, 0, 0}, 2).output("y", {0, 0, 0, 0}).output("y", {0, 0, 0, 0}).spec(), Errc::duplicate_name,
         "outputs.y|twice");
  refuse(pair().input("", 3).dense({0, 0, 0, 0}, 2).spec(), Errc::parse_failed, "inputs|name");
  refuse(pair().dense({0, 0, 0, 0}, 2).output("", {0, 0, 0, 0}).spec(), Errc::parse_failed, "outputs|name");
  refuse(pair().spec(), Errc::parse_failed, "layers|at least one");
  refuse(pair().input("more", 2).dense({0, 0, 0, 0}, 2).spec(), Errc::parse_failed, "layers[0]|.from|2 inputs");
  refuse(NetworkBuilder("n", {1, 1, 1, 1}).dense({0, 0, 0, 0}, 2).spec(), Errc::parse_failed,
         "layers[0]|.from|0 inputs");
  refuse(NetworkBuilder("n", {1, 1, 1, 2})
             .input("in", 2)
             .dense({0, 0, 0, 0}, 2)
             .policy(actors::Policy::hold)
             .dense({0, 0, 0, 1}, 2)
             .policy(actors::Policy::isolate)
             .spec(),
         Errc::duplicate_name, "layers[1].policy ([0,0,0,1])|'isolate'|layers[0] [0,0,0,0]|'hold'|one policy");
}

TEST(Graph, RefusesSourcesThatDoNotJoin) {
  refuse(pair().dense({0, 0, 0, 0}, 2).neighbours(Neighbourhood::moore).spec(), Errc::shape_mismatch,
         "layers[0]|neighbours|level 0");
  refuse(pair().input("wide", 9).dense({0, 0, 0, 0}, 2).from({"in", "wide"}, Combine::add).spec(), Errc::shape_mismatch,
         "layers[0]|'add'|input 'in' has 4|input 'wide' has 9");
  refuse(pair().input("wide", 9).dense({0, 0, 0, 0}, 2).from({"in", "wide"}, Combine::gate).spec(),
         Errc::shape_mismatch, "'gate'|4|9");
  refuse(pair().dense({0, 0, 0, 0}, 2).from({"in", "in", "in"}, Combine::gate).spec(), Errc::shape_mismatch,
         "layers[0]|.from|two sources|3");
  refuse(pair().dense({0, 0, 0, 0}, 2).from({"in"}, Combine::gate).spec(), Errc::shape_mismatch, "two sources|1");
  refuse(pair().layer({0, 0, 0, 0}, "residual").from({"in"}).spec(), Errc::shape_mismatch,
         "layers[0]|residual|at least two|1");
  refuse(pair().input("wide", 9).layer({0, 0, 0, 0}, "residual").from({"in", "wide"}).spec(), Errc::shape_mismatch,
         "layers[0]|4|9");
}

TEST(Graph, RefusesOptionsAndTypesOfLayers) {
  refuse(pair().layer({0, 0, 0, 0}, "identity", 5).spec(), Errc::shape_mismatch, "layers[0]|.out|4|5|leave 'out' away");
  refuse(pair().layer({0, 0, 0, 0}, "dense").spec(), Errc::parse_failed, "layers[0]|.out|\"out\": 64");
  refuse(pair().layer({0, 0, 0, 0}, "identity").from({Coord{0, 0, 1, 0}}).layer({0, 0, 1, 0}, "identity").spec(),
         Errc::shape_mismatch, "layers[0]|.out|loop|state 'out'");
  refuse(pair().layer({0, 0, 0, 0}, "dence", 3).spec(), Errc::unknown_name, "layers[0]|.type|'dence'|dense|rms_norm");
  refuse(pair().layer({0, 0, 0, 0}, "dense", 3).option("activation", "tahn").spec(), Errc::unknown_name,
         "layers[0]|.activation|'tahn'|tanh");
  refuse(pair().dense({0, 0, 0, 0}, 3).option("init", "glorot").spec(), Errc::unknown_name, ".init|'glorot'|xavier");
  refuse(pair().dense({0, 0, 0, 0}, 3).option("activaton", "tanh").spec(), Errc::unknown_name,
         "layers[0].activaton ([0,0,0,0]):|activation, bias, init|did you mean 'activation'?");
  refuse(pair().dense({0, 0, 0, 0}, 3).option("bias", 1.0).spec(), Errc::parse_failed,
         "layers[0]|.bias|1|true or false");
  refuse(pair().layer({0, 0, 0, 0}, "leaky_integrator").option("rate", 1.5).spec(), Errc::out_of_range,
         ".rate|1.5|[1e-06, 1]");
  refuse(pair().layer({0, 0, 0, 0}, "softmax").option("temperature", NAN).spec(), Errc::out_of_range,
         ".temperature|nan");
  refuse(pair().layer({0, 0, 0, 0}, "layer_norm").dtype(Dtype::int8).spec(), Errc::unsupported,
         "layers[0].dtype ([0,0,0,0])|layer_norm|no weight matrix|int8|leave it away");
  refuse(pair().layer({0, 0, 0, 0}, "softmax").quantization_aware().spec(), Errc::unsupported,
         "layers[0].qat ([0,0,0,0])|softmax|no weight matrix to train through");
  refuse(pair().dense({0, 0, 0, 0}, 3).dtype(Dtype::float16, Granularity::channel).spec(), Errc::unsupported,
         "layers[0].granularity ([0,0,0,0])|channel|float16|no scales");
  for (const Dtype dtype : {Dtype::int64, Dtype::uint64, Dtype::int32, Dtype::uint32})
    refuse(pair().dense({0, 0, 0, 0}, 3).dtype(dtype, Granularity::block32_f16).spec(), Errc::invalid_argument,
           "layers[0].granularity ([0,0,0,0])|" + std::string(name(dtype)) + "|float64|block32_f16|use block32");
}

TEST(Graph, RefusesWhatIsTooLarge) {
  constexpr std::size_t kWidest = std::size_t{1} << 24;
  refuse(grid_of({65536, 65536, 65536, 65536}), Errc::too_large, "grid|65536x65536x65536x65536|2147483647");
  refuse(grid_of({~0u, ~0u, 1, 1}), Errc::too_large, "grid|4294967295");
  refuse(NetworkBuilder(std::string(257, 'n'), {1, 1, 1, 1}).input("in", 2).dense({0, 0, 0, 0}, 2).spec(),
         Errc::too_large, "name|257|256");
  refuse(pair().input(std::string(300, 'p'), 2).dense({0, 0, 0, 0}, 2).spec(), Errc::too_large, "inputs|300|256");
  refuse(NetworkBuilder("n", {1, 1, 1, 1}).input("in", 0).dense({0, 0, 0, 0}, 2).spec(), Errc::out_of_range,
         "inputs.in|width 0|16777216");
  refuse(NetworkBuilder("n", {1, 1, 1, 1}).input("in", kWidest + 1).dense({0, 0, 0, 0}, 2).spec(), Errc::out_of_range,
         "inputs.in|16777217|16777216");
  refuse(pair().dense({0, 0, 0, 0}, kWidest + 1).spec(), Errc::too_large, "layers[0]|.out|16777217");
  refuse(pair().dense({0, 0, 0, 0}, SIZE_MAX).spec(), Errc::too_large, "layers[0]|.out|18446744073709551615");
  refuse(NetworkBuilder("n", {1, 1, 1, 1}).input("in", kWidest).dense({0, 0, 0, 0}, kWidest).spec(), Errc::too_large,
         "layers[0]|'weight'|[16777216, 16777216]");
  refuse(NetworkBuilder("n", {1, 1, 1, 1})
             .input("a", kWidest)
             .input("b", 1)
             .dense({0, 0, 0, 0}, 1)
             .from({"a", "b"})
             .spec(),
         Errc::too_large, "layers[0]|.from|16777216");
}

// A layer type of the user's own is not believed either.
class Shaped final : public Layer {
 public:
  Shaped(Shape in, Shape out) : Layer(std::move(in), std::move(out)) {}
  void forward(kernels::OpStream&, const ForwardArgs&) const override {}
  void backward(kernels::OpStream&, const BackwardArgs&) const override {}
};

TEST(Graph, RefusesALayerTypeThatReturnsNothingOrOtherWidthsThanAskedFor) {
  using Made = Result<std::unique_ptr<Layer>>;
  must(register_layer("makes_nothing",
                      [](const Shape&, std::size_t, OptionReader&) -> Made { return std::unique_ptr<Layer>(); }));
  must(register_layer("makes_wide", [](const Shape& in, std::size_t out, OptionReader&) -> Made {
    return std::unique_ptr<Layer>(new Shaped(in, {out + 1}));
  }));
  must(register_layer("reads_wide", [](const Shape& in, std::size_t out, OptionReader&) -> Made {
    return std::unique_ptr<Layer>(new Shaped({in[0] + 1}, {out}));
  }));
  must(register_layer("is_empty", [](const Shape& in, std::size_t, OptionReader&) -> Made {
    return std::unique_ptr<Layer>(new Shaped(in, {0}));
  }));
  expect_error(Graph::build(pair().layer({0, 0, 0, 0}, "makes_nothing", 2).spec()), Errc::invalid_argument,
               {"layers[0]", "makes_nothing"});
  expect_error(Graph::build(pair().layer({0, 0, 0, 0}, "makes_wide", 2).spec()), Errc::shape_mismatch,
               {"layers[0]", "makes_wide", "3", "2"});
  expect_error(Graph::build(pair().layer({0, 0, 0, 0}, "reads_wide", 2).spec()), Errc::shape_mismatch,
               {"layers[0]", "reads_wide", "5", "4"});
  expect_error(Graph::build(pair().layer({0, 0, 0, 0}, "is_empty").spec()), Errc::shape_mismatch,
               {"layers[0]", "is_empty", "0"});
  expect_error(register_layer(
                   "dense", [](const Shape&, std::size_t, OptionReader&) -> Made { return std::unique_ptr<Layer>(); }),
               Errc::duplicate_name, {"'dense'"});
}

}  // namespace
}  // namespace weft::mesh::graph_test
