// SPDX-License-Identifier: Apache-2.0
// Convolutions of sizes that shaders of tiles compute. Each operation on smaller ones: op_cases_test.cpp.

#include "tests/gpu/gpu_testing.hpp"

namespace weft::gpu::stream_window_test {
namespace {

using namespace testing_support;
using kernels::Activation;
using kernels::Window;

struct Convolution {
  const char* name;
  std::size_t batch, out;
  Window window;
  bool is_special = false;
};
Window window_of(std::size_t channels, Window::Extents in, Window::Extents kernel, Window::Extents stride = {1, 1, 1},
                 Window::Extents padding = {0, 0, 0}, Window::Extents dilation = {1, 1, 1}, std::size_t groups = 1) {
  Window w;
  w.channels = channels, w.groups = groups, w.in = in, w.kernel = kernel, w.stride = stride, w.padding = padding;
  w.dilation = dilation;
  for (std::size_t a = 0; a < Window::kAxes; ++a)
    w.out[a] = (in[a] + 2 * padding[a] - (kernel[a] - 1) * dilation[a] - 1) / stride[a] + 1;
  return w;
}
// Tiles of 64 by 64; then of 128 windows by 64 outputs, and of 128 by 128, from a hundred on.
std::vector<Convolution> convolutions() {
  return {{"small tiles", 3, 37, window_of(19, {1, 9, 7}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1})},
          {"special values", 3, 37, window_of(19, {1, 9, 7}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}), true},
          {"rows of fours", 2, 70, window_of(33, {1, 8, 8}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1})},
          {"strides and dilations", 3, 30, window_of(21, {1, 20, 23}, {1, 3, 4}, {1, 2, 3}, {0, 2, 3}, {1, 3, 1})},
          {"strides beyond the kernel", 4, 18, window_of(17, {1, 23, 22}, {1, 2, 2}, {1, 4, 3})},
          {"a volume", 2, 20, window_of(18, {5, 6, 7}, {3, 2, 3}, {2, 1, 1}, {1, 0, 1})},
          {"two groups", 2, 64, window_of(40, {1, 7, 9}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}, 2)},
          {"63 taps", 2, 20, window_of(17, {1, 12, 13}, {1, 7, 9}, {1, 2, 1}, {0, 3, 4})},
          {"a hundred tiles of 64 outputs", 7, 40, window_of(20, {1, 43, 43}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1})},
          {"a hundred tiles of 128", 7, 70, window_of(65, {1, 43, 44}, {1, 1, 2}, {1, 1, 1}, {0, 0, 1})}};
}

TEST(StreamWindow, TilesOfConvolutionsHaveTheCpusBits) {
  std::size_t seed = 1;
  for (const Convolution& c : convolutions()) {
    Operands o(++seed, c.is_special);
    const bool is_whole = seed % 2 == 0;
    const kernels::ConstPanels w = o.finite_panels(c.out, c.window.columns());
    const std::size_t results = c.out * c.window.positions();
    const MatrixView x = o.matrix(c.batch, c.window.image(), is_whole ? 3 : 4);
    const MatrixView z = is_whole ? o.matrix(c.batch, results, 4) : MatrixView();
    const float* const bias = is_whole ? o.values(c.out) : nullptr;
    float* const workspace = o.workspace(kernels::convolve_workspace(c.window, c.out));
    expect_cpus_bits(
        o.make(std::string(", ") + c.name,
               kernels::ops::Convolve{c.window, w, bias, x, is_whole ? Activation::relu : Activation::linear, z,
                                      o.matrix(c.batch, results, 4), workspace}),
        seed == 2);
  }
}

TEST(StreamWindow, TilesOfTransposedConvolutionsHaveTheCpusBits) {
  std::size_t seed = 100;
  for (const Convolution& c : convolutions()) {
    Operands o(++seed, c.is_special);
    const bool is_whole = seed % 2 == 0;
    const kernels::ConstPanels w = o.finite_panels(c.out, c.window.columns());
    const MatrixView x = o.matrix(c.batch, c.out * c.window.positions(), is_whole ? 3 : 4);
    const float* const bias = is_whole ? o.values(c.window.channels) : nullptr;
    float* const workspace = o.workspace(kernels::convolve_workspace(c.window, c.out));
    expect_cpus_bits(o.make(std::string(", ") + c.name,
                            kernels::ops::ConvolveTransposed{c.window,
                                                             w,
                                                             bias,
                                                             x,
                                                             is_whole ? Activation::tanh : Activation::linear,
                                                             {},
                                                             o.matrix(c.batch, c.window.image(), 4),
                                                             workspace}),
                     seed == 101);
  }
}

TEST(StreamWindow, TilesOfWeightGradientsHaveTheCpusBits) {
  std::size_t seed = 200;
  std::vector<Convolution> all = convolutions();
  all.push_back({"a hundred tiles of 64", 2, 300, window_of(150, {1, 5, 4}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1})});
  all.push_back({"a hundred tiles of 128", 2, 1290, window_of(150, {1, 4, 3}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1})});
  all.push_back({"fewer windows than a step has", 9, 20, window_of(18, {1, 3, 2}, {1, 2, 2})});
  for (const Convolution& c : all) {
    Operands o(++seed, c.is_special);
    const MatrixView dy = o.matrix(c.batch, c.out * c.window.positions(), 3),
                     x = o.matrix(c.batch, c.window.image(), 5);
    const kernels::Panels dw = o.sums(c.out, c.window.columns());
    float* const workspace = o.workspace(kernels::convolve_workspace(c.window, c.out));
    expect_cpus_bits(o.make(std::string(", ") + c.name, kernels::ops::ConvolveOuter{c.window, dy, x, dw, workspace}),
                     seed == 201);
  }
}

// Weights of other types, read where they are.
TEST(StreamWindow, TilesOfStoredTypesHaveTheCpusBits) {
  std::size_t seed = 300;
  const Convolution c{"", 2, 40, window_of(19, {1, 9, 8}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1})};
  for (const Encoding& encoding : {Encoding(Dtype::bfloat16), Encoding(Dtype::uint4), Encoding(Dtype::int32)}) {
    Operands o(++seed, false);
    const kernels::ConstWeight w = o.weight(encoding, c.out, c.window.columns(), Activations::float32, true);
    const std::size_t results = c.out * c.window.positions();
    const MatrixView x = o.matrix(c.batch, c.window.image()), y = o.matrix(c.batch, results);
    float* const workspace = o.workspace(kernels::convolve_workspace(c.window, c.out));
    const std::string what = ", " + to_string(encoding);
    expect_cpus_bits(
        o.make(what, kernels::ops::Convolve{c.window, w, nullptr, x, Activation::linear, {}, y, workspace}), false);
    Operands back(++seed, false);
    const kernels::ConstWeight wb = back.weight(encoding, c.out, c.window.columns(), Activations::float32, true);
    const MatrixView dy = back.matrix(c.batch, results), dx = back.matrix(c.batch, c.window.image());
    float* const other = back.workspace(kernels::convolve_workspace(c.window, c.out));
    expect_cpus_bits(
        back.make(what, kernels::ops::ConvolveTransposed{c.window, wb, nullptr, dy, Activation::linear, {}, dx, other}),
        false);
  }
}

}  // namespace
}  // namespace weft::gpu::stream_window_test
