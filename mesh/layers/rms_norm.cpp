// SPDX-License-Identifier: Apache-2.0

#include "mesh/layers/rms_norm.hpp"

#include "mesh/layers/init.hpp"
#include "mesh/layers/tokens.hpp"
#include "mesh/network/option.hpp"
#include "mesh/network/option_reader.hpp"

namespace weft::mesh {
namespace {

class RmsNorm final : public Layer {
 public:
  RmsNorm(const Shape& shape, float epsilon) : Layer(shape, shape), tokens_(shape), epsilon_(epsilon) {
    parameters_.push_back({"gain", in_shape().back(), 0, false, constant(1.0f)});
  }
  const std::vector<ParameterSpec>& parameters() const noexcept override { return parameters_; }
  std::size_t cache_size() const noexcept override { return tokens_.count(); }

  // One row at a time: the cache is a column of the history, strided, and the op wants it dense.
  void forward(kernels::OpStream& stream, const ForwardArgs& args) const override {
    for (std::size_t row = 0; row < args.x.rows; ++row)
      stream.rms_norm({tokens_.of_row(args.x, row), args.weights.vector(0), epsilon_, tokens_.of_row(args.y, row),
                       args.cache.row(row)});
  }
  // If dx is not needed, it overwrites dy, which is scratch.
  void backward(kernels::OpStream& stream, const BackwardArgs& args) const override {
    for (std::size_t row = 0; row < args.x.rows; ++row)
      stream.rms_norm_backward({tokens_.of_row(args.x, row), args.weights.vector(0), args.cache.row(row),
                                kernels::ConstMatrixView(tokens_.of_row(args.dy, row)),
                                tokens_.of_row(args.dx.data ? args.dx : args.dy, row),
                                args.gradients.data ? args.gradients[0] : nullptr});
  }

 private:
  Tokens tokens_;
  float epsilon_;
  std::vector<ParameterSpec> parameters_;
};

}  // namespace

LayerDeclaration declare_rms_norm() {
  return {"..., in",
          "..., in",
          {option::same_out(), option::number("epsilon", 1e-5, 1e-12, 1, "-", "added to the mean square")}};
}

Result<std::unique_ptr<Layer>> make_rms_norm(const Shape& in, std::size_t out, OptionReader& options) {
  WEFT_TRY(const Shape shape, same_shape(options.object(), "rms_norm", in, out));
  WEFT_TRY(const double epsilon, options.number("epsilon"));
  return std::unique_ptr<Layer>(new RmsNorm(shape, static_cast<float>(epsilon)));
}

}  // namespace weft::mesh
