// SPDX-License-Identifier: Apache-2.0

// Every row of mesh/layers/layers.def against a float64 model written apart, and the model's finite differences.

#include "mesh/network/layer.hpp"

#include "kernels/cpu_stream.hpp"
#include "kernels/float_environment.hpp"
#include "kernels/linear.hpp"
#include "kernels/unary.hpp"

#include "core/aligned_buffer.hpp"

#include "convolution_models.hpp"
#include "layer_models.hpp"
#include "testing.hpp"
#include <algorithm>
#include <functional>
#include <set>

namespace weft::mesh::layers_test {
namespace {

using kernels::Activation;
using models::activate;
using models::Model;
using models::Outcome;
using models::Vector;
using testing_support::bits;
using testing_support::expect_error;
using testing_support::must;
using testing_support::noise;

struct Case {
  std::string label, type;
  std::size_t in, out;
  Options options;
  Model model;
  Shape shape{};                    // of the input, when that is not a vector
  bool sends_back = true;           // false: it looks, and what it looks at is not to change for that
  std::vector<LayerSpec> layers{};  // inside it
  bool learns = true;               // false: its parameters are numbers of the network, and stay
};

Model dense_model(Activation activation) {
  return [=](const std::vector<Vector>& p, const Vector& x, const Vector&) {
    const std::size_t out = p[0].size() / x.size();
    Outcome outcome;
    for (std::size_t o = 0; o < out; ++o) {
      double z = p.size() > 1 ? p[1][o] : 0.0;
      for (std::size_t k = 0; k < x.size(); ++k) z += p[0][o * x.size() + k] * x[k];
      outcome.y.push_back(activate(activation, z));
    }
    return outcome;
  };
}

LayerSpec dense_layer(std::size_t out, Activation activation) {
  LayerSpec spec;
  spec.type = "dense";
  spec.out = out;
  spec.options = {{"activation", std::string(kernels::name(activation))}};
  return spec;
}

/// Two dense layers with biases: one after the other, or both over the input and their outputs added.
Model two_dense(Activation first, Activation second, bool side_by_side) {
  return [=](const std::vector<Vector>& p, const Vector& x, const Vector& state) {
    const std::vector<Vector> own{p[0], p[1]}, next{p[2], p[3]};
    Outcome outcome = dense_model(first)(own, x, state);
    if (!side_by_side) return dense_model(second)(next, outcome.y, state);
    const Outcome other = dense_model(second)(next, x, state);
    for (std::size_t i = 0; i < outcome.y.size(); ++i) outcome.y[i] += other.y[i];
    return outcome;
  };
}

Model elementwise(Activation activation) {
  return [=](const std::vector<Vector>&, const Vector& x, const Vector&) {
    Outcome outcome;
    for (const double v : x) outcome.y.push_back(activate(activation, v));
    return outcome;
  };
}

Model rms_norm_model(double epsilon) {
  return [=](const std::vector<Vector>& p, const Vector& x, const Vector&) {
    double squares = 0;
    for (const double v : x) squares += v * v;
    Outcome outcome;
    for (std::size_t j = 0; j < x.size(); ++j)
      outcome.y.push_back(x[j] / std::sqrt(squares / static_cast<double>(x.size()) + epsilon) * p[0][j]);
    return outcome;
  };
}

/// Parameters as the layer keeps them: the means, and the reciprocals of the deviations.
Model standardize_model() {
  return [](const std::vector<Vector>& p, const Vector& x, const Vector&) {
    Outcome outcome;
    for (std::size_t i = 0; i < x.size(); ++i) outcome.y.push_back((x[i] - p[0][i]) * p[1][i]);
    return outcome;
  };
}

Case standardize_case(std::size_t width) {
  const std::vector<double> mean(width, 0.25), deviation(width, 2.0);
  Case made{"standardize_" + std::to_string(width), "standardize", width, width, {}, standardize_model()};
  made.options = {{"mean", mean}, {"deviation", deviation}};
  made.learns = false;
  return made;
}

Model layer_norm_model(double epsilon) {
  return [=](const std::vector<Vector>& p, const Vector& x, const Vector&) {
    const double n = static_cast<double>(x.size());
    double mean = 0, variance = 0;
    for (const double v : x) mean += v / n;
    for (const double v : x) variance += (v - mean) * (v - mean) / n;
    Outcome outcome;
    for (std::size_t j = 0; j < x.size(); ++j)
      outcome.y.push_back((x[j] - mean) / std::sqrt(variance + epsilon) * p[0][j] + p[1][j]);
    return outcome;
  };
}

Model softmax_model(double temperature) {
  return [=](const std::vector<Vector>&, const Vector& x, const Vector&) {
    double sum = 0;
    Outcome outcome;
    for (const double v : x) sum += std::exp(v / temperature);
    for (const double v : x) outcome.y.push_back(std::exp(v / temperature) / sum);
    return outcome;
  };
}

/// alpha-entmax by halving an interval for the threshold -exp((alpha - 1) log_top).
Model entmax_model(double alpha, double temperature) {
  return [=](const std::vector<Vector>&, const Vector& x, const Vector&) {
    const double top = *std::max_element(x.begin(), x.end());
    const auto p = [&](double v, double log_top) {
      const double u = (alpha - 1) * (v - top) / temperature + std::exp((alpha - 1) * log_top);
      return u > 0 ? std::pow(u, 1 / (alpha - 1)) : 0.0;
    };
    double low = -std::log(static_cast<double>(x.size())) - 1e-9, high = 0;
    for (int step = 0; step < 100; ++step) {
      double sum = 0;
      for (const double v : x) sum += p(v, (low + high) / 2);
      (sum < 1 ? low : high) = (low + high) / 2;
    }
    Outcome outcome;
    for (const double v : x) outcome.y.push_back(p(v, high));
    return outcome;
  };
}

Model in_groups(const Model& model, std::size_t groups) {
  return [=](const std::vector<Vector>& p, const Vector& x, const Vector&) {
    Outcome all;
    const auto width = static_cast<std::ptrdiff_t>(x.size() / groups);
    for (auto from = x.begin(); from != x.end(); from += width) {
      const Outcome part = model(p, Vector(from, from + width), {});
      all.y.insert(all.y.end(), part.y.begin(), part.y.end());
    }
    return all;
  };
}

Model integrator_model(double rate) {
  return [=](const std::vector<Vector>&, const Vector& x, const Vector& h) {
    Outcome outcome;
    for (std::size_t j = 0; j < x.size(); ++j) outcome.y.push_back((1.0 - rate) * h[j] + rate * x[j]);
    outcome.next = outcome.y;
    return outcome;
  };
}

/// A layer of windows over `slide`, options as the slide says.
Case windows_case(const std::string& label, const std::string& type, const models::Slide& s, Model model,
                  Options options = {}) {
  const bool is_transposed = type.starts_with("conv_transposed"), is_pool = type.ends_with("_pool");
  Case made{label, type, 1, is_pool ? 0u : static_cast<std::size_t>(s.out), std::move(options), std::move(model)};
  const auto list = [](const int(&numbers)[3]) { return std::vector<double>(numbers, numbers + 3); };
  for (const int n : s.in) made.shape.push_back(static_cast<std::size_t>(n)), made.in *= static_cast<std::size_t>(n);
  made.options["kernel"] = list(s.kernel);
  made.options["stride"] = list(s.stride);
  made.options["padding"] = list(s.padding);
  if (type != "avg_pool") made.options["dilation"] = list(s.dilation);
  if (is_transposed) made.options["output_padding"] = list(s.output_padding);
  if (!is_pool) made.options["groups"] = static_cast<double>(s.groups);
  if (is_pool) return made;
  // A layer of one or two axes is that of three with extents of 1.
  const std::size_t axes = static_cast<std::size_t>(type[type.size() - 2] - '0');
  made.shape.erase(made.shape.begin() + 1, made.shape.end() - static_cast<std::ptrdiff_t>(axes));
  for (const char* key : {"kernel", "stride", "padding", "dilation", "output_padding"})
    if (const auto found = made.options.find(key); found != made.options.end()) {
      auto& numbers = std::get<std::vector<double>>(found->second);
      numbers.erase(numbers.begin(), numbers.end() - static_cast<std::ptrdiff_t>(axes));
    }
  return made;
}

void add_windows(std::vector<Case>& all) {
  using models::Slide;
  const Slide row{{2, 1, 1, 9}, 3, {1, 1, 4}, {1, 1, 2}, {0, 0, 2}, {1, 1, 2}, {0, 0, 1}, 1};
  const Slide plane{{4, 1, 4, 5}, 6, {1, 3, 2}, {1, 1, 2}, {0, 1, 1}, {1, 1, 1}, {0, 0, 1}, 2};
  const Slide dense{{3, 1, 5, 4}, 5, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}, {0, 0, 0}, 1};
  const Slide depthwise{{3, 1, 5, 4}, 3, {1, 3, 2}, {1, 1, 1}, {0, 1, 0}, {1, 1, 1}, {0, 0, 0}, 3};
  const Slide solid{{2, 3, 4, 3}, 2, {2, 3, 2}, {1, 2, 1}, {1, 1, 0}, {1, 1, 1}, {0, 1, 0}, 1};
  const std::pair<const char*, Slide> slides[] = {
      {"1d", row}, {"2d", plane}, {"2d", dense}, {"2d", depthwise}, {"3d", solid}};
  int number = 0;
  for (const auto& [axes, slide] : slides)
    for (const bool is_transposed : {false, true})
      for (const auto& [activation, bias] : {std::pair{Activation::linear, false}, {Activation::silu, true}}) {
        const std::string type = std::string(is_transposed ? "conv_transposed" : "conv") + axes;
        all.push_back(windows_case(type + "_" + std::to_string(number++), type, slide,
                                   models::convolution(slide, is_transposed, bias, activation),
                                   {{"bias", bias}, {"activation", std::string(kernels::name(activation))}}));
      }
  const Slide pools[] = {{{2, 1, 4, 6}, 0, {1, 2, 2}, {1, 2, 2}},
                         {{3, 1, 5, 7}, 0, {1, 3, 3}, {1, 2, 1}, {0, 1, 1}},
                         {{2, 3, 4, 5}, 0, {2, 2, 3}, {1, 2, 2}, {1, 1, 0}}};
  for (const Slide& slide : pools) {
    const std::string n = "_" + std::to_string(number++);
    all.push_back(windows_case("max_pool" + n, "max_pool", slide, models::pool(slide, models::Pooled::largest)));
    all.push_back(windows_case("avg_pool" + n, "avg_pool", slide, models::pool(slide, models::Pooled::mean_of_kernel)));
    all.push_back(windows_case("avg_pool_of_elements" + n, "avg_pool", slide,
                               models::pool(slide, models::Pooled::mean_of_elements), {{"count_include_pad", false}}));
  }
  for (const bool largest : {true, false}) {
    const std::string type = largest ? "adaptive_max_pool" : "adaptive_avg_pool";
    all.push_back({type,
                   type,
                   70,
                   0,
                   {{"size", std::vector<double>{3, 4}}},
                   models::adaptive_pool(2, 5, 7, 3, 4, largest),
                   Shape{2, 5, 7}});
  }
}

std::vector<Case> cases() {
  std::vector<Case> all;
  add_windows(all);
  for (int i = 0; i < kernels::kActivationCount; ++i) {
    const auto activation = static_cast<Activation>(i);
    const std::string text(kernels::name(activation));
    all.push_back({"dense_" + text, "dense", 19, 17, {{"activation", text}}, dense_model(activation)});
    all.push_back({"activation_" + text, "activation", 21, 21, {{"activation", text}}, elementwise(activation)});
  }
  all.push_back({"dense_wide", "dense", 131, 65, {{"activation", std::string("tanh")}}, dense_model(Activation::tanh)});
  all.push_back({"dense_one", "dense", 1, 1, {}, dense_model(Activation::linear)});
  all.push_back({"dense_without_bias", "dense", 16, 16, {{"bias", false}}, dense_model(Activation::linear)});
  all.push_back({"activation_unnamed_is_relu", "activation", 8, 8, {}, elementwise(Activation::relu)});
  for (const std::size_t width : {1, 13, 64, 65, 131}) {
    const std::string n = "_" + std::to_string(width);
    all.push_back({"identity" + n, "identity", width, width, {}, elementwise(Activation::linear)});
    all.push_back({"residual" + n, "residual", width, width, {}, elementwise(Activation::linear)});
    all.push_back(standardize_case(width));
    all.push_back({"rms_norm" + n, "rms_norm", width, width, {}, rms_norm_model(1e-5)});
    all.push_back({"softmax" + n, "softmax", width, width, {}, softmax_model(1.0)});
    all.push_back({"leaky_integrator" + n, "leaky_integrator", width, width, {}, integrator_model(0.5)});
    // One value less its mean is nothing: with a width of 1 only the bias is left.
    all.push_back({"layer_norm" + n, "layer_norm", width, width, {}, layer_norm_model(1e-5)});
  }
  for (const auto& [in, out] : {std::pair<std::size_t, std::size_t>{1, 1}, {7, 5}, {3, 17}, {13, 13}})
    for (const bool bias : {true, false}) {
      const std::string n = "_" + std::to_string(in) + "_" + std::to_string(out) + (bias ? "" : "_without_bias");
      const Options options{{"bias", bias}};
      all.push_back({"rnn" + n, "rnn", in, out, options, models::rnn(out, bias, Activation::tanh)});
      all.push_back({"lstm" + n, "lstm", in, out, options, models::lstm(out, bias)});
      all.push_back({"gru" + n, "gru", in, out, options, models::gru(out, bias)});
      for (const Activation gate : {Activation::silu, Activation::gelu, Activation::relu2}) {
        const std::string text(kernels::name(gate));
        all.push_back({"swiglu_" + text + n,
                       "swiglu",
                       in,
                       out,
                       {{"bias", bias}, {"gate", text}, {"hidden", 9.0}},
                       models::swiglu(9, bias, gate)});
      }
    }
  all.push_back(
      {"rnn_relu", "rnn", 6, 9, {{"activation", std::string("relu")}}, models::rnn(9, true, Activation::relu)});
  all.push_back({"swiglu_unnamed", "swiglu", 7, 7, {}, models::swiglu(32, false, Activation::silu)});
  all.push_back({"rms_norm_epsilon", "rms_norm", 13, 13, {{"epsilon", 0.25}}, rms_norm_model(0.25)});
  all.push_back({"layer_norm_epsilon", "layer_norm", 13, 13, {{"epsilon", 0.25}}, layer_norm_model(0.25)});
  all.push_back({"softmax_hot", "softmax", 13, 13, {{"temperature", 3.0}}, softmax_model(3.0)});
  all.push_back({"softmax_cold", "softmax", 13, 13, {{"temperature", 0.5}}, softmax_model(0.5)});
  for (const auto& [kind, alpha] : {std::pair<std::string, double>{"standard", 1}, {"sparsemax", 2}, {"entmax", 1.5}})
    for (const auto& [width, groups] : {std::pair<std::size_t, double>{12, 1}, {12, 2}, {12, 4}, {13, 13}, {130, 2}})
      for (const double t : {1.0, 2.5}) {
        const Model whole = alpha == 1 ? softmax_model(t) : entmax_model(alpha, t);
        all.push_back({"softmax_" + kind + "_" + std::to_string(width) + "_in_" + std::to_string(int(groups)) +
                           (t == 1 ? "" : "_hot"),
                       "softmax",
                       width,
                       width,
                       {{"kind", kind}, {"groups", groups}, {"temperature", t}},
                       in_groups(whole, static_cast<std::size_t>(groups))});
      }
  for (const auto& [label, alpha] : {std::pair<std::string, double>{"1_1", 1.1}, {"1_75", 1.75}, {"2", 2}, {"3", 3}})
    all.push_back({"softmax_entmax_alpha_" + label,
                   "softmax",
                   13,
                   13,
                   {{"kind", std::string("entmax")}, {"alpha", alpha}, {"temperature", 0.5}},
                   entmax_model(alpha, 0.5)});
  // Axes 0 and 2 of [2, 3, 2]: an entry's part is its index along axis 1.
  all.push_back({"softmax_grid",
                 "softmax",
                 12,
                 12,
                 {{"kind", std::string("grid")}, {"axes", std::vector<double>{0, 2}}, {"temperature", 0.7}},
                 models::softmax_of_parts({0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2}, 0.7),
                 {2, 3, 2}});
  all.push_back({"softmax_masked",
                 "softmax",
                 10,
                 10,
                 {{"kind", std::string("masked")}, {"mask", std::vector<double>{1, 0, 1, 1, 0}}, {"temperature", 2.0}},
                 models::softmax_of_parts({0, -1, 0, 0, -1, 1, -1, 1, 1, -1}, 2.0),
                 {2, 5}});
  all.push_back({"softmax_tree",
                 "softmax",
                 15,
                 12,
                 {{"kind", std::string("hierarchical")}, {"branches", std::vector<double>{3, 4}}},
                 models::softmax_tree(3, 4)});
  all.push_back({"softmax_entmax_alpha_1",
                 "softmax",
                 13,
                 13,
                 {{"kind", std::string("entmax")}, {"alpha", 1.0}},
                 softmax_model(1)});
  for (const bool is_euclidean : {false, true})
    for (const auto& [output, width] :
         {std::pair<std::string, std::size_t>{"probabilities", 5}, {"features", 7}, {"both", 12}})
      all.push_back({"kmeans_" + output + (is_euclidean ? "_euclidean" : ""),
                     "kmeans",
                     7,
                     width,
                     {{"clusters", 5.0},
                      {"temperature", 2.5},
                      {"output", output},
                      {"distance", std::string(is_euclidean ? "euclidean" : "squared")}},
                     models::kmeans(5, 2.5, is_euclidean, output != "features", output != "probabilities")});
  for (const bool bias : {false, true})
    for (const bool is_log : {false, true}) {
      const std::string output = is_log ? "log_probabilities" : "probabilities";
      const std::string label = "_of_" + output + (bias ? "" : "_without_bias");
      all.push_back(
          {"adaptive_softmax" + label,
           "adaptive_softmax",
           9,
           21,
           {{"cutoffs", std::vector<double>{3, 8}}, {"div_value", 2.0}, {"head_bias", bias}, {"output", output}},
           models::adaptive_softmax(3, bias, is_log)});
      all.push_back({"mixture_of_softmaxes" + label,
                     "mixture_of_softmaxes",
                     6,
                     11,
                     {{"components", 3.0}, {"hidden", 5.0}, {"bias", bias}, {"output", output}},
                     models::mixture_of_softmaxes(5, bias, is_log)});
    }
  all.push_back({"sequential", "sequential", 5, 3, {}, two_dense(Activation::tanh, Activation::silu, false)});
  all.back().layers = {dense_layer(7, Activation::tanh), dense_layer(3, Activation::silu)};
  all.push_back({"parallel",
                 "parallel",
                 5,
                 3,
                 {{"merge", std::string("add")}},
                 two_dense(Activation::tanh, Activation::sigmoid, true)});
  all.back().layers = {dense_layer(3, Activation::tanh), dense_layer(3, Activation::sigmoid)};
  all.push_back({"metacognition",
                 "metacognition",
                 13,
                 4,
                 {{"above", 2.0}, {"active_above", 0.5}},
                 models::statistics(1, 0.5),
                 {},
                 false});
  all.push_back({"metacognition_of_two",
                 "metacognition",
                 26,
                 8,
                 {{"above", 2.0}, {"action", std::string("swap")}, {"active_above", 0.5}},
                 models::statistics(2, 0.5),
                 {},
                 false});
  // Nobody learns from these rows; dropout_test.cpp has those that are learned from.
  all.push_back({"dropout", "dropout", 13, 13, {{"rate", 0.25}}, [](const auto&, const Vector& x, const Vector& state) {
                   return Outcome{x, state};
                 }});
  for (const double heads : {1.0, 2.0, 6.0})
    all.push_back({"attention_" + std::to_string(int(heads)),
                   "attention",
                   6,
                   5,
                   {{"heads", heads}, {"head_dim", 3.0}},
                   models::lone_attention()});
  for (const std::size_t tokens : {1, 4})
    all.push_back(
        {"embedding_" + std::to_string(tokens), "embedding", tokens, 5, {{"vocabulary", 3.0}}, models::embedding(3)});
  all.push_back({"leaky_integrator_slow", "leaky_integrator", 13, 13, {{"rate", 0.125}}, integrator_model(0.125)});
  all.push_back({"leaky_integrator_whole", "leaky_integrator", 13, 13, {{"rate", 1.0}}, integrator_model(1.0)});
  return all;
}

/// A matrix whose rows stand apart between values that no layer may touch.
class Block {
 public:
  Block(std::size_t rows, std::size_t cols, std::vector<float> values = {})
      : rows_(rows), cols_(cols), stride_((cols + 15) / 16 * 16 + 16), data_(rows * stride_) {
    std::fill(data_.begin(), data_.end(), kGap);
    for (std::size_t b = 0; b < rows && !values.empty(); ++b)
      std::copy_n(values.data() + b * cols, cols, data_.data() + b * stride_);
  }
  kernels::MatrixView view() {
    return cols_ ? kernels::MatrixView{data_.data(), rows_, cols_, stride_} : kernels::MatrixView{};
  }
  kernels::MatrixView row(std::size_t b) {
    return cols_ ? kernels::MatrixView{data_.data() + b * stride_, 1, cols_, stride_} : kernels::MatrixView{};
  }
  float at(std::size_t b, std::size_t j) const { return data_[b * stride_ + j]; }
  Vector wide(std::size_t b) const { return {data_.begin() + b * stride_, data_.begin() + b * stride_ + cols_}; }
  std::vector<float> values() const {
    std::vector<float> out;
    for (std::size_t b = 0; b < rows_; ++b)
      out.insert(out.end(), data_.begin() + b * stride_, data_.begin() + b * stride_ + cols_);
    return out;
  }
  bool gaps_intact() const {
    for (std::size_t i = 0; i < data_.size(); ++i)
      if (i % stride_ >= cols_ && data_[i] != kGap) return false;
    return true;
  }

