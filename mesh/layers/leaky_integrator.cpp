// SPDX-License-Identifier: Apache-2.0

#include "mesh/layers/leaky_integrator.hpp"

#include "mesh/network/option.hpp"
#include "mesh/network/option_reader.hpp"

namespace weft::mesh {
namespace {

class LeakyIntegrator final : public Layer {
 public:
  LeakyIntegrator(std::size_t width, float rate) : Layer(width, width), rate_(rate) {}
  std::size_t state_size() const noexcept override { return in(); }

  void forward(kernels::OpStream& stream, const ForwardArgs& args) const override {
    stream.binary({kernels::BinaryOp::sub, args.x, args.state, args.y});
    stream.copy({args.state, args.next_state});
    stream.axpy({rate_, args.y, args.next_state});
    stream.copy({args.next_state, args.y});
  }

  void backward(kernels::OpStream& stream, const BackwardArgs& args) const override {
    // y and next_state are the same value, so their gradients add.
    if (args.dnext_state.data) stream.binary({kernels::BinaryOp::add, args.dy, args.dnext_state, args.dy});
    if (args.dx.data) stream.scale({rate_, args.dy, args.dx});
    if (args.dstate.data) stream.scale({1.0f - rate_, args.dy, args.dstate});
  }

 private:
  float rate_;
};

}  // namespace

LayerDeclaration declare_leaky_integrator() {
  return {"in",
          "in",
          {option::same_out(), option::number("rate", 0.5, 1e-6, 1, "1/tick", "tick length over time constant")}};
}

Result<std::unique_ptr<Layer>> make_leaky_integrator(const Shape& in, std::size_t out, OptionReader& options) {
  WEFT_TRY(const std::size_t width, same_width(options.object(), "leaky_integrator", in, out));
  WEFT_TRY(const double rate, options.number("rate"));
  return std::unique_ptr<Layer>(new LeakyIntegrator(width, static_cast<float>(rate)));
}

}  // namespace weft::mesh
