// SPDX-License-Identifier: Apache-2.0

// Convolutions: against sums in binary64 written from their definition, against `linear` on windows as rows, and every
// instruction set against the scalar reference. Against PyTorch: tests/mesh/convolution_test.cpp.

#include "kernels/convolve.hpp"

#include "kernels/convolve_coded.hpp"
#include "kernels/linear.hpp"

#include "core/aligned_buffer.hpp"

#include "coded_weights.hpp"
#include "comparing.hpp"
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace weft::kernels::convolve_test {
namespace {

using testing_support::expect_one_result_on_every_isa;
using testing_support::expect_same_bits;
using testing_support::Matrix;
using testing_support::random_matrix;
using testing_support::special_matrix;

struct Case {
  std::string name;
  Window window;
  std::size_t out;
};

Case conv(std::string name, std::size_t channels, Window::Extents in, std::size_t out, Window::Extents kernel,
          Window::Extents stride = {1, 1, 1}, Window::Extents padding = {0, 0, 0}, Window::Extents dilation = {1, 1, 1},
          std::size_t groups = 1) {
  Window w;
  w.channels = channels, w.groups = groups, w.in = in, w.kernel = kernel, w.stride = stride, w.padding = padding;
  w.dilation = dilation;
  for (std::size_t a = 0; a < 3; ++a)
    w.out[a] = (in[a] + 2 * padding[a] - (kernel[a] - 1) * dilation[a] - 1) / stride[a] + 1;
  return {std::move(name), w, out};
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all = [] {
    std::vector<Case> c;
    c.push_back(conv("one of everything", 1, {1, 1, 1}, 1, {1, 1, 1}));
    c.push_back(conv("a row", 3, {1, 1, 19}, 5, {1, 1, 4}, {1, 1, 1}, {0, 0, 2}));
    c.push_back(conv("a long row", 2, {1, 1, 301}, 17, {1, 1, 7}, {1, 1, 1}, {0, 0, 3}, {1, 1, 2}));
    c.push_back(conv("without padding", 4, {1, 9, 11}, 16, {1, 3, 3}));
    c.push_back(conv("pointwise", 70, {1, 6, 7}, 33, {1, 1, 1}));
    c.push_back(conv("pointwise, padded", 3, {1, 4, 5}, 7, {1, 1, 1}, {1, 1, 1}, {0, 1, 2}));
    c.push_back(conv("same size", 16, {1, 14, 13}, 32, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}));
    c.push_back(conv("more than a chunk of columns and outputs", 9, {1, 8, 8}, 131, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}));
    c.push_back(conv("strides", 5, {1, 12, 15}, 20, {1, 3, 3}, {1, 2, 3}, {0, 1, 1}));
    c.push_back(conv("a stride of rows alone", 2, {1, 12, 40}, 6, {1, 3, 5}, {1, 2, 1}, {0, 2, 2}));
    c.push_back(conv("a stride beyond the kernel", 2, {1, 11, 11}, 3, {1, 2, 2}, {1, 4, 3}));
    c.push_back(conv("dilated", 3, {1, 12, 15}, 18, {1, 3, 2}, {1, 1, 1}, {0, 2, 1}, {1, 3, 4}));
    c.push_back(conv("dilated, with strides", 3, {1, 12, 15}, 18, {1, 3, 2}, {1, 2, 2}, {0, 2, 1}, {1, 3, 4}));
    c.push_back(conv("a volume", 3, {5, 6, 7}, 10, {3, 2, 3}, {1, 1, 1}, {1, 0, 1}));
    c.push_back(conv("a volume with strides", 2, {7, 6, 9}, 4, {3, 3, 3}, {2, 1, 2}, {1, 1, 2}, {1, 2, 1}));
    c.push_back(conv("two groups of a panel", 6, {1, 7, 9}, 32, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}, 2));
    c.push_back(conv("three odd groups", 6, {1, 7, 9}, 21, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}, 3));
    c.push_back(conv("groups and strides", 8, {1, 7, 9}, 12, {1, 3, 3}, {1, 2, 2}, {0, 1, 1}, {1, 1, 1}, 4));
    c.push_back(conv("depthwise", 19, {1, 8, 10}, 19, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}, 19));
    c.push_back(conv("depthwise, doubled", 7, {1, 8, 10}, 14, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}, 7));
    c.push_back(conv("strides that leave elements out, and padding beyond them", 3, {1, 13, 14}, 5, {1, 2, 3},
                     {1, 4, 5}, {0, 5, 7}));
    c.push_back(conv("pointwise with strides", 18, {1, 9, 10}, 7, {1, 1, 1}, {1, 2, 3}, {0, 1, 0}));
    c.push_back(conv("strides and two chunks of outputs", 3, {1, 9, 40}, 130, {1, 3, 3}, {1, 2, 2}, {0, 1, 1}));
    c.push_back(conv("depthwise with strides", 17, {1, 9, 35}, 17, {1, 3, 3}, {1, 2, 2}, {0, 1, 1}, {1, 1, 1}, 17));
    c.push_back(conv("a stride longer than the row", 2, {1, 3, 3}, 4, {1, 3, 2}, {1, 9, 8}, {0, 1, 1}));
    Case larger = conv("an image with a rest that no window reaches", 4, {1, 9, 9}, 6, {1, 3, 3}, {1, 1, 1}, {0, 1, 1},
                       {1, 2, 2});
    larger.window.out[2] -= 1;  // what output_padding does
    c.push_back(larger);
    return c;
  }();
  return all;
}