 private:
  static constexpr float kGap = 7654321.0f;
  std::size_t rows_, cols_, stride_;
  AlignedBuffer<float> data_;
};

/// A layer with random parameters, inputs and gradients of its outputs.
class Bench {
 public:
  Bench(const Case& tested, std::size_t rows) : rows_(rows) {
    LayerSpec spec;
    spec.type = tested.type;
    if (tested.layers.empty() && (tested.type == "dense" || tested.out != tested.in)) spec.out = tested.out;
    spec.options = tested.options;
    spec.layers = tested.layers;
    layer = must(make_layer(spec, tested.shape.empty() ? Shape{tested.in} : tested.shape, "layer"));
    x = Block(rows, tested.in, noise(rows * tested.in, 1));
    state = Block(rows, layer->state_size(), noise(rows * layer->state_size(), 2));
    dy = noise(rows * layer->out(), 3);
    dnext = Block(rows, layer->state_size(), noise(rows * layer->state_size(), 4));
    y = Block(rows, layer->out());
    z = Block(rows, layer->needs_preactivation() ? layer->out() : 0);
    cache = Block(rows, layer->cache_size());
    next = Block(rows, layer->state_size());
    workspace = AlignedBuffer<float>(layer->workspace_size());
    for (std::size_t i = 0; i < layer->parameters().size(); ++i) {
      const ParameterSpec& p = layer->parameters()[i];
      plain.push_back(noise(p.out * std::max<std::size_t>(p.in, 1), 10 + i, p.is_matrix() ? 0.3f : 1.0f));
      weights.push_back(stored(p, plain.back()));
      kernels::ConstWeight view(kernels::ConstPanels{weights.back().data(), p.out, p.in});
      pointers.push_back(view);
    }
  }

