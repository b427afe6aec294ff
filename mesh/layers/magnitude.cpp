// SPDX-License-Identifier: Apache-2.0

#include "mesh/layers/magnitude.hpp"

#include "mesh/layers/tokens.hpp"
#include "mesh/network/option_reader.hpp"

namespace weft::mesh {
namespace {

using kernels::BinaryOp;

class Magnitude final : public Layer {
 public:
  Magnitude(const Shape& in, const Shape& out) : Layer(in, out) {}

  // The squares of the imaginary parts, while forward computes.
  std::size_t cache_size() const noexcept override { return out(); }
  void forward(kernels::OpStream& stream, const ForwardArgs& args) const override {
    const auto a = columns(args.x, 0, out()), b = columns(args.x, out(), out());
    stream.binary({BinaryOp::mul, a, a, args.y});
    stream.binary({BinaryOp::mul, b, b, args.cache});
    stream.binary({BinaryOp::add, args.y, args.cache, args.y});
    stream.square_root({args.y, args.y});
  }
  void backward(kernels::OpStream& stream, const BackwardArgs& args) const override {
    if (!args.dx.data) return;
    stream.square_root_backward({args.y, args.dy, args.dy});
    stream.binary({BinaryOp::mul, columns(args.x, 0, out()), args.dy, columns(args.dx, 0, out())});
    stream.binary({BinaryOp::mul, columns(args.x, out(), out()), args.dy, columns(args.dx, out(), out())});
    stream.scale({2.0f, args.dx, args.dx});
  }
};

}  // namespace

LayerDeclaration declare_magnitude() { return {"2 channels, ...", "channels, ..."}; }

Result<std::unique_ptr<Layer>> make_magnitude(const Shape& in, std::size_t out, OptionReader& options) {
  if (in.front() % 2 != 0)
    return fail(
        Errc::shape_mismatch,
        options.object() + ": magnitude takes an even number of channels, outermost, not " + weft::to_string(in));
  if (out != 0)
    return fail(Errc::shape_mismatch,
                options.object() + ".out: magnitude makes half of its input's channels; leave 'out' away");
  Shape half = in;
  half.front() /= 2;
  return std::unique_ptr<Layer>(new Magnitude(in, half));
}

}  // namespace weft::mesh
