// SPDX-License-Identifier: Apache-2.0

#include "mesh/layers/identity.hpp"

#include "mesh/layers/residual.hpp"
#include "mesh/network/option.hpp"
#include "mesh/network/option_reader.hpp"

namespace weft::mesh {
namespace {

class Identity final : public Layer {
 public:
  explicit Identity(const Shape& shape) : Layer(shape, shape) {}
  void forward(kernels::OpStream& stream, const ForwardArgs& args) const override { stream.copy({args.x, args.y}); }
  void backward(kernels::OpStream& stream, const BackwardArgs& args) const override {
    if (args.dx.data) stream.copy({args.dy, args.dx});
  }
};

}  // namespace

LayerDeclaration declare_identity() { return {"...", "...", {option::same_out()}}; }

Result<std::unique_ptr<Layer>> make_identity(const Shape& in, std::size_t out, OptionReader& options) {
  WEFT_TRY(const Shape shape, same_shape(options.object(), "identity", in, out));
  return std::unique_ptr<Layer>(new Identity(shape));
}

LayerDeclaration declare_residual() { return {"...", "...", {option::same_out()}}; }

Result<std::unique_ptr<Layer>> make_residual(const Shape& in, std::size_t out, OptionReader& options) {
  WEFT_TRY(const Shape shape, same_shape(options.object(), "residual", in, out));
  return std::unique_ptr<Layer>(new Identity(shape));
}

}  // namespace weft::mesh