  static AlignedBuffer<float> stored(const ParameterSpec& p, const std::vector<float>& values) {
    AlignedBuffer<float> buffer(p.stored_size());
    if (p.is_matrix())
      kernels::pack_panels({values.data(), p.out, p.in, p.in}, {buffer.data(), p.out, p.in});
    else
      std::copy(values.begin(), values.end(), buffer.begin());
    return buffer;
  }

  void forward() {
    layer->forward(
        stream,
        {{pointers.data()}, x.view(), z.view(), y.view(), cache.view(), state.view(), next.view(), workspace.data()});
  }
  void forward_row(std::size_t b) {
    layer->forward(
        stream,
        {{pointers.data()}, x.row(b), z.row(b), y.row(b), cache.row(b), state.row(b), next.row(b), workspace.data()});
  }

  struct Backward {
    Block dx, dstate;
    std::vector<AlignedBuffer<float>> gradients;
  };
  Backward backward(bool wants_dx, bool wants_gradients, float before = 0.0f) {
    Backward out{Block(rows_, layer->in()), Block(rows_, layer->state_size()), {}};
    std::vector<float*> gradients;
    for (const ParameterSpec& p : layer->parameters()) {
      const std::vector<float> filled(p.out * std::max<std::size_t>(p.in, 1), before);
      out.gradients.push_back(stored(p, filled));
    }
    for (auto& gradient : out.gradients) gradients.push_back(gradient.data());
    Block down(rows_, layer->out(), dy);
    BackwardArgs args;
    args.weights = {pointers.data()};
    args.x = x.view(), args.z = z.view(), args.y = y.view(), args.cache = cache.view(), args.state = state.view();
    args.dy = down.view();
    if (wants_gradients) args.gradients = {gradients.data()};
    if (wants_dx) args.dx = out.dx.view();
    args.dnext_state = dnext.view();
    args.dstate = out.dstate.view();
    Block scratch(rows_, layer->scratch_size());
    args.scratch = scratch.view();
    args.workspace = workspace.data();
    layer->backward(stream, args);
    EXPECT_TRUE(scratch.gaps_intact());
    return out;
  }