struct Operands {
  Operands(const Case& c, std::size_t rows, bool special, std::uint64_t seed = 5)
      : random(seed, 0, RandomPurpose::test),
        weights(random_matrix(random, c.out, c.window.columns(), 0.5f)),
        bias(random_matrix(random, 1, c.out + c.window.channels)),
        x(draw(rows, c.window.image(), special)),
        dy(draw(rows, c.out * c.window.positions(), special)),
        panels(panels_size(c.out, c.window.columns())),
        workspace(convolve_workspace(c.window, c.out)) {
    pack_panels(weights.view(), {panels.data(), c.out, c.window.columns()});
    std::fill(workspace.begin(), workspace.end(), NAN);
  }
  Matrix draw(std::size_t rows, std::size_t cols, bool special) {
    return special ? special_matrix(random, rows, cols, 60) : random_matrix(random, rows, cols);
  }
  RandomStream random;
  Matrix weights, bias, x, dy;
  AlignedBuffer<float> panels, workspace;
};

std::vector<float> joined(const Matrix& a, const Matrix& b) {
  auto all = a.values();
  const auto more = b.values();
  all.insert(all.end(), more.begin(), more.end());
  EXPECT_TRUE(a.gaps_intact());
  EXPECT_TRUE(b.gaps_intact());
  return all;
}

std::vector<float> forward(const Case& c, Operands& o, Activation activation = Activation::tanh) {
  Matrix z(o.x.rows(), c.out * c.window.positions()), y(o.x.rows(), z.cols());
  convolve(c.window, {o.panels.data(), c.out, c.window.columns()}, o.bias.view().data, o.x.view(), activation, z.view(),
           y.view(), o.workspace.data());
  return joined(z, y);
}
std::vector<float> transposed(const Case& c, Operands& o, bool has_bias) {
  Matrix z(o.dy.rows(), c.window.image()), y(o.dy.rows(), z.cols());
  convolve_transposed(c.window, {o.panels.data(), c.out, c.window.columns()}, has_bias ? o.bias.view().data : nullptr,
                      o.dy.view(), Activation::relu, z.view(), y.view(), o.workspace.data());
  return joined(z, y);
}
std::vector<float> outer(const Case& c, Operands& o, std::size_t cut) {
  AlignedBuffer<float> dw(o.panels.size());
  // Initial sums, and values that padding lanes must keep.
  for (std::size_t i = 0; i < dw.size(); ++i) dw[i] = static_cast<float>(i % 7) - 3.0f;
  const ConstMatrixView dy = o.dy.view(), x = o.x.view();
  for (std::size_t b = 0; b < dy.rows; b += cut) {
    const std::size_t n = std::min(cut, dy.rows - b);
    convolve_outer(c.window, {dy.row(b), n, dy.cols, dy.stride}, {x.row(b), n, x.cols, x.stride},
                   {dw.data(), c.out, c.window.columns()}, o.workspace.data());
  }
  return {dw.begin(), dw.end()};
}

