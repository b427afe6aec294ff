// SPDX-License-Identifier: Apache-2.0
// An embedding whose table is the head's matrix.

#include "learning/one_sample.hpp"
#include "learning/options.hpp"

#include "mesh/mesh_access.hpp"
#include "mesh/network/network_json.hpp"
#include "mesh/weights/weight_store.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace weft::learning::tied_embedding_test {
namespace {

using mesh::Mesh;
using mesh::MeshAccess;

std::string network(const std::string& embedding) {
  return R"({"weft": 2, "grid": {"z": 3}, "inputs": {"x": [4]},
             "layers": [{"at": [0, 0, 0, 0], "type": "embedding", "out": 5, "vocabulary": 7, "scale": 1.5)" +
         embedding + R"(},
                        {"at": [1, 0, 0, 0], "type": "activation", "activation": "tanh"},
                        {"at": [2, 0, 0, 0], "type": "dense", "out": 7, "bias": false}],
             "outputs": {"y": [2, 0, 0, 0]},
             "learning": {"rule": "backprop", "loss": "mse", "optimizer": {"type": "sgd", "lr": 0.1}}})";
}
Mesh built(const std::string& embedding) {
  auto mesh = Mesh::build(*mesh::read_network(network(embedding), "network"));
  EXPECT_TRUE(mesh) << mesh.error().text();
  return *std::move(mesh);
}
const std::string kTied = R"(, "weight": [2, 0, 0, 0], "shape": [4, 5])";

/// Parameter `i` as values, and its setting.
std::vector<float> values(Mesh& mesh, std::size_t i) {
  mesh::WeightStore& weights = MeshAccess::weights(mesh);
  return weights.read(weights.parameters()[i]);
}
void set(Mesh& mesh, std::size_t i, const std::vector<float>& to) {
  mesh::WeightStore& weights = MeshAccess::weights(mesh);
  ASSERT_TRUE(weights.write(weights.parameters()[i], to, "test"));
}
std::vector<float> transposed(const std::vector<float>& rows, std::size_t out, std::size_t in) {
  std::vector<float> columns(rows.size());
  for (std::size_t o = 0; o < out; ++o)
    for (std::size_t k = 0; k < in; ++k) columns[k * out + o] = rows[o * in + k];
  return columns;
}
std::vector<float> answer(const Mesh& mesh, const std::vector<float>& ids) {
  std::vector<float> y(28);
  const mesh::RunInput input{"x", ids};
  const mesh::RunOutput output{"y", y};
  EXPECT_TRUE(mesh.forward({&input, 1}, 1, {&output, 1}));
  return y;
}
void learn(Mesh& mesh, const std::vector<float>& ids, const std::vector<float>& wanted) {
  auto options = read_learning(mesh.spec().learning);
  ASSERT_TRUE(options) << options.error().text();
  auto learner = Learner::build(mesh, *options);
  ASSERT_TRUE(learner) << learner.error().text();
  const Status learned = learn_one(**learner, ids, wanted);
  ASSERT_TRUE(learned) << learned.error().text();
}

TEST(TiedEmbedding, HasTheHeadsMatrixForATable) {
  Mesh tied = built(kTied), untied = built("");
  ASSERT_EQ(MeshAccess::weights(tied).parameters().size(), 1u);
  ASSERT_EQ(MeshAccess::weights(untied).parameters().size(), 2u);
  const std::vector<float> head = values(tied, 0), ids{6, 0, 3, 6};
  set(untied, 0, transposed(head, 7, 5));
  set(untied, 1, head);
  EXPECT_EQ(answer(tied, ids), answer(untied, ids));
}

TEST(TiedEmbedding, LearnsFromBothOfItsUses) {
  Mesh tied = built(kTied), untied = built("");
  const std::vector<float> head = values(tied, 0), ids{6, 0, 3, 6};
  set(untied, 0, transposed(head, 7, 5));
  set(untied, 1, head);
  std::vector<float> wanted(28);
  for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] = static_cast<float>(i % 5) * 0.25f - 0.5f;
  learn(tied, ids, wanted);
  learn(untied, ids, wanted);
  const std::vector<float> table = transposed(values(untied, 0), 5, 7), own = values(untied, 1), both = values(tied, 0);
  bool has_moved_by_table = false;
  for (std::size_t i = 0; i < head.size(); ++i) {
    EXPECT_NEAR(both[i] - head[i], (own[i] - head[i]) + (table[i] - head[i]), 1e-6f) << i;
    has_moved_by_table = has_moved_by_table || std::fabs(table[i] - head[i]) > 1e-4f;
  }
  EXPECT_TRUE(has_moved_by_table);
}

TEST(TiedEmbedding, RefusesATableOfAnotherSize) {
  const auto mesh =
      Mesh::build(*mesh::read_network(network(R"(, "weight": [1, 0, 0, 0], "shape": [4, 5])"), "network"));
  ASSERT_FALSE(mesh);
  EXPECT_NE(mesh.error().text().find("has no weights to share"), std::string::npos) << mesh.error().text();
  std::string other = network(kTied);
  other.replace(other.find("\"vocabulary\": 7"), 15, "\"vocabulary\": 6");
  const auto small = Mesh::build(*mesh::read_network(other, "network"));
  ASSERT_FALSE(small);
  EXPECT_NE(small.error().text().find("'weight' [7, 5], the table is [6, 5]"), std::string::npos)
      << small.error().text();
}

}  // namespace
}  // namespace weft::learning::tied_embedding_test
