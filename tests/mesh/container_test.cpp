// SPDX-License-Identifier: Apache-2.0

// sequential and parallel. PyTorch: layer_goldens_test.cpp; what they refuse: layer_tables_test.cpp; weights shared
// with the grid: tests/learning/sharing_test.cpp.

#include "mesh/layers/container.hpp"

#include "mesh/mesh.hpp"
#include "mesh/mesh_access.hpp"
#include "mesh/network/network_json.hpp"
#include "mesh/weights/weight_store.hpp"

#include "goldens.hpp"

namespace weft::mesh::container_test {
namespace {

using namespace testing_support;

using goldens::layer;

// Loom dropped the skip's gradient.
TEST(Sequential, SendsAResidualsErrorDownBothBranches) {
  goldens::Sequence run(layer(R"({"type": "sequential", "layers": [
      {"type": "activation", "activation": "tanh", "name": "f"}, {"type": "residual", "from": ["input", "f"]}]})"),
                        Shape{3}, 1, 2);
  run.forward(0, 2);
  run.backward();
  for (std::size_t i = 0; i < run.dx.size(); ++i) {
    const double t = std::tanh(double{run.x[i]});
    EXPECT_NEAR(run.y[i], run.x[i] + t, 1e-6);
    EXPECT_NEAR(run.dx[i], run.dy[i] * (1 + 1 - t * t), 1e-6);
  }
}

TEST(Sequential, KeepsItsLayersHiddenStatesApart) {
  const LayerSpec two = layer(R"({"type": "sequential", "layers": [
      {"type": "leaky_integrator", "rate": 0.5}, {"type": "leaky_integrator", "rate": 0.25}]})");
  goldens::Sequence run(two, Shape{2}, 6, 3);
  EXPECT_EQ(run.layer->state_size(), 4u);
  std::vector<double> first(run.state.begin(), run.state.begin() + 12);
  run.forward(0, 3);
  for (std::size_t t = 0; t < 6; ++t)
    for (std::size_t row = 0; row < 3; ++row)
      for (std::size_t j = 0; j < 2; ++j) {
        double* h = &first[row * 4 + j];
        h[0] += 0.5 * (run.x[(t * 3 + row) * 2 + j] - h[0]);
        h[2] += 0.25 * (h[0] - h[2]);
        EXPECT_NEAR(run.y[(t * 3 + row) * 2 + j], h[2], 1e-6) << t;
      }
}

// Each sample's gate decides for that sample alone, and a gate takes its gradient through all experts' outputs.
TEST(Parallel, GatesEverySampleByItself) {
  const LayerSpec experts = layer(R"({"type": "parallel", "merge": "filter", "top_k": 1, "layers": [
      {"type": "activation", "activation": "tanh"}, {"type": "identity"}, {"type": "activation", "activation": "relu"}]})");
  goldens::Sequence run(experts, Shape{4}, 1, 32);
  run.forward(0, 32);
  std::array<std::size_t, 3> chosen{};
  for (std::size_t row = 0; row < 32; ++row) {
    std::size_t matches = 0;
    for (std::size_t e = 0; e < 3; ++e) {
      bool is_it = true;
      for (std::size_t j = 0; j < 4; ++j) {
        const double x = run.x[row * 4 + j];
        const double y = e == 0 ? std::tanh(x) : e == 1 ? x : std::max(x, 0.0);
        is_it = is_it && std::fabs(run.y[row * 4 + j] - y) < 1e-6;
      }
      chosen[e] += is_it;
      matches += is_it;
    }
    EXPECT_GE(matches, 1u) << row;
  }
  EXPECT_GT(std::count_if(chosen.begin(), chosen.end(), [](std::size_t n) { return n > 0; }), 1) << "all alike";
}