  std::vector<Vector> wide_parameters() const {
    std::vector<Vector> out;
    for (const auto& p : plain) out.emplace_back(p.begin(), p.end());
    return out;
  }

  std::unique_ptr<Layer> layer;
  Block x{0, 0}, state{0, 0}, dnext{0, 0}, y{0, 0}, z{0, 0}, cache{0, 0}, next{0, 0};
  std::vector<float> dy;
  std::vector<std::vector<float>> plain;
  AlignedBuffer<float> workspace;
  std::vector<AlignedBuffer<float>> weights;
  std::vector<kernels::ConstWeight> pointers;
  kernels::CpuStream stream;
  kernels::FlushSubnormals exact;

 private:
  std::size_t rows_;
};

/// The loss whose gradients backward gives: sum of dy y + dnext next.
double loss(const Case& tested, const Bench& bench, const std::vector<Vector>& parameters, std::size_t b,
            const Vector& x, const Vector& state) {
  const Outcome outcome = tested.model(parameters, x, state);
  double sum = 0;
  for (std::size_t j = 0; j < outcome.y.size(); ++j) sum += bench.dy[b * outcome.y.size() + j] * outcome.y[j];
  for (std::size_t j = 0; j < outcome.next.size(); ++j) sum += bench.dnext.at(b, j) * outcome.next[j];
  return sum;
}

double slope(double& value, const std::function<double()>& f) {
  const double kept = value, step = 1e-5;
  value = kept + step;
  const double above = f();
  value = kept - step;
  const double below = f();
  value = kept;
  return (above - below) / (2 * step);
}

// Rounding of float32 sums of at most 131 terms of magnitude about `scale`; finite differences err by 1e-9.
void expect_near(const std::vector<float>& got, const Vector& want, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  double scale = 1.0;
  for (const double v : want) scale = std::max(scale, std::fabs(v));
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], 4e-6 * scale) << what << ", element " << i;
}

