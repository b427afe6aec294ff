// SPDX-License-Identifier: Apache-2.0

#include "mesh/layers/dense.hpp"

#include "mesh/layers/activation.hpp"
#include "mesh/layers/init.hpp"
#include "mesh/layers/tokens.hpp"
#include "mesh/network/option.hpp"
#include "mesh/network/option_reader.hpp"

#include "kernels/unary.hpp"

namespace weft::mesh {
namespace {

using kernels::Activation;

class Dense final : public Layer {
 public:
  Dense(const Shape& in, std::size_t out, Activation activation, bool has_bias, Initializer init)
      : Layer(in, with_features(in, out)), tokens_(in), activation_(activation), has_bias_(has_bias) {
    const bool is_outer = tokens_.count() == 1;  // of tokens with gaps between them the products come one by one
    parameters_.push_back({"weight", out, in.back(), true, std::move(init), LinearMap{}, is_outer});
    if (has_bias) parameters_.push_back({"bias", out, 0, false, constant(0.0f), std::nullopt, is_outer});
  }

  const std::vector<ParameterSpec>& parameters() const noexcept override { return parameters_; }
  bool needs_preactivation() const noexcept override { return kernels::needs_preactivation(activation_); }
  double multiply_adds() const noexcept override {
    return static_cast<double>(in()) * static_cast<double>(out_shape().back());
  }
  int weight_matrix() const noexcept override { return tokens_.count() == 1 ? 0 : -1; }
  std::optional<Activation> row_product() const noexcept override {
    return tokens_.count() == 1 ? std::optional(activation_) : std::nullopt;
  }

  void forward(kernels::OpStream& stream, const ForwardArgs& args) const override {
    tokens_.each(args, [&](const ForwardArgs& own) {
      stream.linear(
          {own.weights.matrix(0), has_bias_ ? own.weights.vector(1) : nullptr, own.x, activation_, own.z, own.y});
    });
  }

  void backward(kernels::OpStream& stream, const BackwardArgs& args) const override {
    tokens_.each(args, [&](const BackwardArgs& own) {
      if (activation_ != Activation::linear) stream.unary_backward({activation_, own.z, own.y, own.dy, own.dy});
      if (own.gradients.data) {
        own.gradients.add_outer(stream, 0, own.dy, own.x);
        if (has_bias_) own.gradients.add_columns(stream, 1, own.dy);
      }
      if (own.dx.data) stream.linear_transposed({own.weights.matrix(0), own.dy, own.dx});
    });
  }

 private:
  Tokens tokens_;
  Activation activation_;
  bool has_bias_;
  std::vector<ParameterSpec> parameters_;
};

}  // namespace

LayerDeclaration declare_dense() {
  return {"..., in",
          "..., out",
          {option::out(option::needed(), "values", "width of the output"), option::activation("linear"),
           option::flag("bias", true, "whether b exists; it starts at 0"), option::init("xavier")}};
}

Result<std::unique_ptr<Layer>> make_dense(const Shape& in, std::size_t out, OptionReader& options) {
  WEFT_TRY(const Activation activation, read_activation(options));
  WEFT_TRY(const bool has_bias, options.boolean("bias"));
  WEFT_TRY(const std::string kind, options.text("init"));
  WEFT_TRY(auto init, make_initializer(kind, in.back(), out, options.object()));
  return std::unique_ptr<Layer>(new Dense(in, out, activation, has_bias, std::move(init)));
}

}  // namespace weft::mesh