// y = p_0 x + p_1 tanh x, p = softmax(MLP(x)), in float64; the gradients by differences of that.
TEST(Parallel, TakesItsGateFromItsFirstLayer) {
  goldens::Sequence run(
      layer(R"({"type": "parallel", "merge": "filter", "gate": "first", "temperature": 0.5, "layers": [
      {"type": "sequential", "layers": [{"type": "dense", "out": 3, "activation": "tanh"}, {"type": "dense", "out": 2}]},
      {"type": "identity"}, {"type": "activation", "activation": "tanh"}]})"),
      Shape{4}, 1, 5);
  ASSERT_EQ(run.layer->parameters().size(), 4u);
  EXPECT_EQ(run.layer->parameters()[0].name, "layers[0].layers[0].weight");
  std::vector<std::vector<double>> weights;
  for (std::size_t p = 0; p < 4; ++p) {
    const std::vector<float> own = run.parameter(p);
    weights.emplace_back(own.begin(), own.end());
  }
  const auto value = [&](const std::vector<double>& x) {
    std::vector<double> hidden(3), logits(2), y(4);
    for (std::size_t o = 0; o < 3; ++o) {
      hidden[o] = weights[1][o];
      for (std::size_t j = 0; j < 4; ++j) hidden[o] += weights[0][o * 4 + j] * x[j];
      hidden[o] = std::tanh(hidden[o]);
    }
    for (std::size_t e = 0; e < 2; ++e) {
      logits[e] = weights[3][e];
      for (std::size_t o = 0; o < 3; ++o) logits[e] += weights[2][e * 3 + o] * hidden[o];
    }
    const double p = 1 / (1 + std::exp((logits[1] - logits[0]) / 0.5));
    for (std::size_t j = 0; j < 4; ++j) y[j] = p * x[j] + (1 - p) * std::tanh(x[j]);
    return y;
  };
  run.forward(0, 5);
  run.backward();
  const auto loss = [&] {  // whose gradient by y is dy
    double sum = 0;
    for (std::size_t row = 0; row < 5; ++row) {
      const auto y = value({run.x.begin() + static_cast<std::ptrdiff_t>(row * 4),
                            run.x.begin() + static_cast<std::ptrdiff_t>(row * 4 + 4)});
      for (std::size_t j = 0; j < 4; ++j) sum += y[j] * run.dy[row * 4 + j];
    }
    return sum;
  };
  for (std::size_t row = 0; row < 5; ++row) {
    const auto y = value({run.x.begin() + static_cast<std::ptrdiff_t>(row * 4),
                          run.x.begin() + static_cast<std::ptrdiff_t>(row * 4 + 4)});
    for (std::size_t j = 0; j < 4; ++j) EXPECT_NEAR(run.y[row * 4 + j], y[j], 1e-6);
  }
  for (std::size_t p = 0; p < 4; ++p) {
    const auto gradient = run.gradient(p);
    for (std::size_t i = 0; i < weights[p].size(); ++i) {
      const double step = 1e-5, at = weights[p][i];
      weights[p][i] = at + step;
      const double above = loss();
      weights[p][i] = at - step;
      const double below = loss();
      weights[p][i] = at;
      EXPECT_NEAR(gradient[i], (above - below) / (2 * step), 2e-5) << p << ", " << i;
    }
  }
}

// Indices that a layer makes are rounded down, and never past the table.
TEST(Embedding, ReadsWhatALayerMakes) {
  for (const std::string& network :
       {std::string(R"("chain": [{"type": "identity"}, {"type": "embedding", "vocabulary": 3, "out": 2}])"),
        std::string(R"("chain": [{"type": "sequential", "layers": [
            {"type": "identity"}, {"type": "embedding", "vocabulary": 3, "out": 2}]}])")}) {
    auto mesh = must(Mesh::build(must(read_network(R"({"weft": 2, "inputs": {"x": [6]}, )" + network + "}", "n"))));
    WeightStore& weights = MeshAccess::weights(mesh);
    must(weights.write(weights.parameters()[0], std::vector<float>{10, 11, 12, 20, 21, 22}, "table"));
    const std::vector<float> x{0, 1.75f, 2, -3, 7, 0.5f};
    std::vector<float> y(12);
    const RunInput input{"x", x};
    const RunOutput output{"y", y};
    must(mesh.forward({&input, 1}, 1, {&output, 1}));
    EXPECT_EQ(y, (std::vector<float>{10, 20, 11, 21, 12, 22, 10, 20, 12, 22, 10, 20}));
  }
}

