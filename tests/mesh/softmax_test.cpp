// SPDX-License-Identifier: Apache-2.0

// The softmax layer's options. Values and finite differences of those that draw nothing: layers_test.cpp.

#include "mesh/mesh_access.hpp"
#include "mesh/network/graph.hpp"
#include "mesh/persistence/entity_model.hpp"
#include "mesh/persistence/snapshot.hpp"
#include "mesh/runtime/command.hpp"
#include "mesh/runtime/state.hpp"

#include "kernels/gumbel.hpp"
#include "kernels/isa.hpp"

#include "goldens.hpp"
#include <set>

namespace weft::mesh::softmax_test {
namespace {

using namespace testing_support;

std::vector<float> run(const Options& options, std::size_t width, std::size_t rows) {
  goldens::Sequence sequence(goldens::layer("softmax", options), width, 1, rows);
  sequence.forward(0, rows);
  sequence.backward();
  std::vector<float> all = sequence.y;
  all.insert(all.end(), sequence.dx.begin(), sequence.dx.end());
  return all;
}

// Loom's gradients lacked the 1/T. Of softmax(x / T) with x / T and dy given, dx is proportional to 1/T.
TEST(Softmax, SlopeHasOneOverTheTemperature) {
  const std::vector<std::pair<std::string, Options>> kinds = {
      {"standard", {}},
      {"sparsemax", {}},
      {"entmax", {{"alpha", 1.5}}},
      {"entmax", {{"alpha", 1.25}}},
      {"grid", {{"axes", std::vector<double>{0}}}},
      {"masked", {{"mask", std::vector<double>{1, 1, 0, 1, 1, 1, 1, 1}}}},
      {"hierarchical", {{"branches", std::vector<double>{2, 3}}}}};
  for (const auto& [kind, more] : kinds) {
    const auto slope = [&, &kind = kind, &more = more](double temperature) {
      Options options = more;
      options["kind"] = kind;
      options["temperature"] = temperature;
      goldens::Sequence sequence(goldens::layer("softmax", options), 8, 1, 2);
      for (float& v : sequence.x) v *= static_cast<float>(temperature);
      sequence.forward(0, 2);
      sequence.backward();
      return sequence.dx;
    };
    const std::vector<float> whole = slope(1.0), cold = slope(0.25), hot = slope(8.0);
    for (std::size_t i = 0; i < whole.size(); ++i) {
      // Powers of two, so nothing rounds otherwise.
      EXPECT_EQ(cold[i], 4 * whole[i]) << kind;
      EXPECT_EQ(8 * hot[i], whole[i]) << kind;
    }
  }
}

TEST(Softmax, MaskedEntriesAreExactlyZeroAndGetNoGradient) {
  goldens::Sequence run(goldens::layer("softmax", {{"kind", std::string("masked")},
                                                   {"mask", std::vector<double>{0, 1, 0, 0, 1, 1}},
                                                   {"groups", 2.0}}),
                        Shape{3, 6}, 1, 2);
  // A masked value may be the largest by far, and so may its gradient.
  for (std::size_t i = 0; i < run.x.size(); i += 6) run.x[i] = 1e30f, run.x[i + 2] = -1e30f, run.dy[i + 3] = 1e30f;
  run.forward(0, 2);
  run.backward();
  for (std::size_t i = 0; i < run.x.size(); i += 6) {
    for (const std::size_t j : {0, 2, 3}) {
      EXPECT_EQ(std::bit_cast<std::uint32_t>(run.y[i + j]), 0u);
      EXPECT_EQ(std::bit_cast<std::uint32_t>(run.dx[i + j]), 0u);
    }
    EXPECT_EQ(run.y[i + 1], 1.0f);
    EXPECT_NEAR(run.y[i + 4] + run.y[i + 5], 1.0f, 2e-7f);
    EXPECT_NE(run.dx[i + 4], 0.0f);
  }
}

// Padded sequences: how long each is comes with the sample.
TEST(Softmax, TakesAMaskOfEachSampleAsASecondSource) {
  auto mesh = must(Mesh::build(must(read_network(
      R"({"weft": 2, "inputs": {"scores": [6], "mask": [6]}, "grid": {}, "layers": [
          {"at": [0,0,0,0], "type": "softmax", "from": ["scores", "mask"], "combine": "add"}],
          "outputs": {"y": [0,0,0,0]}})",
      "mask"))));
  const auto scores = noise(3 * 6, 4, 5.0f);
  std::vector<float> mask(3 * 6, 0.0f), y(3 * 6);
  const std::size_t lengths[] = {6, 4, 1};
  for (std::size_t row = 0; row < 3; ++row)
    std::fill(mask.begin() + static_cast<std::ptrdiff_t>(row * 6 + lengths[row]),
              mask.begin() + static_cast<std::ptrdiff_t>(row * 6 + 6), -1e30f);
  const RunInput inputs[] = {{"mask", mask}, {"scores", scores}};
  const RunOutput output{"y", y};
  must(mesh.forward(inputs, 3, {&output, 1}));
  for (std::size_t row = 0; row < 3; ++row) {
    double sum = 0;
    for (std::size_t j = 0; j < lengths[row]; ++j) sum += std::exp(double{scores[row * 6 + j]});
    for (std::size_t j = 0; j < 6; ++j) {
      const double wanted = j < lengths[row] ? std::exp(double{scores[row * 6 + j]}) / sum : 0;
      EXPECT_NEAR(y[row * 6 + j], wanted, 1e-6) << row << ", " << j;
      if (j >= lengths[row]) EXPECT_EQ(y[row * 6 + j], 0.0f);
    }
  }
}

