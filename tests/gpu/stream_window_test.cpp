// SPDX-License-Identifier: Apache-2.0
// Convolutions and pools.

#include "kernels/convolve_coded.hpp"

#include "core/aligned_buffer.hpp"

#include "tests/gpu/coded_testing.hpp"

namespace weft::gpu {
namespace {

using namespace testing_support;
using kernels::Pool;
using kernels::Window;
using Values = kernels::testing_support::Matrix;

struct Case {
  const char* name;
  Window window;
  std::size_t out;
};

Case conv(const char* name, std::size_t channels, Window::Extents in, std::size_t out, Window::Extents kernel,
          Window::Extents stride = {1, 1, 1}, Window::Extents padding = {0, 0, 0}, Window::Extents dilation = {1, 1, 1},
          std::size_t groups = 1) {
  Window w;
  w.channels = channels, w.groups = groups, w.in = in, w.kernel = kernel, w.stride = stride, w.padding = padding;
  w.dilation = dilation;
  for (std::size_t a = 0; a < 3; ++a)
    w.out[a] = (in[a] + 2 * padding[a] - (kernel[a] - 1) * dilation[a] - 1) / stride[a] + 1;
  return {name, w, out};
}

std::vector<Case> cases() {
  return {conv("one of everything", 1, {1, 1, 1}, 1, {1, 1, 1}),
          conv("a row", 3, {1, 1, 19}, 5, {1, 1, 4}, {1, 1, 1}, {0, 0, 2}),
          conv("pointwise", 70, {1, 3, 4}, 33, {1, 1, 1}),
          conv("more than a chunk of columns and outputs", 9, {1, 4, 4}, 70, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}),
          conv("strides", 5, {1, 7, 8}, 20, {1, 3, 3}, {1, 2, 3}, {0, 1, 1}),
          conv("dilated, with strides", 3, {1, 12, 9}, 18, {1, 3, 2}, {1, 2, 2}, {0, 2, 1}, {1, 3, 4}),
          conv("a volume with strides", 2, {7, 4, 5}, 4, {3, 3, 3}, {2, 1, 2}, {1, 1, 2}, {1, 1, 1}),
          conv("three odd groups", 6, {1, 5, 6}, 21, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}, 3),
          conv("depthwise", 19, {1, 4, 5}, 19, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}, 19),
          conv("strides that leave elements out", 3, {1, 9, 10}, 5, {1, 2, 3}, {1, 4, 5}, {0, 3, 4})};
}

TEST(StreamWindow, ConvolutionsHaveTheCpusBits) {
  RandomStream random(50, 0, RandomPurpose::test);
  for (const Case& each : cases())
    for (const bool special : {false, true}) {
      const Window& window = each.window;
      const std::size_t outputs = each.out * window.positions();
      AlignedBuffer<float> workspace(kernels::convolve_workspace(window, each.out));
      Comparison c;
      const auto w = c.add(draw_panels(random, each.out, window.columns(), false)),
                 dw = c.add(draw_panels(random, each.out, window.columns(), special)),
                 bias = c.add(draw(random, each.out, special)), back = c.add(draw(random, window.channels, special));
      const auto x = c.add(draw_matrix(random, 2, window.image(), special)), z = c.add(Values(2, outputs)),
                 y = c.add(Values(2, outputs)), dy = c.add(draw_matrix(random, 2, outputs, special)),
                 dx = c.add(Values(2, window.image())), bare = c.add(Values(2, window.image()));
      c.expect_same(std::string(each.name) + (special ? ", special" : ""), [&](OpStream& stream, const auto& at) {
        const kernels::ConstPanels weight{at.data(w), each.out, window.columns()};
        stream.convolve({window, weight, at.data(bias), at.rows(x), kernels::Activation::relu, at.rows(z), at.rows(y),
                         workspace.data()});
        stream.convolve_outer(
            {window, at.rows(dy), at.rows(x), {at.data(dw), each.out, window.columns()}, workspace.data()});
        stream.convolve_transposed(
            {window, weight, nullptr, at.rows(dy), kernels::Activation::linear, {}, at.rows(bare), workspace.data()});
        stream.convolve_transposed(
            {window, weight, at.data(back), at.rows(dy), kernels::Activation::relu, {}, at.rows(dx), workspace.data()});
      });
    }
}