class EveryLayer : public testing::TestWithParam<Case> {};

TEST_P(EveryLayer, ComputesWhatTheFloat64ModelDoes) {
  for (const std::size_t rows : {1, 3}) {
    Bench bench(GetParam(), rows);
    bench.forward();
    Vector y, next;
    for (std::size_t b = 0; b < rows; ++b) {
      const Outcome outcome = GetParam().model(bench.wide_parameters(), bench.x.wide(b), bench.state.wide(b));
      y.insert(y.end(), outcome.y.begin(), outcome.y.end());
      next.insert(next.end(), outcome.next.begin(), outcome.next.end());
    }
    expect_near(bench.y.values(), y, "y");
    expect_near(bench.next.values(), next, "next state");
    for (const Block* block : {&bench.y, &bench.z, &bench.cache, &bench.next}) EXPECT_TRUE(block->gaps_intact());
  }
}

TEST_P(EveryLayer, SendsBackTheModelsFiniteDifferences) {
  for (const std::size_t rows : {1, 3}) {
    Bench bench(GetParam(), rows);
    bench.forward();
    const auto got = bench.backward(true, true);
    std::vector<Vector> parameters = bench.wide_parameters();
    Vector dx, dstate;
    for (std::size_t b = 0; b < rows; ++b) {
      Vector x = bench.x.wide(b), state = bench.state.wide(b);
      const auto f = [&] { return loss(GetParam(), bench, parameters, b, x, state); };
      for (double& v : x) dx.push_back(GetParam().sends_back ? slope(v, f) : 0.0);
      for (double& v : state) dstate.push_back(slope(v, f));
    }
    expect_near(got.dx.values(), dx, "dx");
    expect_near(got.dstate.values(), dstate, "dstate");
    EXPECT_TRUE(got.dx.gaps_intact() && got.dstate.gaps_intact());
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const ParameterSpec& p = bench.layer->parameters()[i];
      Vector want;
      for (double& v : parameters[i])
        want.push_back(slope(v, [&] {
          double sum = 0;
          for (std::size_t b = 0; b < rows; ++b)
            sum += loss(GetParam(), bench, parameters, b, bench.x.wide(b), bench.state.wide(b));
          return sum;
        }));
      std::vector<float> gradient(want.size());
      if (p.is_matrix())
        kernels::unpack_panels({got.gradients[i].data(), p.out, p.in}, {gradient.data(), p.out, p.in, p.in});
      else
        std::copy_n(got.gradients[i].data(), gradient.size(), gradient.data());
      expect_near(gradient, GetParam().learns ? want : Vector(want.size(), 0.0), p.name);
    }
  }
}

