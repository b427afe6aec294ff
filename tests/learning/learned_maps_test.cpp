// SPDX-License-Identifier: Apache-2.0

// Learned inverses of the linear maps inside layers, against float64 maps written from docs/learning.md.

#include "learning/learner_snapshot.hpp"

#include "kernels/gumbel.hpp"

#include "core/cache_line.hpp"
#include "core/philox.hpp"

#include <gtest/gtest.h>

#include "networks.hpp"
#include <algorithm>
#include <array>
#include <cmath>

namespace weft::learning::learned_maps_test {
namespace {

using namespace mesh::testing_support;
using namespace test;
using Vector = std::vector<double>;

constexpr std::uint64_t kSeed = 77;
constexpr std::size_t kSide = 4;  // of images, tokens and their features

/// Maps that read the same values, by the numbers of their parameters. `window`: a convolution of a plane of kSide by
/// kSide with windows of 3 by 3 and a margin of 1, or its transpose.
struct Group {
  std::vector<std::size_t> parameters;
  std::size_t in;
  std::vector<std::size_t> out;
  enum Kind { rows, windows, transposed } kind = rows;
};
struct Subject {
  std::string type;
  mesh::Options options;
  std::vector<Group> groups;
  Shape view{kSide, kSide};
};

std::vector<Subject> subjects() {
  constexpr std::size_t n = kSide, plane = kSide * kSide;
  return {{"attention", {{"heads", 2.0}}, {{{0, 1, 2}, n, {n, n, n}}, {{3}, n, {n}}}},
          {"swiglu", {{"hidden", 6.0}}, {{{0, 1}, n, {6, 6}}, {{2}, 6, {n}}}},
          {"lstm", {}, {{{0}, n, {4 * n}}, {{1}, n, {4 * n}}}},
          {"gru", {}, {{{0}, n, {3 * n}}, {{1}, n, {3 * n}}}},
          {"rnn", {}, {{{0}, n, {n}}, {{1}, n, {n}}}},
          {"dense", {{"activation", std::string("tanh")}}, {{{0}, n, {n}}}},
          {"conv2d",
           {{"kernel", 3.0}, {"padding", 1.0}, {"activation", std::string("relu")}},
           {{{0}, plane, {2 * plane}, Group::windows}},
           {1, kSide, kSide}},
          {"conv_transposed2d",
           {{"kernel", 3.0}, {"padding", 1.0}, {"activation", std::string("tanh")}},
           {{{0}, plane, {2 * plane}, Group::transposed}},
           {1, kSide, kSide}}};
}

/// Visits (o, k, p, q): value q of the image stands under tap k of window p.
template <class Visit>
void each_tap(const Visit& visit) {
  for (std::size_t p = 0; p < kSide * kSide; ++p)
    for (std::size_t k = 0; k < 9; ++k) {
      const std::size_t y = p / kSide + k / 3, x = p % kSide + k % 3;
      if (y >= 1 && y <= kSide && x >= 1 && x <= kSide) visit(k, p, (y - 1) * kSide + x - 1);
    }
}

/// y = W x of one map, or x = W^T y.
Vector mapped(const Group& group, const Vector& w, const Vector& x, std::size_t out, bool is_back) {
  constexpr std::size_t plane = kSide * kSide;
  Vector y(is_back ? group.in : out, 0.0);
  if (group.kind == Group::rows) {
    for (std::size_t o = 0; o < out; ++o)
      for (std::size_t k = 0; k < group.in; ++k)
        is_back ? y[k] += w[o * group.in + k] * x[o] : y[o] += w[o * group.in + k] * x[k];
    return y;
  }
  // A convolution has two channels that read one; of its transpose one channel gives two, 18 numbers a row.
  const bool to_windows = (group.kind == Group::windows) != is_back;
  for (std::size_t channel = 0; channel < 2; ++channel)
    each_tap([&](std::size_t k, std::size_t p, std::size_t q) {
      const double weight = w[channel * 9 + k];
      if (group.kind == Group::windows)
        to_windows ? y[channel * plane + p] += weight * x[q] : y[q] += weight * x[channel * plane + p];
      else
        to_windows ? y[p] += weight * x[channel * plane + q] : y[channel * plane + q] += weight * x[p];
    });
  return y;
}

/// w += scale times the slope of y . W x.
void add_product(const Group& group, Vector& w, const Vector& y, const Vector& x, double scale) {
  constexpr std::size_t plane = kSide * kSide;
  if (group.kind == Group::rows) {
    for (std::size_t o = 0; o < y.size(); ++o)
      for (std::size_t k = 0; k < x.size(); ++k) w[o * x.size() + k] += scale * y[o] * x[k];
    return;
  }
  for (std::size_t channel = 0; channel < 2; ++channel)
    each_tap([&](std::size_t k, std::size_t p, std::size_t q) {
      w[channel * 9 + k] +=
          scale * (group.kind == Group::windows ? y[channel * plane + p] * x[q] : y[channel * plane + q] * x[p]);
    });
}

/// The rest of `u` without its image under W and back, and the images beside each other.
std::pair<Vector, std::vector<Vector>> undone(const Group& group, const std::vector<Vector>& w,
                                              const std::vector<Vector>& back, Vector u) {
  std::vector<Vector> images;
  for (std::size_t i = 0; i < group.out.size(); ++i)
    images.push_back(mapped(group, w[group.parameters[i]], u, group.out[i], false));
  for (std::size_t i = 0; i < group.out.size(); ++i) {
    const Vector part = mapped(group, back[group.parameters[i]], images[i], group.out[i], true);
    for (std::size_t k = 0; k < u.size(); ++k) u[k] -= part[k];
  }
  return {u, images};
}

struct Made {
  LearningRun run;
  std::vector<Vector> weights;  // of the layer
  const mesh::Layer* layer;
};

Made make(const Subject& subject, Rule rule, bool is_frozen) {
  mesh::NetworkBuilder builder("maps", GridShape{1, 1, 3, 1});
  builder.input("x", 8).dense({0, 0, 0, 0}, kSide * kSide, kernels::Activation::tanh);
  builder.layer({0, 0, 1, 0}, subject.type, subject.type.starts_with("conv") ? 2 : kSide).view(subject.view);
  for (const auto& [key, value] : subject.options) builder.option(key, value);
  const std::size_t width = (subject.type.starts_with("conv") ? 2 : 1) * kSide * kSide;
  builder.dense({0, 0, 2, 0}, 3).view({width}).output("y", {0, 0, 2, 0}).seed(kSeed);
  mesh::NetworkSpec spec = builder.spec();
  spec.layers[1].is_frozen = is_frozen;
  LearningOptions options{.rule = rule};
  options.inverse_lr = is_frozen ? 0.05f : 0.02f;
  Made made{LearningRun(spec, options), {}, nullptr};
  made.layer = made.run.mesh->graph().nodes()[2].layer.get();
  for (const auto& each : made.run.weights({0, 0, 1, 0})) made.weights.emplace_back(each.begin(), each.end());
  return made;
}

std::vector<Vector> drawn(const mesh::Layer& layer) {
  std::vector<Vector> all;
  for (std::size_t i = 0; i < layer.parameters().size(); ++i) {
    RandomStream random(kSeed, 16 + i, RandomPurpose::feedback);
    const auto& spec = layer.parameters()[i];
    std::vector<float> values(spec.out * std::max<std::size_t>(spec.in, 1));
    spec.init(random, values);
    all.emplace_back(values.begin(), values.end());
  }
  return all;
}

/// The layer's part of the learner's state.
std::vector<Vector> learned(const Made& made) {
  const auto tensors = learner_tensors(*made.run.learner);
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [](const formats::Tensor& tensor) { return tensor.name == "learning/inverse/2"; });
  WEFT_ASSERT(found != tensors.end(), "the layer has learned inverses");
  const auto* values = reinterpret_cast<const float*>(found->bytes.data());
  std::vector<Vector> all;
  for (const auto& spec : made.layer->parameters()) {
    all.emplace_back();
    for (std::size_t i = 0; i < spec.out * std::max<std::size_t>(spec.in, 1); ++i)
      all.back().push_back(values[spec.is_matrix() ? kernels::panel_index(spec.in, i / spec.in, i % spec.in) : i]);
    values += padded(spec.stored_size());
  }
  return all;
}

TEST(LearnedMaps, MoveAsTheEquationsSay) {
  for (const Subject& subject : subjects())
    for (const Rule rule : {Rule::dtp, Rule::sdtp}) {
      Made made = make(subject, rule, false);
      std::vector<Vector> wanted = drawn(*made.layer);
      std::array<float, kernels::kNoiseState> place{};
      const kernels::MatrixView position{place.data(), 1, place.size(), place.size()};
      const std::array<std::uint32_t, 2> key{static_cast<std::uint32_t>(kSeed) ^ 0x9e3779b9u, 2u};
      for (const Group& group : subject.groups) {
        std::vector<float> zeros(group.in, 0.0f), first(group.in), second(group.in);
        const auto view = [](std::vector<float>& row) {
          return kernels::MatrixView{row.data(), 1, row.size(), row.size()};
        };
        for (auto* each : {&first, &second}) kernels::gumbel_noise(view(zeros), key, position, position, view(*each));
        Vector u;
        for (std::size_t k = 0; k < group.in; ++k)
          u.push_back((double{second[k]} - double{first[k]}) * std::sqrt(3.0) / 3.14159265358979323846);
        const auto [error, images] = undone(group, made.weights, wanted, u);
        double squares = 0;
        for (const Vector& image : images)
          for (const double v : image) squares += v * v;
        const double taps = group.kind == Group::rows ? 1 : 9, rate = std::min(0.02, 1 / (taps * squares));
        for (std::size_t i = 0; i < images.size(); ++i)
          add_product(group, wanted[group.parameters[i]], images[i], error, rate);
      }
      made.run.train(noise(8, 4), {1});
      const std::vector<Vector> found = learned(made);
      for (std::size_t p = 0; p < wanted.size(); ++p)
        for (std::size_t i = 0; i < wanted[p].size(); ++i)
          EXPECT_NEAR(found[p][i], wanted[p][i], 2e-6)
              << subject.type << " by " << name(rule) << ", parameter " << p << ", value " << i;
    }
}

double left_over(const Subject& subject, const Group& group, const std::vector<Vector>& w,
                 const std::vector<Vector>& back) {
  RandomStream random(3, 0, RandomPurpose::test);
  double left = 0, all = 0;
  for (int probe = 0; probe < 200; ++probe) {
    Vector u(group.in);
    for (double& v : u) v = random.next_normal();
    for (const double v : u) all += v * v;
    for (const double v : undone(group, w, back, u).first) left += v * v;
  }
  return left / all;
}

TEST(LearnedMaps, ComeToUndoTheirLayers) {
  for (const Subject& subject : subjects()) {
    Made made = make(subject, Rule::dtp, true);
    const std::vector<Vector> before = drawn(*made.layer);
    constexpr std::uint64_t kSamples = 4000;
    std::vector<std::uint32_t> labels;
    for (std::uint64_t s = 0; s < kSamples; ++s) labels.push_back(static_cast<std::uint32_t>(s % 3));
    made.run.train(noise(8 * kSamples, 4), labels, {}, kSamples);
    const std::vector<Vector> after = learned(made);
    for (const Group& group : subject.groups) {
      const double start = left_over(subject, group, made.weights, before);
      const double end = left_over(subject, group, made.weights, after);
      EXPECT_GT(start, 0.8) << subject.type;
      // Fewer values cannot tell of more: of six that become four, two are lost. The steps' own noise comes on top.
      std::size_t out = 0;
      for (const std::size_t each : group.out) out += each;
      const double lost = 1 - std::min(1.0, static_cast<double>(out) / static_cast<double>(group.in));
      EXPECT_LT(end, lost + 0.3) << subject.type << ", parameter " << group.parameters[0] << ", from " << start;
    }
  }
}

}  // namespace
}  // namespace weft::learning::learned_maps_test