/// Computes its input as it is, and counts the rows.
class Counted final : public Layer {
 public:
  explicit Counted(const Shape& shape) : Layer(shape, shape) {}
  void forward(kernels::OpStream& stream, const ForwardArgs& args) const override {
    rows_forward += args.x.rows;
    stream.copy({args.x, args.y});
  }
  void backward(kernels::OpStream& stream, const BackwardArgs& args) const override {
    rows_backward += args.dy.rows;
    if (args.dx.data) stream.copy({args.dy, args.dx});
  }
  static inline std::size_t rows_forward = 0, rows_backward = 0;
};

void register_counted() {
  static const Status done =
      register_layer("counted", [](const Shape& in, std::size_t, OptionReader&) -> Result<std::unique_ptr<Layer>> {
        return std::unique_ptr<Layer>(new Counted(in));
      });
  must(done);
}

// Of 4 experts each row's 2 are computed, and of a sequence those that one of its tokens chose.
TEST(Parallel, ComputesTheExpertsThatWereChosenAlone) {
  register_counted();
  const std::string experts = R"("layers": [{"type": "counted"}, {"type": "counted"}, {"type": "counted"},
                                            {"type": "counted"}]})";
  goldens::Sequence run(layer(R"({"type": "parallel", "merge": "filter", "top_k": 2, )" + experts), Shape{5}, 1, 33);
  Counted::rows_forward = Counted::rows_backward = 0;
  run.forward(0, 33);
  run.backward();
  EXPECT_EQ(Counted::rows_forward, 2u * 33u);
  EXPECT_EQ(Counted::rows_backward, 2u * 33u);
  // The gate's 20 and the sum's, 5, for which layers without matrices count their outputs; 2 of 4 experts.
  EXPECT_EQ(run.layer->multiply_adds(), 20 + 5 + 2 * 5);
  for (std::size_t i = 0; i < run.x.size(); ++i) EXPECT_NEAR(run.y[i], run.x[i], 1e-6) << "shares add up to 1";

  goldens::Sequence tokens(layer(R"({"type": "parallel", "merge": "filter", "top_k": 1, )" + experts), Shape{3, 5}, 1,
                           16);
  Counted::rows_forward = 0;
  tokens.forward(0, 16);
  EXPECT_GE(Counted::rows_forward, 16u);
  EXPECT_LE(Counted::rows_forward, 3u * 16u);

  // All are computed where all are wanted.
  goldens::Sequence all(layer(R"({"type": "parallel", "merge": "filter", "top_k": 4, )" + experts), Shape{5}, 1, 3);
  Counted::rows_forward = 0;
  all.forward(0, 3);
  EXPECT_EQ(Counted::rows_forward, 4u * 3u);
}

// Experts that go on by themselves, and one that somebody else reads.
TEST(Parallel, ComputesExpertsThatAreNotTheSameTheNextTime) {
  register_counted();
  Counted::rows_forward = 0;
  goldens::Sequence run(layer(R"({"type": "parallel", "merge": "filter", "top_k": 1, "layers": [
      {"type": "sequential", "layers": [{"type": "counted"}, {"type": "leaky_integrator", "rate": 0.5}]},
      {"type": "counted", "name": "read"}, {"type": "activation", "from": ["read"]},
      {"type": "sequential", "layers": [{"type": "counted"}, {"type": "dropout", "rate": 0.5}]}]})"),
                        Shape{5}, 1, 9);
  run.forward(0, 9);
  EXPECT_EQ(Counted::rows_forward, 3u * 9u);
}