TEST(Softmax, IsEntmaxOfOneAndSparsemaxIsThatOfTwo) {
  const OptionValue entmax = std::string("entmax"), sparsemax = std::string("sparsemax");
  for (const double temperature : {1.0, 0.7}) {
    const OptionValue t = temperature;
    EXPECT_EQ(bits(run({{"kind", entmax}, {"alpha", 1.0}, {"temperature", t}}, 17, 3)),
              bits(run({{"temperature", t}}, 17, 3)));
    EXPECT_EQ(bits(run({{"kind", entmax}, {"alpha", 2.0}, {"temperature", t}}, 17, 3)),
              bits(run({{"kind", sparsemax}, {"temperature", t}}, 17, 3)));
    EXPECT_NE(bits(run({{"kind", sparsemax}, {"temperature", t}}, 17, 3)), bits(run({{"temperature", t}}, 17, 3)));
  }
}

TEST(Softmax, RefusesAnAlphaThatIsNoNumber) {
  expect_error(
      make_layer(goldens::layer("softmax", {{"kind", std::string("entmax")}, {"alpha", std::nan("")}}), 4, "layers[3]"),
      Errc::out_of_range, {"layers[3].alpha"});
}

TEST(Softmax, SaysThatABisectionCostsMore) {
  const auto cost = [](Options options) {
    return must(make_layer(goldens::layer("softmax", std::move(options)), 10, "layer"))->multiply_adds();
  };
  EXPECT_LT(cost({}), cost({{"kind", std::string("sparsemax")}}));
  EXPECT_LT(cost({{"kind", std::string("sparsemax")}}), cost({{"kind", std::string("entmax")}, {"alpha", 1.2}}));
}

Options gumbel(double temperature, bool is_straight, double groups = 1) {
  return {{"kind", std::string("gumbel")},
          {"temperature", temperature},
          {"straight_through", is_straight},
          {"groups", groups}};
}

/// Noise that the layer adds to row `stream` - 1 at its draw number `counter`, without a seed.
std::vector<float> noise_of(std::size_t width, std::size_t counter, std::size_t stream) {
  const kernels::FlushSubnormals exact;
  const std::vector<float> zero(width);
  std::vector<float> g(width);
  std::array<float, 4> state{static_cast<float>(counter), 0, static_cast<float>(stream), 0};
  kernels::CpuStream().gumbel_noise({{zero.data(), 1, width, width},
                                     {},
                                     {state.data(), 1, 4, 4},
                                     {state.data(), 1, 4, 4},
                                     {g.data(), 1, width, width}});
  return g;
}

