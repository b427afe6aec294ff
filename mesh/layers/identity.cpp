// SPDX-License-Identifier: Apache-2.0

#include "mesh/layers/identity.hpp"

#include "mesh/layers/residual.hpp"

namespace weft::mesh {
namespace {

class Identity final : public Layer {
 public:
  explicit Identity(std::size_t width) : Layer(width, width) {}
  void forward(kernels::OpStream& stream, const ForwardArgs& args) const override { stream.copy(args.x, args.y); }
  void backward(kernels::OpStream& stream, const BackwardArgs& args) const override {
    if (args.dx.data) stream.copy(args.dy, args.dx);
  }
};

}  // namespace

Result<std::unique_ptr<Layer>> make_identity(std::size_t in, std::size_t out, OptionReader& options) {
  WEFT_TRY(const std::size_t width, same_width(options.object(), "identity", in, out));
  return std::unique_ptr<Layer>(new Identity(width));
}

Result<std::unique_ptr<Layer>> make_residual(std::size_t in, std::size_t out, OptionReader& options) {
  WEFT_TRY(const std::size_t width, same_width(options.object(), "residual", in, out));
  return std::unique_ptr<Layer>(new Identity(width));
}

}  // namespace weft::mesh
