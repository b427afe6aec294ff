// SPDX-License-Identifier: Apache-2.0

#include "mesh/layers/argmax.hpp"

#include "mesh/layers/tokens.hpp"
#include "mesh/network/option.hpp"
#include "mesh/network/option_reader.hpp"

namespace weft::mesh {
namespace {

class Argmax final : public Layer {
 public:
  explicit Argmax(const Shape& shape) : Layer(shape, shape), tokens_(shape) {}

  bool is_step() const noexcept override { return true; }
  void forward(kernels::OpStream& stream, const ForwardArgs& args) const override {
    tokens_.each([&](const auto& part) { stream.argmax_one_hot({part(args.x), part(args.y)}); }, args.x, args.y);
  }
  void backward(kernels::OpStream& stream, const BackwardArgs& args) const override {
    if (args.dx.data) stream.fill({0.0f, args.dx});
  }

 private:
  Tokens tokens_;
};

}  // namespace

LayerDeclaration declare_argmax() { return {"..., features", "..., features", {option::same_out()}}; }

Result<std::unique_ptr<Layer>> make_argmax(const Shape& in, std::size_t out, OptionReader& options) {
  WEFT_TRY(const Shape shape, same_shape(options.object(), "argmax", in, out));
  return std::unique_ptr<Layer>(new Argmax(shape));
}

}  // namespace weft::mesh
