// SPDX-License-Identifier: Apache-2.0

#include "mesh/layers/mixture.hpp"

#include "mesh/layers/init.hpp"
#include "mesh/layers/tokens.hpp"
#include "mesh/network/option.hpp"
#include "mesh/network/option_reader.hpp"
#include "mesh/network/source_combine.hpp"

#include <string>
#include <utility>

namespace weft::mesh {
namespace {

using kernels::Activation;
using kernels::ConstMatrixView;
using kernels::MatrixView;

class Gate final : public Layer {
 public:
  Gate(const Shape& in, const GateOptions& gate)
      : Layer(in, with_features(in, gate.experts)), tokens_(in), gate_(gate) {}
  Gate(const Shape& in, const GateOptions& gate, Initializer init) : Gate(in, gate) {
    parameters_.push_back({"weight", gate.experts, in.back(), true, std::move(init), LinearMap{}});
  }
  const std::vector<ParameterSpec>& parameters() const noexcept override { return parameters_; }
  std::size_t state_size() const noexcept override { return gate_.balance > 0 ? gate_.experts : 0; }
  StateErrors state_errors() const noexcept override { return StateErrors::none; }
  double multiply_adds() const noexcept override {
    return has_weight() ? static_cast<double>(in()) * static_cast<double>(gate_.experts) : 0.0;
  }

  void forward(kernels::OpStream& stream, const ForwardArgs& args) const override {
    tokens_.each(args, [&](const ForwardArgs& own) {
      ConstMatrixView logits = own.x;
      if (has_weight()) {
        stream.linear({own.weights.matrix(0), nullptr, own.x, Activation::linear, {}, own.y});
        logits = own.y;
      }
      if (gate_.top_k != 0) {
        stream.top_k_mask({logits, gate_.top_k, own.y});
        logits = own.y;
      }
      stream.softmax({logits, gate_.temperature, own.y});
    });
    if (gate_.balance == 0) return;
    // m' = (1 - rate) m + rate / tokens * sum of p
    stream.scale({1.0f - gate_.balance_rate, args.state, args.next_state});
    const float share = gate_.balance_rate / static_cast<float>(tokens_.count());
    for (std::size_t t = 0; t < tokens_.count(); ++t)
      stream.axpy({share, columns(ConstMatrixView(args.y), t * gate_.experts, gate_.experts), args.next_state});
  }

  void backward(kernels::OpStream& stream, const BackwardArgs& args) const override {
    if (gate_.balance > 0) {
      const float slope = gate_.balance * static_cast<float>(gate_.experts) / static_cast<float>(tokens_.count());
      for (std::size_t t = 0; t < tokens_.count(); ++t)
        stream.axpy({slope, args.state, columns(args.dy, t * gate_.experts, gate_.experts)});
      // The running mean is held fixed: no error goes back through it.
      if (args.dstate.data) stream.fill({0.0f, args.dstate});
    }
    tokens_.each(args, [&](const BackwardArgs& own) {
      stream.softmax_backward({own.y, own.dy, gate_.temperature, own.dy});
      if (!has_weight()) {
        if (own.dx.data) stream.copy({own.dy, own.dx});
        return;
      }
      if (own.gradients.data) stream.outer_accumulate({own.dy, own.x, {own.gradients[0], own.dy.cols, own.x.cols}});
      if (own.dx.data) stream.linear_transposed({own.weights.matrix(0), own.dy, own.dx});
    });
  }

 private:
  bool has_weight() const noexcept { return !parameters_.empty(); }

  Tokens tokens_;
  GateOptions gate_;
  std::vector<ParameterSpec> parameters_;
};

class WeightedSum final : public Layer {
 public:
  WeightedSum(const Shape& in, std::size_t experts)
      : Layer(in, with_features(in, in.back() / experts - 1)), tokens_(in), experts_(experts) {}

  void forward(kernels::OpStream& stream, const ForwardArgs& args) const override {
    tokens_.each(args, [&](const ForwardArgs& own) { stream.weighted_sum({weights(own.x), values(own.x), own.y}); });
  }
  void backward(kernels::OpStream& stream, const BackwardArgs& args) const override {
    if (!args.dx.data) return;
    tokens_.each(args, [&](const BackwardArgs& own) {
      stream.weighted_sum_backward({weights(own.x), values(own.x), own.dy, weights(own.dx), values(own.dx)});
    });
  }

 private:
  template <class View>
  View weights(const View& x) const noexcept {
    return columns(x, 0, experts_);
  }
  template <class View>
  View values(const View& x) const noexcept {
    return columns(x, experts_, x.cols - experts_);
  }
  Tokens tokens_;
  std::size_t experts_;
};

}  // namespace

Result<std::unique_ptr<Layer>> make_gate(const Shape& in, const GateOptions& gate, OptionReader& options) {
  WEFT_TRY(auto init, make_initializer("xavier", in.back(), gate.experts, options.object()));
  return std::unique_ptr<Layer>(new Gate(in, gate, std::move(init)));
}

std::unique_ptr<Layer> make_gate_of_logits(const Shape& logits, const GateOptions& gate) {
  return std::make_unique<Gate>(logits, gate);
}

std::unique_ptr<Layer> make_weighted_sum(const Shape& in, std::size_t experts) {
  return std::make_unique<WeightedSum>(in, experts);
}

}  // namespace weft::mesh
