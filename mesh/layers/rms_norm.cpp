// SPDX-License-Identifier: Apache-2.0

#include "mesh/layers/rms_norm.hpp"

#include "mesh/layers/init.hpp"

namespace weft::mesh {
namespace {

class RmsNorm final : public Layer {
 public:
  RmsNorm(std::size_t width, float epsilon) : Layer(width, width), epsilon_(epsilon) {
    parameters_.push_back({"gain", width, 0, false, constant(1.0f)});
  }
  const std::vector<ParameterSpec>& parameters() const noexcept override { return parameters_; }
  std::size_t cache_size() const noexcept override { return 1; }

  // One row at a time: the cache is a column of the history, strided, and the op wants it dense.
  void forward(kernels::OpStream& stream, const ForwardArgs& args) const override {
    for (std::size_t row = 0; row < args.x.rows; ++row)
      stream.rms_norm({args.x.row(row), 1, in(), in()}, args.weights.vector(0), epsilon_,
                      {args.y.row(row), 1, in(), in()}, args.cache.row(row));
  }
  // Where nobody wants dx, it goes over dy, which is scratch.
  void backward(kernels::OpStream& stream, const BackwardArgs& args) const override {
    for (std::size_t row = 0; row < args.x.rows; ++row)
      stream.rms_norm_backward({args.x.row(row), 1, in(), in()}, args.weights.vector(0), args.cache.row(row),
                               {args.dy.row(row), 1, in(), in()},
                               {(args.dx.data ? args.dx : args.dy).row(row), 1, in(), in()},
                               args.gradients.data ? args.gradients[0] : nullptr);
  }

 private:
  float epsilon_;
  std::vector<ParameterSpec> parameters_;
};

}  // namespace

Result<std::unique_ptr<Layer>> make_rms_norm(std::size_t in, std::size_t out, OptionReader& options) {
  WEFT_TRY(const std::size_t width, same_width(options.object(), "rms_norm", in, out));
  WEFT_TRY(const double epsilon, options.number("epsilon", 1e-5, 1e-12, 1.0));
  return std::unique_ptr<Layer>(new RmsNorm(width, static_cast<float>(epsilon)));
}

}  // namespace weft::mesh