TEST(Convolve, TakesRowsOneByOneAsTogether) {
  const FlushSubnormals flush;
  for (const Case& c : cases()) {
    Operands o(c, 3, false);
    const auto y = forward(c, o), dx = transposed(c, o, false);
    const std::size_t n = c.out * c.window.positions(), m = c.window.image();
    for (std::size_t b = 0; b < 3; ++b) {
      std::vector<float> one(n), back(m);
      convolve(c.window, {o.panels.data(), c.out, c.window.columns()}, o.bias.view().data, {o.x.view().row(b), 1, m, m},
               Activation::linear, {}, {one.data(), 1, n, n}, o.workspace.data());
      convolve_transposed(c.window, {o.panels.data(), c.out, c.window.columns()}, nullptr,
                          {o.dy.view().row(b), 1, n, n}, Activation::linear, {}, {back.data(), 1, m, m},
                          o.workspace.data());
      const auto at = [](const std::vector<float>& v, std::size_t row, std::size_t width) {
        return std::vector<float>(v.begin() + static_cast<std::ptrdiff_t>(row * width),
                                  v.begin() + static_cast<std::ptrdiff_t>((row + 1) * width));
      };
      expect_same_bits(one, at(y, b, n), c.name);
      expect_same_bits(back, at(dx, b, m), c.name);
    }
    expect_same_bits(outer(c, o, 1), outer(c, o, 3), c.name + ", one by one");
    expect_same_bits(outer(c, o, 2), outer(c, o, 3), c.name + ", cut");
  }
}

TEST(Convolve, IsLinearOnWindowsAsRowsWhateverTheTile) {
  const FlushSubnormals flush;
  for (const Case& c : cases()) {
    Operands o(c, 2, true);
    const auto want = forward(c, o);
    for (const std::size_t tile : {1, 7, 64}) {
      Matrix z(2, c.out * c.window.positions()), y(2, z.cols());
      convolve_rows(c.window, ConstPanels{o.panels.data(), c.out, c.window.columns()}, o.bias.view().data, o.x.view(),
                    Activation::tanh, z.view(), y.view(), o.workspace.data(), tile);
      expect_same_bits(joined(z, y), want, c.name + ", tiles of " + std::to_string(tile));
    }
  }
}

/// x[channel][position + tap] in binary64, from coordinates with their signs.
double element(const Window& w, const float* image, std::size_t channel, std::size_t p, std::size_t t) {
  const Window::Extents at = Window::split(p, w.out), tap = Window::split(t, w.kernel);
  std::size_t index = channel;
  for (std::size_t a = 0; a < 3; ++a) {
    const long i = static_cast<long>(at[a] * w.stride[a] + tap[a] * w.dilation[a]) - static_cast<long>(w.padding[a]);
    if (i < 0 || i >= static_cast<long>(w.in[a])) return 0.0;
    index = index * w.in[a] + static_cast<std::size_t>(i);
  }
  return image[index];
}

TEST(Convolve, IsTheSumThatItsDefinitionSays) {
  const FlushSubnormals flush;
  for (const Case& c : cases()) {
    const Window& w = c.window;
    Operands o(c, 1, false);
    const auto y = forward(c, o), dx = transposed(c, o, true), dw = outer(c, o, 1);
    std::vector<double> back(w.image(), 0.0), magnitude(w.image(), 0.0);
    const std::size_t group_out = c.out / w.groups, taps = w.taps();
    for (std::size_t i = 0; i < c.out; ++i)
      for (std::size_t p = 0; p < w.positions(); ++p) {
        const double d = o.dy.at(0, i * w.positions() + p);
        double sum = o.bias.at(0, i), size = std::fabs(sum);
        for (std::size_t k = 0; k < w.columns(); ++k) {
          const std::size_t channel = i / group_out * w.group_channels() + k / taps;
          const double product = o.weights.at(i, k) * element(w, o.x.view().data, channel, p, k % taps);
          sum += product, size += std::fabs(product);
          const std::size_t at = w.element(Window::split(p, w.out), Window::split(k % taps, w.kernel));
          if (at == w.plane()) continue;
          back[channel * w.plane() + at] += o.weights.at(i, k) * d;
          magnitude[channel * w.plane() + at] += std::fabs(o.weights.at(i, k) * d);
        }
        // A chunk has 64 roundings at most, then one a chunk and the bias.
        const double roundings = 66.0 + static_cast<double>(w.columns()) / 64;
        ASSERT_NEAR(y[i * w.positions() + p], sum, size * roundings * 0x1p-24) << c.name;
      }
    for (std::size_t i = 0; i < w.image(); ++i) {
      const double bias = o.bias.at(0, i / w.plane());
      const double roundings = 68.0 + static_cast<double>(group_out) / 64 + static_cast<double>(taps);
      ASSERT_NEAR(dx[i], back[i] + bias, (magnitude[i] + std::fabs(bias)) * roundings * 0x1p-24) << c.name;
    }
    for (std::size_t i = 0; i < c.out; ++i)
      for (std::size_t k = 0; k < w.columns(); ++k) {
        const std::size_t at = panel_index(w.columns(), i, k), channel = i / group_out * w.group_channels() + k / taps;
        double sum = static_cast<double>(at % 7) - 3.0, size = std::fabs(sum);
        for (std::size_t p = 0; p < w.positions(); ++p) {
          const double product =
              double{o.dy.at(0, i * w.positions() + p)} * element(w, o.x.view().data, channel, p, k % taps);
          sum += product, size += std::fabs(product);
        }
        ASSERT_NEAR(dw[at], sum, size * static_cast<double>(w.positions()) * 0x1p-24) << c.name;
      }
  }
}

