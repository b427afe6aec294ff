// SPDX-License-Identifier: Apache-2.0
// Convolutions of images, forward and backward.

#include "kernels/convolve.hpp"

#include "bench/weft_gpu/gpu_bench.hpp"
#include <algorithm>
#include <string>

namespace weft::bench {
namespace {

struct ConvolutionShape {
  std::size_t batch, channels, side, out, kernel, stride, padding;
};
// bench/peers/torch_gpu.py has the same.
const std::vector<ConvolutionShape> kShapes{
    {64, 64, 56, 64, 3, 1, 1},   {64, 128, 28, 128, 3, 1, 1}, {64, 256, 14, 256, 3, 1, 1}, {64, 512, 7, 512, 3, 1, 1},
    {64, 128, 56, 128, 3, 2, 1}, {64, 256, 28, 64, 1, 1, 0},  {64, 3, 112, 64, 7, 2, 3},   {256, 16, 14, 32, 3, 1, 1}};
const std::vector<ConvolutionShape> kSmallShapes{{2, 20, 9, 24, 3, 1, 1}};

kernels::Window window_of(const ConvolutionShape& s) {
  kernels::Window w;
  w.channels = s.channels, w.in = {1, s.side, s.side}, w.kernel = {1, s.kernel, s.kernel};
  w.stride = {1, s.stride, s.stride}, w.padding = {0, s.padding, s.padding};
  const std::size_t windows = (s.side + 2 * s.padding - s.kernel) / s.stride + 1;
  w.out = {1, windows, windows};
  return w;
}
std::string text(const ConvolutionShape& s) {
  const std::string side = std::to_string(s.side), kernel = std::to_string(s.kernel);
  return std::to_string(s.batch) + "x" + std::to_string(s.channels) + "x" + side + "x" + side + " to " +
         std::to_string(s.out) + ", " + kernel + "x" + kernel + (s.stride > 1 ? ", stride " : "") +
         (s.stride > 1 ? std::to_string(s.stride) : "");
}

}  // namespace

void gpu_convolutions(GpuBench& bench) {
  const std::vector<ConvolutionShape>& shapes = bench.is_real ? kShapes : kSmallShapes;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const ConvolutionShape& s = shapes[i];
    const kernels::Window window = window_of(s);
    const std::size_t results = s.out * window.positions(), columns = window.columns();
    const gpu::Buffer w = bench.floats(kernels::panels_size(s.out, columns)),
                      x = bench.floats(s.batch * window.image()), y = bench.floats(s.batch * results);
    const kernels::Panels panels{w.data(), s.out, columns};
    const kernels::MatrixView image{x.data(), s.batch, window.image(), window.image()},
        result{y.data(), s.batch, results, results};
    const double flops = 2.0 * static_cast<double>(s.batch * results) * static_cast<double>(columns);
    const double bytes = sizeof(float) * static_cast<double>(s.batch * (window.image() + results) + s.out * columns);
    const double least = std::max(flops / bench.peak, bytes / bench.bandwidth);
    const auto row = [&](const char* name, const std::function<void()>& record) {
      const double seconds = bench.time(bench.graph(record), bench.sizes.times).median;
      Row to{"gpu/" + std::string(name) + " " + text(s),
             flops / seconds * 1e-12,
             "",
             {},
             {},
             flops / least * 1e-12,
             "TFLOP/s"};
      if (const auto theirs =
              bench.is_real ? bench.of_peer((name + std::string(" ") + std::to_string(i)).c_str()) : std::nullopt)
        to.peer = "cudnn, no TF32", to.peer_value = flops / *theirs * 1e-12, to.ratio = *theirs / seconds;
      bench.rows.add(to);
    };
    row("convolve", [&] {
      bench.stream->convolve(
          {window, kernels::ConstPanels(panels), nullptr, image, kernels::Activation::linear, {}, result, nullptr});
    });
    row("convolve_transposed", [&] {
      bench.stream->convolve_transposed(
          {window, kernels::ConstPanels(panels), nullptr, result, kernels::Activation::linear, {}, image, nullptr});
    });
    row("convolve_outer", [&] { bench.stream->convolve_outer({window, result, image, panels, nullptr}); });
  }
}

}  // namespace weft::bench
