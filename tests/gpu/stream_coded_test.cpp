// SPDX-License-Identifier: Apache-2.0
// Linear layers on weights of the stored types.

#include "kernels/convolve.hpp"

#include "tests/gpu/gpu_testing.hpp"
#include "tests/kernels/coded_weights.hpp"
#include "tests/thorough.hpp"

namespace weft::gpu::stream_coded_test {
namespace {

using namespace testing_support;
using kernels::Activation;

struct Size {
  std::size_t batch, out, in;
};

// Tiles on packed dot products or bytes, and where the device has them its matrix units.
TEST(StreamCoded, ManyRowsOfIntegerLayersHaveTheCpusBits) {
  std::size_t tried = 0;
  for (const Encoding& encoding : kernels::testing_coded::device_encodings()) {
    if (!has_integer_kernel(encoding.dtype)) continue;
    ++tried;
    std::vector<Size> sizes{{197, 258, 101}};
    // As many as its matrix units are given.
    if (device().info().matrix_units && tried % 3 != 0)
      sizes.push_back(tried % 3 == 1 ? Size{1270, 1283, 71} : Size{1281, 1279, 40});
    for (const Size& s : sizes)
      for (const auto& [gated, activations] : {std::pair(false, Activations::int8),
                                               {true, Activations::int8},
                                               {false, Activations::int8_row},
                                               {true, Activations::int8_row}}) {
        if (!is_thorough() && gated != (tried % 2 == 0)) continue;
        Operands o(34 + tried, tried % 3 == 0);
        const auto weight = [&, by = activations] { return o.weight(encoding, s.out, s.in, by); };
        const ConstWeight one = weight();
        const float* const bias = o.values(s.out);
        const MatrixView x = o.matrix(s.batch, s.in),
                         y = o.matrix(s.batch, gated ? kernels::kGatedBlocks * s.out : s.out);
        const std::string what = ", " + to_string(encoding) + ", activations " + std::string(weft::name(activations)) +
                                 ", batch " + std::to_string(s.batch);
        expect_cpus_bits(
            gated ? o.make(what, kernels::ops::GatedLinear{{one, weight(), bias, bias}, x, Activation::relu2, y})
                  : o.make(what, kernels::ops::Linear{one, bias, x, Activation::relu, {}, y}),
            false);
      }
  }
}

// On a device with packed dot products and matrix units the tests above ran on them: without them it computes the same,
// in layers of one chunk, in deeper ones, for many rows and in convolutions.
TEST(StreamCoded, DotProductsAndMatrixUnitsMakeNoDifference) {
  if (!device().info().dot_product) GTEST_SKIP() << "the device has none";
  DeviceOptions options;
  options.cache_folder = "-", options.validate = device().validates();
  options.without_dot_products = options.without_matrix_units = true;
  const auto plain = Device::open(selector(), options);
  ASSERT_TRUE(plain) << plain.error().text();
  EXPECT_FALSE((*plain)->info().dot_product || (*plain)->info().matrix_units);
  const auto stream = std::move(*(*plain)->make_stream());
  const std::size_t most = device().info().matrix_units ? 1290 : 197;
  for (const Dtype dtype : {Dtype::int8, Dtype::uint8, Dtype::int4, Dtype::uint2, Dtype::ternary, Dtype::binary})
    for (const Size& s : {Size{1, 50, 60}, Size{2, 50, 170}, Size{most, most + 3, 70}}) {
      const std::string what = ", " + std::string(name(dtype)) + ", batch " + std::to_string(s.batch);
      Operands o(32, true);
      const ConstWeight w = o.weight(Encoding(dtype), s.out, s.in, Activations::int8);
      const MatrixView x = o.matrix(s.batch, s.in), y = o.matrix(s.batch, s.out);
      expect_cpus_bits(*stream, o.make(what, kernels::ops::Linear{w, nullptr, x, Activation::linear, {}, y}),
                       Form::recorded, **plain);
      if (s.batch > 2) continue;
      // One channel of s.in + 20 values and a kernel of s.in: 21 windows.
      kernels::Window window;
      window.in = {1, 1, s.in + 20}, window.kernel = {1, 1, s.in}, window.out = {1, 1, 21};
      Operands planes(33, true);
      const ConstWeight kernel = planes.weight(Encoding(dtype), s.out, s.in, Activations::int8, true);
      const MatrixView image = planes.matrix(1, s.in + 20), shown = planes.matrix(1, s.out * 21);
      float* const workspace = planes.workspace(kernels::convolve_workspace(window, s.out));
      expect_cpus_bits(
          *stream,
          planes.make(what,
                      kernels::ops::Convolve{window, kernel, nullptr, image, Activation::linear, {}, shown, workspace}),
          Form::recorded, **plain);
    }
}

}  // namespace
}  // namespace weft::gpu::stream_coded_test
