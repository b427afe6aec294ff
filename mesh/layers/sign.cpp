// SPDX-License-Identifier: Apache-2.0

#include "mesh/layers/sign.hpp"

#include "mesh/network/option.hpp"
#include "mesh/network/option_reader.hpp"

namespace weft::mesh {
namespace {

using kernels::Activation;
using kernels::BinaryOp;
using kernels::MatrixView;

// tanh is the identity near 0 and exactly 1 from about 10 on: twice 2^100 takes every normal number there.
void take_signs(kernels::OpStream& stream, const kernels::ConstMatrixView& x, const MatrixView& y) {
  constexpr float kFar = 0x1p100f;
  stream.scale({kFar, x, y});
  stream.unary({Activation::tanh, y, y});
  stream.scale({kFar, y, y});
  stream.unary({Activation::tanh, y, y});
}

class Sign final : public Layer {
 public:
  Sign(const Shape& shape, float zone) : Layer(shape, shape), zone_(zone) {}

  bool is_step() const noexcept override { return true; }
  // 1 below the zone; y is 1 above it.
  std::size_t cache_size() const noexcept override { return zone_ > 0.0f ? out() : 0; }
  void forward(kernels::OpStream& stream, const ForwardArgs& args) const override {
    if (zone_ == 0.0f) return take_signs(stream, args.x, args.y);
    stream.fill({zone_, args.cache});
    stream.binary({BinaryOp::sub, args.x, args.cache, args.y});
    stream.binary({BinaryOp::add, args.x, args.cache, args.cache});
    stream.scale({-1.0f, args.cache, args.cache});
    for (const MatrixView& beyond : {args.y, args.cache}) {
      stream.unary({Activation::relu, beyond, beyond});
      take_signs(stream, beyond, beyond);
    }
    stream.binary({BinaryOp::sub, args.y, args.cache, args.y});
  }
  void backward(kernels::OpStream& stream, const BackwardArgs& args) const override {
    if (args.dx.data) stream.fill({0.0f, args.dx});
  }

 private:
  float zone_;
};

}  // namespace

LayerDeclaration declare_sign() {
  return {"...",
          "...",
          {option::same_out(), option::number("zone", 0, 0, 1e6, "-", "magnitude within which values give 0")}};
}

Result<std::unique_ptr<Layer>> make_sign(const Shape& in, std::size_t out, OptionReader& options) {
  WEFT_TRY(const Shape shape, same_shape(options.object(), "sign", in, out));
  WEFT_TRY(const double zone, options.number("zone"));
  return std::unique_ptr<Layer>(new Sign(shape, static_cast<float>(zone)));
}

}  // namespace weft::mesh
