// SPDX-License-Identifier: Apache-2.0

#include "mesh/layers/softmax.hpp"

namespace weft::mesh {
namespace {

class Softmax final : public Layer {
 public:
  Softmax(std::size_t width, float temperature) : Layer(width, width), temperature_(temperature) {}
  void forward(kernels::OpStream& stream, const ForwardArgs& args) const override {
    stream.softmax(args.x, temperature_, args.y);
  }
  void backward(kernels::OpStream& stream, const BackwardArgs& args) const override {
    if (args.dx.data) stream.softmax_backward(args.y, args.dy, temperature_, args.dx);
  }

 private:
  float temperature_;
};

}  // namespace

Result<std::unique_ptr<Layer>> make_softmax(std::size_t in, std::size_t out, OptionReader& options) {
  WEFT_TRY(const std::size_t width, same_width(options.object(), "softmax", in, out));
  WEFT_TRY(const double temperature, options.number("temperature", 1.0, 1e-6, 1e6));
  return std::unique_ptr<Layer>(new Softmax(width, static_cast<float>(temperature)));
}

}  // namespace weft::mesh
