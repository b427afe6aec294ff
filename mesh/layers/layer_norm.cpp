// SPDX-License-Identifier: Apache-2.0

#include "mesh/layers/layer_norm.hpp"

#include "mesh/layers/init.hpp"
#include "mesh/layers/tokens.hpp"
#include "mesh/network/option.hpp"
#include "mesh/network/option_reader.hpp"

namespace weft::mesh {
namespace {

class LayerNorm final : public Layer {
 public:
  LayerNorm(const Shape& shape, float epsilon, bool affine) : Layer(shape, shape), tokens_(shape), epsilon_(epsilon) {
    if (!affine) return;
    parameters_.push_back({"gain", in_shape().back(), 0, false, constant(1.0f)});
    parameters_.push_back({"bias", in_shape().back(), 0, false, constant(0.0f)});
  }
  const std::vector<ParameterSpec>& parameters() const noexcept override { return parameters_; }
  std::size_t cache_size() const noexcept override { return 2 * tokens_.count(); }  // means, inverse deviations

  // One row at a time: the cache is a column of the history, strided, and the op wants it dense.
  void forward(kernels::OpStream& stream, const ForwardArgs& args) const override {
    for (std::size_t row = 0; row < args.x.rows; ++row)
      stream.layer_norm({tokens_.of_row(args.x, row), gain(args.weights), bias(args.weights), epsilon_,
                         tokens_.of_row(args.y, row), args.cache.row(row), args.cache.row(row) + tokens_.count()});
  }
  // If dx is not needed, it overwrites dy, which is scratch.
  void backward(kernels::OpStream& stream, const BackwardArgs& args) const override {
    float* const* const gradients = parameters_.empty() ? nullptr : args.gradients.data;
    for (std::size_t row = 0; row < args.x.rows; ++row)
      stream.layer_norm_backward({tokens_.of_row(args.x, row), gain(args.weights), args.cache.row(row),
                                  args.cache.row(row) + tokens_.count(),
                                  kernels::ConstMatrixView(tokens_.of_row(args.dy, row)),
                                  tokens_.of_row(args.dx.data ? args.dx : args.dy, row),
                                  gradients ? gradients[0] : nullptr, gradients ? gradients[1] : nullptr});
  }

 private:
  template <class Weights>
  const float* gain(const Weights& weights) const noexcept {
    return parameters_.empty() ? nullptr : weights.vector(0);
  }
  template <class Weights>
  const float* bias(const Weights& weights) const noexcept {
    return parameters_.empty() ? nullptr : weights.vector(1);
  }

  Tokens tokens_;
  float epsilon_;
  std::vector<ParameterSpec> parameters_;
};

}  // namespace

LayerDeclaration declare_layer_norm() {
  return {"..., in",
          "..., in",
          {option::same_out(), option::number("epsilon", 1e-5, 1e-12, 1, "-", "added to the variance"),
           option::flag("affine", true, "with a gain and a bias for each value")}};
}

Result<std::unique_ptr<Layer>> make_layer_norm(const Shape& in, std::size_t out, OptionReader& options) {
  WEFT_TRY(const Shape shape, same_shape(options.object(), "layer_norm", in, out));
  WEFT_TRY(const double epsilon, options.number("epsilon"));
  WEFT_TRY(const bool affine, options.boolean("affine"));
  return std::unique_ptr<Layer>(new LayerNorm(shape, static_cast<float>(epsilon), affine));
}

}  // namespace weft::mesh