// Rows of one expert that stand apart are taken one after the other: a row has the bits that it has alone, and a
// gradient those of the rows in their order.
TEST(Parallel, GivesARowOfChosenExpertsTheBitsThatItHasAlone) {
  const LayerSpec spec = layer(R"({"type": "parallel", "merge": "filter", "top_k": 2, "layers": [
      {"type": "dense", "out": 6, "activation": "gelu"}, {"type": "swiglu", "out": 6, "hidden": 20},
      {"type": "sequential", "layers": [{"type": "activation", "activation": "silu"}, {"type": "dense", "out": 6}]}]})");
  goldens::Sequence together(spec, Shape{6}, 1, 40), alone(spec, Shape{6}, 1, 40);
  together.forward(0, 40);
  for (std::size_t row = 0; row < 40; ++row) alone.forward(row, 1);
  EXPECT_EQ(bits(together.y), bits(alone.y));
  together.backward();
  std::vector<float> first = together.dx;
  std::vector<std::vector<float>> sums(together.layer->parameters().size());
  // One row a call, from the first on: gradients are added to.
  for (std::size_t row = 0; row < 40; ++row) {
    goldens::Sequence one(spec, Shape{6}, 1, 1);
    std::copy_n(together.x.begin() + static_cast<std::ptrdiff_t>(row * 6), 6, one.x.begin());
    std::copy_n(together.dy.begin() + static_cast<std::ptrdiff_t>(row * 6), 6, one.dy.begin());
    for (std::size_t p = 0; p < sums.size() && row > 0; ++p) one.set_gradient(p, sums[p]);
    one.forward(0, 1);
    one.backward();
    for (std::size_t p = 0; p < sums.size(); ++p) sums[p] = one.gradient(p);
    EXPECT_EQ(bits(one.dx), bits(std::vector<float>(first.begin() + static_cast<std::ptrdiff_t>(row * 6),
                                                    first.begin() + static_cast<std::ptrdiff_t>(row * 6 + 6))))
        << row;
  }
  for (std::size_t p = 0; p < sums.size(); ++p) EXPECT_EQ(bits(together.gradient(p)), bits(sums[p])) << p;
}

TEST(Parallel, LeavesNoTraceOfAnExpertThatWasNotChosen) {
  goldens::Sequence run(layer(R"({"type": "parallel", "merge": "filter", "gate": "first", "top_k": 1, "layers": [
      {"type": "dense", "out": 2}, {"type": "dense", "out": 4}, {"type": "dense", "out": 4}]})"),
                        Shape{4}, 1, 3);
  run.set_parameter(0, std::vector<float>(8, 0.0f));
  run.set_parameter(1, {5.0f, -5.0f});
  run.set_parameter(4, std::vector<float>(16, NAN));
  run.forward(0, 3);
  run.backward();
  goldens::Sequence dense(layer(R"({"type": "dense", "out": 4})"), Shape{4}, 1, 3);
  dense.set_parameter(0, run.parameter(2));
  dense.set_parameter(1, run.parameter(3));
  dense.forward(0, 3);
  dense.backward();
  EXPECT_EQ(bits(run.y), bits(dense.y));
  EXPECT_EQ(bits(run.gradient(2)), bits(dense.gradient(0)));
  EXPECT_EQ(run.gradient(4), std::vector<float>(16, 0.0f));
  for (std::size_t i = 0; i < run.dx.size(); ++i) EXPECT_EQ(run.dx[i], dense.dx[i]) << i;
}

TEST(Parallel, BalancesTheLoadOfItsExperts) {
  // With no other error, the balance's slope alone moves the gate away from an expert that had more than its share.
  goldens::Sequence run(layer(R"({"type": "parallel", "merge": "filter", "balance": 1.0, "layers": [
      {"type": "identity"}, {"type": "identity"}]})"),
                        Shape{2}, 1, 1);
  run.state = {0.9f, 0.1f, 0, 0};
  run.dy = {0, 0};
  run.forward(0, 1);
  run.backward();
  const auto gradient = run.gradient(0);
  for (std::size_t j = 0; j < 2; ++j) {
    EXPECT_GT(gradient[j] * run.x[j], 0) << "the busy expert's weights";
    EXPECT_LT(gradient[2 + j] * run.x[j], 0) << "the idle one's";
  }
}

TEST(Container, NestsToItsLimitAndNoDeeper) {
  const auto nested = [](unsigned depth) {
    std::string text = R"({"type": "identity"})";
    for (unsigned i = 0; i < depth; ++i) text = R"({"type": "sequential", "layers": [)" + text + "]}";
    return layer(text);
  };
  EXPECT_EQ(must(make_layer(nested(kMaxContainerDepth), 3, "deep"))->out(), 3u);
  expect_error(make_layer(nested(kMaxContainerDepth + 1), 3, "deep"), Errc::too_large, {"deep.layers[0]", "16"});
}

}  // namespace
}  // namespace weft::mesh::container_test