std::vector<double> softmax_of(const std::vector<double>& x, double temperature) {
  std::vector<double> y;
  double sum = 0;
  for (const double v : x) sum += y.emplace_back(std::exp(v / temperature));
  for (double& v : y) v /= sum;
  return y;
}

constexpr std::size_t kWidth = 12, kGroups = 3, kGroup = kWidth / kGroups;

TEST(GumbelSoftmax, IsTheSoftmaxOfItsInputAndItsNoiseAndSendsBackThatSlope) {
  constexpr std::size_t kTicks = 4, kRows = 3;
  for (const double temperature : {1.0, 0.5, 2.5})
    for (const bool is_straight : {false, true}) {
      goldens::Sequence run(goldens::layer("softmax", gumbel(temperature, is_straight, kGroups)), kWidth, kTicks,
                            kRows);
      std::fill(run.state.begin(), run.state.end(), 0.0f);
      run.forward(0, kRows);
      run.backward();
      for (std::size_t t = 0; t < kTicks; ++t)
        for (std::size_t b = 0; b < kRows; ++b) {
          const std::vector<float> g = noise_of(kWidth, t, b + 1);
          for (std::size_t group = 0; group < kGroups; ++group) {
            const std::size_t at = (t * kRows + b) * kWidth + group * kGroup;
            std::vector<double> z;
            for (std::size_t j = 0; j < kGroup; ++j) z.push_back(double{run.x[at + j]} + g[group * kGroup + j]);
            const std::vector<double> soft = softmax_of(z, temperature);
            const auto largest = std::max_element(z.begin(), z.end()) - z.begin();
            for (std::size_t j = 0; j < kGroup; ++j) {
              // z is rounded, by up to 5e-7 of its 8.
              const double want = !is_straight ? soft[j] : static_cast<std::ptrdiff_t>(j) == largest;
              ASSERT_NEAR(run.y[at + j], want, is_straight ? 0 : 2e-6 / temperature);
              std::vector<double> above = z, below = z;
              above[j] += 1e-5, below[j] -= 1e-5;
              const auto up = softmax_of(above, temperature), down = softmax_of(below, temperature);
              double slope = 0;
              for (std::size_t k = 0; k < kGroup; ++k) slope += double{run.dy[at + k]} * (up[k] - down[k]) / 2e-5;
              ASSERT_NEAR(run.dx[at + j], slope, 1e-5 / temperature);
            }
          }
        }
      for (const float v : run.dstate) EXPECT_EQ(v, 0.0f);
    }
}

TEST(GumbelSoftmax, DrawsARowTheSameWhoeverElseIsInTheBatch) {
  for (const bool is_straight : {false, true}) {
    const LayerSpec spec = goldens::layer("softmax", gumbel(0.7, is_straight, kGroups));
    goldens::Sequence together(spec, kWidth, 3, 5), alone(spec, kWidth, 3, 5);
    for (goldens::Sequence* each : {&together, &alone})
      for (std::size_t b = 0; b < 5; ++b) {
        const std::array<float, 4> state{static_cast<float>(10 * b), 0, static_cast<float>(b + 1), 0};
        std::copy(state.begin(), state.end(), each->state.begin() + static_cast<std::ptrdiff_t>(4 * b));
      }
    together.forward(0, 5);
    for (std::size_t b = 5; b-- > 0;) alone.forward(b, 1);
    EXPECT_EQ(bits(together.y), bits(alone.y));
    EXPECT_EQ(bits(together.state), bits(alone.state));
  }
}

/// Counts of each value as the largest, in `ticks` draws of a straight-through layer over the same x.
std::vector<double> counts(const std::vector<float>& x, double temperature, std::size_t ticks) {
  goldens::Sequence run(goldens::layer("softmax", gumbel(temperature, true)), x.size(), ticks, 1);
  std::fill(run.state.begin(), run.state.end(), 0.0f);
  for (std::size_t i = 0; i < run.x.size(); ++i) run.x[i] = x[i % x.size()];
  run.forward(0, 1);
  std::vector<double> sums(x.size());
  for (std::size_t i = 0; i < run.y.size(); ++i) {
    EXPECT_TRUE(run.y[i] == 0.0f || run.y[i] == 1.0f);
    sums[i % x.size()] += run.y[i];
  }
  return sums;
}

