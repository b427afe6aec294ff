// SPDX-License-Identifier: Apache-2.0

#include "mesh/layers/activation.hpp"

#include "mesh/network/option.hpp"
#include "mesh/network/option_reader.hpp"

#include "kernels/unary.hpp"

namespace weft::mesh {
namespace {

using kernels::Activation;

class ActivationLayer final : public Layer {
 public:
  ActivationLayer(const Shape& shape, Activation activation) : Layer(shape, shape), activation_(activation) {}

  void forward(kernels::OpStream& stream, const ForwardArgs& args) const override {
    stream.unary({activation_, args.x, args.y});
  }
  void backward(kernels::OpStream& stream, const BackwardArgs& args) const override {
    if (args.dx.data) stream.unary_backward({activation_, args.x, args.y, args.dy, args.dx});
  }

 private:
  Activation activation_;
};

}  // namespace

Result<Activation> read_activation(OptionReader& options) {
  WEFT_TRY(const std::string text, options.text("activation"));
  return *kernels::parse_activation(text);
}

LayerDeclaration declare_activation() { return {"...", "...", {option::same_out(), option::activation("relu")}}; }

Result<std::unique_ptr<Layer>> make_activation(const Shape& in, std::size_t out, OptionReader& options) {
  WEFT_TRY(const Shape shape, same_shape(options.object(), "activation", in, out));
  WEFT_TRY(const Activation activation, read_activation(options));
  return std::unique_ptr<Layer>(new ActivationLayer(shape, activation));
}

}  // namespace weft::mesh
