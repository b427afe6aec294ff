// SPDX-License-Identifier: Apache-2.0

#include "mesh/layers/conv.hpp"

#include "mesh/layers/activation.hpp"
#include "mesh/layers/init.hpp"
#include "mesh/layers/spatial.hpp"
#include "mesh/network/option.hpp"
#include "mesh/network/option_reader.hpp"

#include "kernels/convolve.hpp"
#include "kernels/unary.hpp"

#include <string>
#include <utility>

namespace weft::mesh {
namespace {

using kernels::Activation;
using kernels::Window;

class Convolution final : public Layer {
 public:
  Convolution(Shape in, Shape out, const Window& window, Activation activation, bool has_bias, Initializer init)
      : Layer(std::move(in), std::move(out)), window_(window), activation_(activation), has_bias_(has_bias) {
    parameters_.push_back({"weight", channels(), window.columns(), true, std::move(init), LinearMap{0, window}});
    if (has_bias) parameters_.push_back({"bias", channels(), 0, false, constant(0.0f)});
  }

  const std::vector<ParameterSpec>& parameters() const noexcept override { return parameters_; }
  bool needs_preactivation() const noexcept override { return kernels::needs_preactivation(activation_); }
  std::size_t workspace_size() const noexcept override { return kernels::convolve_workspace(window_, channels()); }
  double multiply_adds() const noexcept override {
    return static_cast<double>(out()) * static_cast<double>(window_.columns());
  }

  void forward(kernels::OpStream& stream, const ForwardArgs& args) const override {
    stream.convolve({window_, args.weights.matrix(0), has_bias_ ? args.weights.vector(1) : nullptr, args.x, activation_,
                     args.z, args.y, args.workspace});
  }

  void backward(kernels::OpStream& stream, const BackwardArgs& args) const override {
    if (activation_ != Activation::linear) stream.unary_backward({activation_, args.z, args.y, args.dy, args.dy});
    if (args.gradients.data) {
      stream.convolve_outer(
          {window_, args.dy, args.x, {args.gradients[0], channels(), window_.columns()}, args.workspace});
      if (has_bias_) spatial::accumulate_channels(stream, args.dy, channels(), args.workspace, args.gradients[1]);
    }
    if (args.dx.data)
      stream.convolve_transposed(
          {window_, args.weights.matrix(0), nullptr, args.dy, Activation::linear, {}, args.dx, args.workspace});
  }

 private:
  std::size_t channels() const noexcept { return out_shape()[0]; }

  Window window_;
  Activation activation_;
  bool has_bias_;
  std::vector<ParameterSpec> parameters_;
};

Result<std::unique_ptr<Layer>> make_convolution(std::size_t axes, const Shape& in, std::size_t out,
                                                OptionReader& options) {
  const std::string& object = options.object();
  const std::string type = "conv" + std::to_string(axes) + "d";
  WEFT_TRY(Window window, spatial::window_over(object, type, in, axes));
  WEFT_TRY(const auto kernel, options.integers("kernel", axes));
  WEFT_TRY(const auto stride, options.integers("stride", axes));
  WEFT_TRY(const auto padding, options.integers("padding", axes));
  WEFT_TRY(const auto dilation, options.integers("dilation", axes));
  WEFT_TRY(window.groups, options.integer("groups"));
  WEFT_TRY(const Activation activation, read_activation(options));
  WEFT_TRY(const bool has_bias, options.boolean("bias"));
  WEFT_TRY(const std::string kind, options.text("init"));
  window.kernel = spatial::in_place(kernel, 1);
  window.stride = spatial::in_place(stride, 1);
  window.padding = spatial::in_place(padding, 0);
  window.dilation = spatial::in_place(dilation, 1);
  WEFT_CHECK(spatial::check_groups(object, window.groups, window.channels, out));
  WEFT_CHECK(spatial::count_windows(object, window, false));
  WEFT_CHECK(spatial::check_size(object, window, out));
  WEFT_TRY(auto init, spatial::fill_weight(kind, out, window.columns(), window.columns(),
                                           out / window.groups * window.taps(), object));
  return std::unique_ptr<Layer>(
      new Convolution(in, spatial::shape_of(out, window.out, axes), window, activation, has_bias, std::move(init)));
}

std::vector<OptionRow> conv_options(std::size_t axes) {
  return spatial::convolution_options(axes, "from one window to the next: one number, or one an axis",
                                      "zeros before and after each axis: one number, or one an axis");
}

}  // namespace

LayerDeclaration declare_conv1d() { return {"in, length", "out, length'", conv_options(1)}; }
Result<std::unique_ptr<Layer>> make_conv1d(const Shape& in, std::size_t out, OptionReader& options) {
  return make_convolution(1, in, out, options);
}
LayerDeclaration declare_conv2d() { return {"in, height, width", "out, height', width'", conv_options(2)}; }
Result<std::unique_ptr<Layer>> make_conv2d(const Shape& in, std::size_t out, OptionReader& options) {
  return make_convolution(2, in, out, options);
}
LayerDeclaration declare_conv3d() {
  return {"in, depth, height, width", "out, depth', height', width'", conv_options(3)};
}
Result<std::unique_ptr<Layer>> make_conv3d(const Shape& in, std::size_t out, OptionReader& options) {
  return make_convolution(3, in, out, options);
}

}  // namespace weft::mesh