TEST_P(EveryLayer, AddsToGradientsAndComputesOnlyWhatIsWanted) {
  Bench bench(GetParam(), 3);
  bench.forward();
  const auto whole = bench.backward(true, true), on_top = bench.backward(true, true, 1.0f);
  const auto without_dx = bench.backward(false, true), without_gradients = bench.backward(true, false);
  EXPECT_EQ(bits(without_gradients.dx.values()), bits(whole.dx.values()));
  EXPECT_EQ(bits(without_dx.dstate.values()), bits(whole.dstate.values()));
  for (std::size_t i = 0; i < whole.gradients.size(); ++i) {
    EXPECT_EQ(bits(without_dx.gradients[i]), bits(whole.gradients[i]));
    for (std::size_t k = 0; k < whole.gradients[i].size(); ++k)
      EXPECT_NEAR(on_top.gradients[i][k], whole.gradients[i][k] + (on_top.gradients[i][k] == 0.0f ? 0.0f : 1.0f),
                  2e-5f);
  }
}

TEST_P(EveryLayer, GivesARowTheSameBitsWhoeverElseIsInTheBatch) {
  Bench together(GetParam(), 3), alone(GetParam(), 3);
  together.forward();
  for (const std::size_t b : {2, 0, 1}) alone.forward_row(b);
  EXPECT_EQ(bits(together.y.values()), bits(alone.y.values()));
  EXPECT_EQ(bits(together.z.values()), bits(alone.z.values()));
  EXPECT_EQ(bits(together.cache.values()), bits(alone.cache.values()));
  EXPECT_EQ(bits(together.next.values()), bits(alone.next.values()));
}