void expect_cpus_bits(RandomStream& random, const Case& each, const Encoding& encoding, Activations activations,
                      bool special) {
  const Window& window = each.window;
  const std::size_t outputs = each.out * window.positions();
  AlignedBuffer<float> workspace(kernels::convolve_workspace(window, each.out));
  Comparison c;
  const CodedOperand stored(c, random, encoding, each.out, window.columns(), kernels::testing_coded::Codes::finite);
  const auto bias = c.add(draw(random, each.out, special));
  const auto x = c.add(draw_matrix(random, 2, window.image(), special)), z = c.add(Values(2, outputs)),
             y = c.add(Values(2, outputs)), bare = c.add(Values(2, outputs)), dx = c.add(Values(2, window.image()));
  c.expect_same(
      to_string(encoding) + ", " + each.name + ", activations " + std::string(name(activations)) +
          (special ? ", special" : ""),
      [&](OpStream& stream, const auto& at) {
        const ConstWeight w = stored.at(at, activations);
        stream.convolve({window, w, at.data(bias), at.rows(x), kernels::Activation::relu, at.rows(z), at.rows(y),
                         workspace.data()});
        stream.convolve(
            {window, w, nullptr, at.rows(x), kernels::Activation::linear, {}, at.rows(bare), workspace.data()});
        stream.convolve_transposed(
            {window, w, nullptr, at.rows(bare), kernels::Activation::linear, {}, at.rows(dx), workspace.data()});
      });
}

TEST(StreamWindow, ConvolutionsOfStoredTypesHaveTheCpusBits) {
  RandomStream random(51, 0, RandomPurpose::test);
  const Case each = conv("stored", 5, {1, 5, 6}, 20, {1, 3, 3}, {1, 1, 1}, {0, 1, 1});
  for (const Encoding& encoding : kernels::testing_coded::all_encodings())
    for (const Activations activations : {Activations::int8, Activations::float32}) {
      const bool is_integer = activations == Activations::int8;
      if (is_integer ? !has_integer_kernel(encoding.dtype) : encoding.granularity == Granularity::channel) continue;
      expect_cpus_bits(random, each, encoding, activations, false);
      if (testing::Test::HasFatalFailure()) return;
    }
}

TEST(StreamWindow, QuantisedAndDoubleConvolutionsOfEachShapeHaveTheCpusBits) {
  RandomStream random(53, 0, RandomPurpose::test);
  for (const Case& each : cases())
    for (const Encoding& encoding : {Encoding(Dtype::uint8, Granularity::channel), Encoding(Dtype::float64)})
      for (const bool special : {false, true}) {
        expect_cpus_bits(random, each, encoding, Activations::int8, special);
        if (testing::Test::HasFatalFailure()) return;
      }
}

Pool strided(Window::Extents in, Window::Extents kernel, Window::Extents stride, Window::Extents padding = {0, 0, 0},
             Window::Extents dilation = {1, 1, 1}) {
  Pool pool;
  pool.window = conv("", 3, in, 1, kernel, stride, padding, dilation).window;
  return pool;
}
Pool adaptive(Window::Extents in, Window::Extents out) {
  Pool pool;
  pool.is_adaptive = true;
  pool.window.channels = 3, pool.window.in = in, pool.window.out = out;
  return pool;
}

TEST(StreamWindow, PoolsHaveTheCpusBits) {
  RandomStream random(52, 0, RandomPurpose::test);
  Pool rounded_up = strided({1, 8, 10}, {1, 3, 3}, {1, 2, 2}, {0, 1, 1});
  ++rounded_up.window.out[2];
  for (Pool pool :
       {strided({1, 8, 8}, {1, 2, 2}, {1, 2, 2}), strided({1, 9, 11}, {1, 3, 3}, {1, 2, 2}, {0, 1, 1}),
        strided({1, 9, 12}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}),
        strided({1, 20, 13}, {1, 3, 3}, {1, 1, 2}, {0, 1, 1}, {1, 2, 3}),
        strided({1, 20, 21}, {1, 2, 4}, {1, 3, 5}, {0, 1, 2}), strided({6, 7, 8}, {2, 3, 2}, {2, 1, 2}, {1, 1, 1}),
        rounded_up, adaptive({1, 10, 11}, {1, 3, 4}), adaptive({4, 6, 5}, {1, 1, 1}), adaptive({1, 3, 5}, {1, 4, 7})})
    for (const bool special : {false, true}) {
      pool.counts_padding = special;
      const std::size_t windows = 3 * pool.window.positions();
      Comparison c;
      const auto x = c.add(draw_matrix(random, 2, pool.window.image(), special)), y = c.add(Values(2, windows)),
                 index = c.add(Values(2, windows)), mean = c.add(Values(2, windows)),
                 dy = c.add(draw_matrix(random, 2, windows, special)), dx = c.add(Values(2, pool.window.image())),
                 dmean = c.add(Values(2, pool.window.image()));
      c.expect_same("pool of " + std::to_string(pool.window.in[1]) + " x " + std::to_string(pool.window.in[2]),
                    [&](OpStream& stream, const auto& at) {
                      stream.max_pool({pool, at.rows(x), at.rows(y), at.rows(index)});
                      stream.max_pool_backward({pool, at.rows(index), at.rows(dy), at.rows(dx)});
                      stream.avg_pool({pool, at.rows(x), at.rows(mean)});
                      stream.avg_pool_backward({pool, at.rows(dy), at.rows(dmean)});
                      stream.max_pool({pool, at.rows(x), at.rows(y), {}});
                    });
    }
}

}  // namespace
}  // namespace weft::gpu
