// SPDX-License-Identifier: Apache-2.0

#include "mesh/layers/soft_cap.hpp"

#include "mesh/network/option.hpp"
#include "mesh/network/option_reader.hpp"

namespace weft::mesh {
namespace {

using kernels::Activation;

class SoftCap final : public Layer {
 public:
  SoftCap(const Shape& shape, float cap) : Layer(shape, shape), cap_(cap) {}

  // tanh, which its slope is made of.
  std::size_t cache_size() const noexcept override { return out(); }
  void forward(kernels::OpStream& stream, const ForwardArgs& args) const override {
    stream.scale({1.0f / cap_, args.x, args.cache});
    stream.unary({Activation::tanh, args.cache, args.cache});
    stream.scale({cap_, args.cache, args.y});
  }
  void backward(kernels::OpStream& stream, const BackwardArgs& args) const override {
    if (args.dx.data) stream.unary_backward({Activation::tanh, args.cache, args.cache, args.dy, args.dx});
  }

 private:
  float cap_;
};

}  // namespace

LayerDeclaration declare_soft_cap() {
  return {"...", "...", {option::same_out(), option::number("cap", 30, 1e-3, 1e6, "-", "largest magnitude")}};
}

Result<std::unique_ptr<Layer>> make_soft_cap(const Shape& in, std::size_t out, OptionReader& options) {
  WEFT_TRY(const Shape shape, same_shape(options.object(), "soft_cap", in, out));
  WEFT_TRY(const double cap, options.number("cap"));
  return std::unique_ptr<Layer>(new SoftCap(shape, static_cast<float>(cap)));
}

}  // namespace weft::mesh
