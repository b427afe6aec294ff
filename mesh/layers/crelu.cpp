// SPDX-License-Identifier: Apache-2.0

#include "mesh/layers/crelu.hpp"

#include "mesh/layers/tokens.hpp"
#include "mesh/network/option.hpp"
#include "mesh/network/option_reader.hpp"

#include <string>

namespace weft::mesh {
namespace {

using kernels::Activation;
using kernels::MatrixView;

class Crelu final : public Layer {
 public:
  Crelu(const Shape& in, const Shape& out, const Tokens& tokens) : Layer(in, out), tokens_(tokens) {}

  void forward(kernels::OpStream& stream, const ForwardArgs& args) const override {
    tokens_.each(args, [&](const ForwardArgs& own) {
      const std::size_t n = own.x.cols;
      const MatrixView positive = columns(own.y, 0, n), negative = columns(own.y, n, n);
      stream.unary({Activation::relu, own.x, positive});
      stream.scale({-1.0f, own.x, negative});
      stream.unary({Activation::relu, negative, negative});
    });
  }
  void backward(kernels::OpStream& stream, const BackwardArgs& args) const override {
    if (!args.dx.data) return;
    tokens_.each(args, [&](const BackwardArgs& own) {
      const std::size_t n = own.dx.cols;
      const MatrixView of_negative = columns(own.dy, n, n);
      const auto positive = columns(own.y, 0, n), negative = columns(own.y, n, n);
      stream.unary_backward({Activation::relu, positive, positive, columns(own.dy, 0, n), own.dx});
      stream.unary_backward({Activation::relu, negative, negative, of_negative, of_negative});
      stream.axpy({-1.0f, of_negative, own.dx});
    });
  }

 private:
  Tokens tokens_;
};

}  // namespace

LayerDeclaration declare_crelu() {
  return {
      "..., features",
      "..., 2 features",
      {option::out(option::computed("twice the input's width"), "values", "only that width"),
       option::choice("axis", "last", {"last", "first"}, "that becomes twice as long: of features, or of channels")}};
}

Result<std::unique_ptr<Layer>> make_crelu(const Shape& in, std::size_t out, OptionReader& options) {
  WEFT_TRY(const std::string axis, options.text("axis"));
  const std::size_t doubled = axis == "last" ? in.size() - 1 : 0;
  Shape shape = in;
  shape[doubled] *= 2;
  if (out != 0 && out != shape[doubled])
    return fail(Errc::shape_mismatch, std::string(options.object()) + ".out: crelu makes " +
                                          std::to_string(shape[doubled]) + " of its input's " +
                                          std::to_string(in[doubled]) + ", not " + std::to_string(out) +
                                          "; leave 'out' away");
  return std::unique_ptr<Layer>(new Crelu(in, shape, doubled == 0 ? Tokens(1) : Tokens(in)));
}

}  // namespace weft::mesh