double chi_square(const std::vector<double>& counts, const std::vector<double>& probabilities, double n) {
  double sum = 0;
  for (std::size_t j = 0; j < counts.size(); ++j)
    sum += (counts[j] - n * probabilities[j]) * (counts[j] - n * probabilities[j]) / (n * probabilities[j]);
  return sum;
}

// Seven degrees of freedom: above 36.3 once in 160,000 runs of another seed.
TEST(GumbelSoftmax, DrawsFromSoftmaxWhateverTheTemperature) {
  const std::vector<float> x{0.5f, -1.0f, 2.0f, 0.0f, 1.25f, -2.5f, 0.75f, 1.0f};
  const std::vector<double> p = softmax_of({x.begin(), x.end()}, 1.0);
  constexpr std::size_t kDraws = 50000;
  const std::vector<double> cold = counts(x, 0.1, kDraws), hot = counts(x, 10.0, kDraws);
  EXPECT_LT(chi_square(cold, p, kDraws), 36.3);
  EXPECT_LT(chi_square(hot, p, kDraws), 36.3);
  EXPECT_GT(chi_square(cold, softmax_of({x.begin(), x.end()}, 1.05), kDraws), 36.3) << "and would tell five percent";
}

// --- in a mesh ---

NetworkSpec network(bool is_straight, std::uint64_t seed = 5) {
  NetworkBuilder builder("drawing", {1, 1, 3, 1});
  builder.input("in", 6).dense({0, 0, 0, 0}, 20).layer({0, 0, 1, 0}, "softmax");
  for (const auto& [key, value] : gumbel(0.8, is_straight, 2)) builder.option(key, value);
  builder.layer({0, 0, 2, 0}, "softmax").from({Coord{0, 0, 1, 0}, "in"});
  for (const auto& [key, value] : gumbel(1.5, false)) builder.option(key, value);
  return builder.output("y", {0, 0, 2, 0}).seed(seed).spec();
}

Mesh mesh_of(std::size_t sessions, std::size_t threads = 1, const NetworkSpec& spec = network(true)) {
  return must(Mesh::build(spec, {.threads = threads, .sessions = sessions, .grain_bytes = 0}));
}

/// Ticks [from, to), every session with the same inputs, and the hash of each.
std::vector<std::string> hashes_of_run(Mesh& mesh, std::uint64_t from, std::uint64_t to) {
  for (std::uint64_t tick = from; tick < to; ++tick) {
    for (std::size_t b = 0; b < mesh.sessions(); ++b) must(mesh.set_input("in", noise(6, 100 + tick), b));
    must(mesh.tick());
  }
  std::vector<std::string> hashes;
  for (std::size_t b = 0; b < mesh.sessions(); ++b) hashes.push_back(to_string(mesh.state_hash(b)));
  return hashes;
}

TEST(GumbelSoftmax, GivesEachSessionSeedAndPlaceItsOwnNoise) {
  Mesh mesh = mesh_of(4);
  hashes_of_run(mesh, 0, 10);
  Mesh other = mesh_of(1, 1, network(true, 6));
  hashes_of_run(other, 0, 10);
  std::set<std::vector<std::uint32_t>> outputs{bits(output_of(other, {0, 0, 2, 0}))};
  for (std::size_t b = 0; b < 4; ++b) outputs.insert(bits(output_of(mesh, {0, 0, 2, 0}, b)));
  EXPECT_EQ(outputs.size(), 5u);

  // Two layers over the same input, at two places.
  NetworkBuilder builder("counterparts", {1, 1, 2, 1});
  builder.input("in", 8);
  for (const Coord at : {Coord{0, 0, 0, 0}, Coord{0, 0, 1, 0}})
    builder.layer(at, "softmax").from({"in"}).option("kind", std::string("gumbel"));
  Mesh counterparts = must(Mesh::build(builder.output("y", {0, 0, 1, 0}).spec()));
  must(counterparts.tick(3));
  EXPECT_NE(bits(output_of(counterparts, {0, 0, 0, 0})), bits(output_of(counterparts, {0, 0, 1, 0})));
}

