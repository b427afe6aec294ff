// SPDX-License-Identifier: Apache-2.0

#include "mesh/layers/conv_transposed.hpp"

#include "mesh/layers/activation.hpp"
#include "mesh/layers/init.hpp"
#include "mesh/layers/spatial.hpp"
#include "mesh/network/option.hpp"
#include "mesh/network/option_reader.hpp"

#include "kernels/convolve.hpp"
#include "kernels/unary.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace weft::mesh {
namespace {

using kernels::Activation;
using kernels::Window;

/// Transpose of a convolution from y to x: `window` slides over y, one window for each element of x.
class TransposedConvolution final : public Layer {
 public:
  TransposedConvolution(Shape in, Shape out, const Window& window, Activation activation, bool has_bias,
                        Initializer init)
      : Layer(std::move(in), std::move(out)), window_(window), activation_(activation), has_bias_(has_bias) {
    parameters_.push_back(
        {"weight", in_shape()[0], window.columns(), true, std::move(init), LinearMap{0, window, true}});
    if (has_bias) parameters_.push_back({"bias", window.channels, 0, false, constant(0.0f)});
  }

  const std::vector<ParameterSpec>& parameters() const noexcept override { return parameters_; }
  bool needs_preactivation() const noexcept override { return kernels::needs_preactivation(activation_); }
  std::size_t workspace_size() const noexcept override { return kernels::convolve_workspace(window_, in_shape()[0]); }
  double multiply_adds() const noexcept override {
    return static_cast<double>(in()) * static_cast<double>(window_.columns());
  }

  void forward(kernels::OpStream& stream, const ForwardArgs& args) const override {
    stream.convolve_transposed({window_, args.weights.matrix(0), has_bias_ ? args.weights.vector(1) : nullptr, args.x,
                                activation_, args.z, args.y, args.workspace});
  }

  void backward(kernels::OpStream& stream, const BackwardArgs& args) const override {
    if (activation_ != Activation::linear) stream.unary_backward({activation_, args.z, args.y, args.dy, args.dy});
    if (args.gradients.data) {
      stream.convolve_outer(
          {window_, args.x, args.dy, {args.gradients[0], in_shape()[0], window_.columns()}, args.workspace});
      if (has_bias_) spatial::accumulate_channels(stream, args.dy, window_.channels, args.workspace, args.gradients[1]);
    }
    if (args.dx.data) {
      kernels::ConstWeight weight = args.weights.matrix(0);
      weight.activations = Activations::float32;  // gradients are not quantised
      stream.convolve({window_, weight, nullptr, args.dy, Activation::linear, {}, args.dx, args.workspace});
    }
  }

 private:
  Window window_;
  Activation activation_;
  bool has_bias_;
  std::vector<ParameterSpec> parameters_;
};

/// The outputs on each axis, into window.in.
Status count_outputs(const std::string& object, Window& w, const Window::Extents& output_padding) {
  for (std::size_t a = 0; a < Window::kAxes; ++a) {
    const std::string axis(spatial::axis_name(a));
    const std::size_t limit = std::max(w.stride[a], w.dilation[a]);
    if (output_padding[a] >= limit)
      return fail(Errc::out_of_range, object + ".output_padding: " + std::to_string(output_padding[a]) + " of the " +
                                          axis + " is not below " + std::to_string(limit) +
                                          ", the larger of stride and dilation");
    const std::size_t whole = (w.out[a] - 1) * w.stride[a] + (w.kernel[a] - 1) * w.dilation[a] + output_padding[a] + 1;
    if (2 * w.padding[a] >= whole)
      return fail(Errc::shape_mismatch, object + ".padding: 2 x " + std::to_string(w.padding[a]) +
                                            " leave nothing of the " + axis + ", " + std::to_string(whole) +
                                            " without them");
    w.in[a] = whole - 2 * w.padding[a];
  }
  return {};
}

Result<std::unique_ptr<Layer>> make_transposed(std::size_t axes, const Shape& in, std::size_t out,
                                               OptionReader& options) {
  const std::string& object = options.object();
  const std::string type = "conv_transposed" + std::to_string(axes) + "d";
  WEFT_TRY(const Window over, spatial::window_over(object, type, in, axes));
  WEFT_TRY(const auto kernel, options.integers("kernel", axes));
  WEFT_TRY(const auto stride, options.integers("stride", axes));
  WEFT_TRY(const auto padding, options.integers("padding", axes));
  WEFT_TRY(const auto dilation, options.integers("dilation", axes));
  WEFT_TRY(const auto output_padding, options.integers("output_padding", axes));
  WEFT_TRY(const std::size_t groups, options.integer("groups"));
  WEFT_TRY(const Activation activation, read_activation(options));
  WEFT_TRY(const bool has_bias, options.boolean("bias"));
  WEFT_TRY(const std::string kind, options.text("init"));
  WEFT_CHECK(spatial::check_groups(object, groups, in[0], out));
  Window window;
  window.channels = out;
  window.groups = groups;
  window.out = over.in;
  window.kernel = spatial::in_place(kernel, 1);
  window.stride = spatial::in_place(stride, 1);
  window.padding = spatial::in_place(padding, 0);
  window.dilation = spatial::in_place(dilation, 1);
  WEFT_CHECK(count_outputs(object, window, spatial::in_place(output_padding, 0)));
  WEFT_CHECK(spatial::check_size(object, window, in[0]));
  WEFT_TRY(auto init, spatial::fill_weight(kind, in[0], window.columns(), in[0] / groups * window.taps(),
                                           window.columns(), object));
  return std::unique_ptr<Layer>(new TransposedConvolution(in, spatial::shape_of(out, window.in, axes), window,
                                                          activation, has_bias, std::move(init)));
}

std::vector<OptionRow> transposed_options(std::size_t axes) {
  return spatial::convolution_options(
      axes, "between the places of neighbouring inputs: one number, or one an axis",
      "cut off before and after each axis: one number, or one an axis",
      {option::wholes("output_padding", 0, 0, spatial::kMost, axes, axes, "elements",
                      "added after each axis, below stride or dilation: one number, or one an axis")});
}

}  // namespace

LayerDeclaration declare_conv_transposed1d() { return {"in, length", "out, length'", transposed_options(1)}; }
Result<std::unique_ptr<Layer>> make_conv_transposed1d(const Shape& in, std::size_t out, OptionReader& options) {
  return make_transposed(1, in, out, options);
}
LayerDeclaration declare_conv_transposed2d() {
  return {"in, height, width", "out, height', width'", transposed_options(2)};
}
Result<std::unique_ptr<Layer>> make_conv_transposed2d(const Shape& in, std::size_t out, OptionReader& options) {
  return make_transposed(2, in, out, options);
}
LayerDeclaration declare_conv_transposed3d() {
  return {"in, depth, height, width", "out, depth', height', width'", transposed_options(3)};
}
Result<std::unique_ptr<Layer>> make_conv_transposed3d(const Shape& in, std::size_t out, OptionReader& options) {
  return make_transposed(3, in, out, options);
}

}  // namespace weft::mesh
