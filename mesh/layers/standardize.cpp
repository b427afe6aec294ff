// SPDX-License-Identifier: Apache-2.0

#include "mesh/layers/standardize.hpp"

#include "mesh/layers/init.hpp"
#include "mesh/layers/tokens.hpp"
#include "mesh/network/option.hpp"
#include "mesh/network/option_reader.hpp"

#include <algorithm>
#include <cmath>
#include <string>

namespace weft::mesh {
namespace {

using kernels::BinaryOp;
using kernels::ConstMatrixView;
using kernels::MatrixView;

class Standardize final : public Layer {
 public:
  Standardize(const Shape& shape, const std::vector<double>& mean, const std::vector<double>& deviation)
      : Layer(shape, shape), tokens_(shape) {
    std::vector<double> factor(deviation.size());
    std::transform(deviation.begin(), deviation.end(), factor.begin(), [](double d) { return 1.0 / d; });
    // Parameters, so that they are where the layer computes; without gradients they stay as they are.
    parameters_.push_back({"mean", mean.size(), 0, false, values(mean)});
    parameters_.push_back({"factor", factor.size(), 0, false, values(factor)});
  }
  const std::vector<ParameterSpec>& parameters() const noexcept override { return parameters_; }

  void forward(kernels::OpStream& stream, const ForwardArgs& args) const override {
    for_tokens(args.x, args.y, [&](const ConstMatrixView& x, const MatrixView& y) {
      stream.binary({BinaryOp::sub, x, row_of(args.weights.vector(0)), y});
      stream.binary({BinaryOp::mul, y, row_of(args.weights.vector(1)), y});
    });
  }
  void backward(kernels::OpStream& stream, const BackwardArgs& args) const override {
    if (!args.dx.data) return;
    for_tokens(args.dy, args.dx, [&](const ConstMatrixView& dy, const MatrixView& dx) {
      stream.binary({BinaryOp::mul, dy, row_of(args.weights.vector(1)), dx});
    });
  }

 private:
  static Initializer values(const std::vector<double>& numbers) {
    return [numbers](RandomStream&, std::span<float> to) {
      std::transform(numbers.begin(), numbers.end(), to.begin(), [](double v) { return static_cast<float>(v); });
    };
  }
  ConstMatrixView row_of(const float* numbers) const noexcept {
    const std::size_t width = in_shape().back();
    return {numbers, 1, width, width};
  }
  /// Calls visit for each token of each row: the same numbers go with every one.
  template <class Visit>
  void for_tokens(const ConstMatrixView& from, const MatrixView& to, const Visit& visit) const {
    const std::size_t width = in_shape().back();
    for (std::size_t row = 0; row < from.rows; ++row)
      for (std::size_t t = 0; t < tokens_.count(); ++t)
        visit(ConstMatrixView{from.row(row) + t * width, 1, width, width},
              MatrixView{to.row(row) + t * width, 1, width, width});
  }

  Tokens tokens_;
  std::vector<ParameterSpec> parameters_;
};

/// A number for each feature, all of them floats.
Result<std::vector<double>> read_numbers(OptionReader& options, const char* key, std::size_t width) {
  WEFT_TRY(auto numbers, options.numbers(key));
  const std::string place = options.object() + "." + key;
  if (numbers.size() != width)
    return fail(Errc::shape_mismatch, place + ": " + std::to_string(numbers.size()) + " numbers where the input has " +
                                          std::to_string(width) + " features");
  for (const double number : numbers)
    if (!std::isfinite(static_cast<float>(number)))
      return fail(Errc::out_of_range, place + ": " + std::to_string(number) + " is more than a float can hold");
  return numbers;
}

}  // namespace

LayerDeclaration declare_standardize() {
  return {"..., in",
          "..., in",
          {option::same_out(), option::numbers("mean", option::needed(), "values", "of each feature"),
           option::numbers("deviation", option::needed(), "values", "of each feature, above 0")}};
}

Result<std::unique_ptr<Layer>> make_standardize(const Shape& in, std::size_t out, OptionReader& options) {
  WEFT_TRY(const Shape shape, same_shape(options.object(), "standardize", in, out));
  WEFT_TRY(const auto mean, read_numbers(options, "mean", shape.back()));
  WEFT_TRY(const auto deviation, read_numbers(options, "deviation", shape.back()));
  for (const double d : deviation)
    if (!(d > 0) || !std::isfinite(static_cast<float>(1.0 / d)))
      return fail(Errc::out_of_range, options.object() + ".deviation: found " + std::to_string(d) +
                                          ", expected numbers above 0 whose reciprocals are floats");
  return std::unique_ptr<Layer>(new Standardize(shape, mean, deviation));
}

}  // namespace weft::mesh
