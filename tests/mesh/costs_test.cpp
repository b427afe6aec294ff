// SPDX-License-Identifier: Apache-2.0

// Costs of a forward, computed by hand: regions are balanced by them, and `weft inspect` shows them.

#include "mesh/network/graph.hpp"

#include "goldens.hpp"

namespace weft::mesh::costs_test {
namespace {

using namespace testing_support;

std::unique_ptr<Layer> made(const Json& layer, const Shape& in) {
  return must(make_layer(goldens::layer_of(layer), in, "layer"));
}
std::uint64_t touched(const Json& layer, const Shape& in, std::size_t rows, Dtype dtype = Dtype::float32) {
  return made(layer, in)->bytes_touched(Encoding(dtype), rows);
}

TEST(Costs, OfADenseLayerAreItsWeightsOnceAndItsRows) {
  // 48 outputs are three whole panels of 16.
  const Json dense{{"type", "dense"}, {"out", 48}};
  EXPECT_EQ(touched(dense, {30}, 1), 4 * (30 * 48 + 48 + 30 + 2 * 48));
  EXPECT_EQ(touched(dense, {30}, 5), 4 * (30 * 48 + 48 + 5 * (30 + 2 * 48)));
  // Tokens read the same weights.
  EXPECT_EQ(touched(dense, {7, 30}, 1), 4 * (30 * 48 + 48 + 7 * (30 + 2 * 48)));
  EXPECT_EQ(touched(dense, {30}, 1, Dtype::float32) - touched(dense, {30}, 1, Dtype::bfloat16), 2 * 30 * 48);
}

TEST(Costs, CountHiddenStateAndWhatIsKept) {
  const auto layer = made({{"type", "lstm"}, {"out", 16}}, {16});
  const std::uint64_t weights = 2 * 64 * 16 + 2 * 64, state = 2 * 16;
  ASSERT_EQ(layer->state_size(), state);
  EXPECT_EQ(layer->bytes_touched(Encoding(Dtype::float32), 3),
            4 * (weights + 3 * (16 + 2 * 16 + 2 * state + layer->cache_size())));
}

TEST(Costs, OfAnEmbeddingAreTheEntriesThatItLooksUp) {
  const Json embedding{{"type", "embedding"}, {"out", 16}, {"vocabulary", 1000}};
  EXPECT_EQ(touched(embedding, {5}, 2), 4 * 2 * (5 * 16 + 5 + 2 * 5 * 16));
  // More tokens than entries: the table, once.
  EXPECT_EQ(made(embedding, {5})->weight_bytes_touched(Encoding(Dtype::float32), 400), 4u * 16 * 1000);
}

TEST(Costs, OfAContainerAreThoseOfItsLayers) {
  const Json dense{{"type", "dense"}, {"out", 16}, {"bias", false}};
  const Json embedding{{"type", "embedding"}, {"out", 16}, {"vocabulary", 1000}};
  const auto layer = made({{"type", "sequential"}, {"layers", {embedding, dense}}}, {5});
  EXPECT_EQ(layer->weight_bytes_touched(Encoding(Dtype::float32), 1), 4u * (5 * 16 + 16 * 16));
  EXPECT_EQ(layer->bytes_touched(Encoding(Dtype::float32), 1),
            4 * (5 * 16 + 16 * 16 + 5 + 2 * 5 * 16 + layer->cache_size()));
}

TEST(Costs, OfBorrowedWeightsAreTheirOwners) {
  const Json network{{"weft", 2},
                     {"grid", {{"x", 2}}},
                     {"inputs", {{"in", {16}}}},
                     {"layers",
                      {{{"at", {0, 0, 0, 0}}, {"type", "dense"}, {"out", 16}, {"from", {"in"}}},
                       {{"at", {0, 0, 1, 0}},
                        {"type", "sequential"},
                        {"from", {"in"}},
                        {"layers", {{{"type", "shared"}, {"at", {0, 0, 0, 0}}}, {{"type", "rms_norm"}}}}}}}};
  const Graph graph = must(Graph::build(must(read_network(network.dump(), "tied_to"))));
  const auto& layer = graph.nodes()[*graph.find_layer({0, 0, 1, 0})].layer;
  EXPECT_EQ(layer->weight_bytes_touched(Encoding(Dtype::float32), 1), 4u * 16);
}

}  // namespace
}  // namespace weft::mesh::costs_test