TEST(Convolve, TakesEveryTypeOfWeight) {
  for (const Case& c : cases()) {
    if (c.out * c.window.columns() > 3000) continue;
    for (const Encoding& encoding : testing_coded::all_encodings()) {
      Operands o(c, 2, false);
      testing_coded::CodedMatrix coded(encoding, c.out, c.window.columns());
      coded.fill(o.random, testing_coded::Codes::finite);
      AlignedBuffer<float> workspace(convolve_workspace(c.window, c.out));
      ConstWeight w = coded.view();
      const std::string what = c.name + ", " + std::string(name(encoding.dtype));
      const auto run = [&](Activations activations, bool is_transposed) {
        w.activations = activations;
        const std::size_t in = is_transposed ? o.dy.cols() : o.x.cols(), out = is_transposed ? o.x.cols() : o.dy.cols();
        std::vector<float> y(2 * out);
        (is_transposed ? convolve_transposed_coded : convolve_coded)(
            c.window, w, o.bias.view().data,
            {is_transposed ? o.dy.view().data : o.x.view().data, 2, in,
             is_transposed ? o.dy.view().stride : o.x.view().stride},
            Activation::sigmoid, {}, {y.data(), 2, out, out}, workspace.data());
        return y;
      };
      const FlushSubnormals flush;
      // On the dequantized values, the bits of the float32 kernels; float64 alone is summed in binary64.
      dequantize(w, {o.panels.data(), c.out, c.window.columns()});
      if (encoding.dtype != Dtype::float64) {
        const auto y = forward(c, o, Activation::sigmoid);
        expect_same_bits(run(Activations::float32, false),
                         {y.begin() + static_cast<std::ptrdiff_t>(2 * o.dy.cols()), y.end()}, what);
      }
      for (const bool is_transposed : {false, true}) {
        const Isa before = active_isa();
        ASSERT_TRUE(set_active_isa(Isa::scalar));
        const auto reference = run(Activations::int8, is_transposed);
        for (const Isa isa : available_isas()) {
          ASSERT_TRUE(set_active_isa(isa));
          expect_same_bits(run(Activations::int8, is_transposed), reference, what + " on " + std::string(name(isa)));
        }
        ASSERT_TRUE(set_active_isa(before));
      }
    }
  }
}

TEST(Convolve, GathersWindowsAndTransposes) {
  for (const Case& c : cases()) {
    Operands o(c, 1, true);
    for (const std::size_t group : {std::size_t{0}, c.window.groups - 1})
      expect_one_result_on_every_isa(c.name, [&] {
        const std::size_t n = c.window.positions(), first = n / 3;
        Matrix tile(c.window.columns(), n - first), turned(n - first, c.window.columns());
        gather_windows(c.window, group, o.x.view().data, first, n - first, tile.view());
        transpose(tile.view(), turned.view());
        for (std::size_t k = 0; k < tile.rows(); ++k)
          for (std::size_t j = 0; j < tile.cols(); ++j) {
            const std::size_t channel = group * c.window.group_channels() + k / c.window.taps();
            EXPECT_TRUE(testing_support::same_bits(turned.at(j, k), tile.at(k, j)));
            EXPECT_TRUE(testing_support::same_bits(
                            tile.at(k, j), static_cast<float>(element(c.window, o.x.view().data, channel, first + j,
                                                                      k % c.window.taps()))) ||
                        std::fabs(tile.at(k, j)) < 0x1p-126f);
          }
        return joined(tile, turned);
      });
  }
}

}  // namespace
}  // namespace weft::kernels::convolve_test