INSTANTIATE_TEST_SUITE_P(Layers, EveryLayer, testing::ValuesIn(cases()),
                         [](const auto& tested) { return tested.param.label; });

TEST(Layers, AreAllTestedHere) {
  std::set<std::string> tested;
  for (const Case& each : cases()) tested.insert(each.type);
  const auto types = layer_types();
  EXPECT_EQ(tested, std::set<std::string>(types.begin(), types.end()));
}

TEST(Layers, DrawWeightsFromTheirStatedDistribution) {
  // Moments of 200 x 300 draws; bounds of 5 standard errors.
  struct Kind {
    const char* name;
    double variance, bound;
  };
  const double n = 200.0 * 300.0;
  for (const Kind kind : {Kind{"xavier", 6.0 / 500.0 / 3.0, std::sqrt(6.0 / 500.0)}, Kind{"he", 2.0 / 300.0, 99},
                          Kind{"normal", 1.0 / 300.0, 99}, Kind{"uniform", 1.0 / 900.0, std::sqrt(1.0 / 300.0)},
                          Kind{"zero", 0.0, 0.0}}) {
    LayerSpec spec;
    spec.type = "dense";
    spec.out = 200;
    spec.options = {{"init", std::string(kind.name)}};
    const auto layer = must(make_layer(spec, 300, "layer"));
    std::vector<float> values(200 * 300, NAN), bias(200, NAN);
    RandomStream random(3, 0, RandomPurpose::init);
    layer->parameters()[0].init(random, values);
    layer->parameters()[1].init(random, bias);
    double sum = 0, squares = 0, largest = 0;
    for (const float v : values) {
      sum += v;
      squares += double{v} * v;
      largest = std::max(largest, std::fabs(double{v}));
    }
    EXPECT_LE(std::fabs(sum / n), 5 * std::sqrt(kind.variance / n)) << kind.name;
    EXPECT_LE(std::fabs(squares / n - kind.variance), 5 * kind.variance * std::sqrt(2.0 / n)) << kind.name;
    EXPECT_LE(largest, kind.bound * (1 + 1e-6)) << kind.name;
    for (const float v : bias) EXPECT_EQ(v, 0.0f);
  }
}

}  // namespace
}  // namespace weft::mesh::layers_test