// Streams were numbered by rows: a session added after one was removed took over the noise of one that still runs.
TEST(GumbelSoftmax, GivesASessionNoiseThatNoneEverHad) {
  const auto output = [](const Mesh& of, std::size_t b) { return bits(output_of(of, {0, 0, 2, 0}, b)); };
  // Outputs of sessions 0 to 5 at each of their first ticks, when each is there from the start.
  Mesh all = mesh_of(6);
  std::vector<std::set<std::vector<std::uint32_t>>> said(6);
  for (std::uint64_t tick = 0; tick < 4; ++tick) {
    hashes_of_run(all, 0, 1);
    for (std::size_t b = 0; b < 6; ++b) said[b].insert(output(all, b));
  }
  Mesh mesh = mesh_of(3);
  hashes_of_run(mesh, 0, 1);
  must(mesh.remove_session(1));
  EXPECT_EQ(must(mesh.add_session()), 2u);
  must(mesh.remove_session(2));
  EXPECT_EQ(must(mesh.add_session()), 2u);
  const auto expect_as_fifth = [&](Mesh& of) {
    // Hidden states reach the output two ticks later.
    for (std::uint64_t tick = 0; tick < 3; ++tick) hashes_of_run(of, 0, 1);
    EXPECT_TRUE(said[4].contains(output(of, 2)));
  };
  // A file keeps the count.
  Mesh resumed = mesh_of_file(must(encode_mesh(mesh, true)));
  expect_as_fifth(resumed);
  must(resumed.add_session());
  for (std::uint64_t tick = 0; tick < 3; ++tick) hashes_of_run(resumed, 0, 1);
  EXPECT_TRUE(said[5].contains(output(resumed, 3)));

  expect_as_fifth(mesh);
  // A reset session, or cell, keeps its stream and begins it again.
  must(mesh.reset_session(2));
  expect_as_fifth(mesh);
  std::set<std::vector<std::uint32_t>> now;
  for (std::size_t b = 0; b < 3; ++b) now.insert(output(mesh, b));
  EXPECT_EQ(now.size(), 3u);
  post(mesh, {0, 0, 2, 0}, CommandKind::reset);
  hashes_of_run(mesh, 0, 1);
  const auto hidden = MeshAccess::state(mesh).hidden(*mesh.graph().find_layer({0, 0, 2, 0}), mesh.ticks());
  EXPECT_EQ(std::vector<float>(hidden.row(2), hidden.row(2) + 4), std::vector<float>({0, 0, 5, 0}));
}

TEST(GumbelSoftmax, DrawsInAPassWhatSessionsDrawFirst) {
  NetworkBuilder builder("one", {1, 1, 1, 1});
  builder.input("in", 6).layer({0, 0, 0, 0}, "softmax").option("kind", std::string("gumbel"));
  Mesh mesh = must(Mesh::build(builder.output("y", {0, 0, 0, 0}).seed(8).spec(), {.threads = 1, .sessions = 3}));
  const std::vector<float> in = noise(3 * 6, 10);
  std::vector<float> out(in.size());
  const RunInput input{"in", in};
  const RunOutput output{"y", out};
  must(mesh.forward({&input, 1}, 3, {&output, 1}));
  for (std::size_t b = 0; b < 3; ++b) must(mesh.set_input("in", std::span(in).subspan(6 * b, 6), b));
  must(mesh.tick());
  for (std::size_t b = 0; b < 3; ++b)
    EXPECT_EQ(bits(output_of(mesh, {0, 0, 0, 0}, b)), bits(std::span(out).subspan(6 * b, 6)));
}

}  // namespace
}  // namespace weft::mesh::softmax_test
