// SPDX-License-Identifier: Apache-2.0
// Linear layers on weights of the stored types.

#include "tests/gpu/coded_testing.hpp"
#include "tests/thorough.hpp"

namespace weft::gpu::stream_coded_test {
namespace {

using namespace testing_support;
using kernels::Activation;
using kernels::testing_coded::Codes;

struct Size {
  std::size_t batch, out, in;
};

// Layers of one chunk quantise their rows themselves, several of them in a group: ends in blocks and words, and panels
// that leave threads of a share idle.
TEST(StreamCoded, SmallIntegerLayersHaveTheCpusBits) {
  RandomStream random(31, 0, RandomPurpose::test);
  for (const Encoding& encoding : kernels::testing_coded::all_encodings()) {
    if (!has_integer_kernel(encoding.dtype)) continue;
    for (const bool special : {false, true}) {
      Comparison c;
      std::vector<CodedOperand> weights;
      std::vector<std::size_t> biases, xs, zs, ys;
      for (const Size& s : {Size{1, 64, 64}, Size{1, 64, 64}, Size{2, 35, 41}, Size{1, 1, 1}, Size{3, 3, 31},
                            Size{1, 200, 33}, Size{1, 60, 64}, Size{1, 512, 7}, Size{1, 5, 0}}) {
        weights.emplace_back(c, random, encoding, s.out, s.in, special ? Codes::any : Codes::finite);
        biases.push_back(c.add(draw(random, s.out, special)));
        xs.push_back(c.add(draw_matrix(random, s.batch, s.in, special)));
        zs.push_back(c.add(draw_matrix(random, s.batch, s.out, false)));
        ys.push_back(c.add(draw_matrix(random, s.batch, s.out, false)));
      }
      c.expect_same(to_string(encoding), [&](OpStream& stream, const auto& at) {
        for (std::size_t i = 0; i < weights.size(); ++i)
          stream.linear({weights[i].at(at, Activations::int8), i % 3 == 1 ? nullptr : at.data(biases[i]),
                         at.rows(xs[i]), Activation::relu, i % 2 ? at.rows(zs[i]) : MatrixView{}, at.rows(ys[i])});
      });
    }
  }
}

// Tiles on packed dot products or bytes, and where the device has them its matrix units.
TEST(StreamCoded, ManyRowsOfIntegerLayersHaveTheCpusBits) {
  RandomStream random(34, 0, RandomPurpose::test);
  std::size_t tried = 0;
  for (const Encoding& encoding : kernels::testing_coded::all_encodings()) {
    if (!has_integer_kernel(encoding.dtype)) continue;
    ++tried;
    std::vector<Size> sizes{{197, 258, 101}};
    // As many as its matrix units are given.
    if (device().info().matrix_units && tried % 3 != 0)
      sizes.push_back(tried % 3 == 1 ? Size{1270, 1283, 71} : Size{1281, 1279, 40});
    for (const Size& s : sizes)
      for (const bool gated : {false, true}) {
        if (!is_thorough() && gated != (tried % 2 == 0)) continue;
        Comparison c;
        const auto which = tried % 3 == 0 ? Codes::any : Codes::finite;
        const CodedOperand one(c, random, encoding, s.out, s.in, which), other(c, random, encoding, s.out, s.in, which);
        const auto bias = c.add(draw(random, s.out, false));
        const auto x = c.add(draw_matrix(random, s.batch, s.in, false)),
                   y = c.add(draw_matrix(random, s.batch, gated ? kernels::kGatedBlocks * s.out : s.out, false));
        c.expect_same(
            to_string(encoding) + (gated ? ", gated" : "") + ", batch " + std::to_string(s.batch),
            [&](OpStream& stream, const auto& at) {
              const ConstWeight w = one.at(at, Activations::int8);
              if (gated)
                stream.gated_linear({{w, other.at(at, Activations::int8), at.data(bias), at.data(bias)},
                                     at.rows(x),
                                     Activation::relu2,
                                     at.rows(y)});
              else
                stream.linear({w, at.data(bias), at.rows(x), Activation::relu, {}, at.rows(y)});
            },
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
  const std::size_t most = device().info().matrix_units ? 1290 : 197;
  for (const Dtype dtype : {Dtype::int8, Dtype::uint8, Dtype::int4, Dtype::uint2, Dtype::ternary, Dtype::binary})
    for (const Size& s : {Size{1, 50, 60}, Size{2, 50, 170}, Size{most, most + 3, 70}}) {
      std::vector<float> results[2];
      for (const bool with : {false, true}) {
        RandomStream random(32, 0, RandomPurpose::test);
        Device& on = with ? device() : **plain;
        const auto stream = std::move(*on.make_stream());
        kernels::testing_coded::CodedMatrix matrix(Encoding(dtype), s.out, s.in);
        matrix.fill(random, Codes::any);
        std::vector<Buffer> buffers;
        const auto place = [&](const void* data, std::size_t bytes) {
          buffers.push_back(std::move(*on.memory().allocate(bytes, "an operand")));
          if (bytes > 0) stream->upload(data, bytes, buffers.back().data());
          return buffers.back().data();
        };
        ConstWeight w = matrix.view();
        const auto bytes = kernels::weight_bytes(w.encoding(), w.out, w.in);
        w.codes = place(w.codes, bytes.codes), w.scales = place(w.scales, bytes.scales);
        w.zeros = place(w.zeros, bytes.zeros);
        const std::vector<float> x = draw(random, s.batch * s.in, false);
        std::vector<float> y(s.batch * s.out), planes(s.out * 21);
        float *const from = place(x.data(), x.size() * 4), *const to = place(y.data(), y.size() * 4);
        stream->linear({w, nullptr, {from, s.batch, s.in, s.in}, Activation::linear, {}, {to, s.batch, s.out, s.out}});
        ASSERT_TRUE(stream->download(to, y.size() * 4, y.data()));
        // One channel of s.in + 20 values and a kernel of s.in: 21 windows.
        kernels::Window window;
        window.channels = 1, window.in = {1, 1, s.in + 20}, window.kernel = {1, 1, s.in};
        window.out = {1, 1, 21};
        const std::vector<float> image = draw(random, s.in + 20, false);
        float *const seen = place(image.data(), image.size() * 4), *const shown =
                                                                       place(planes.data(), planes.size() * 4);
        if (s.batch <= 2) {
          stream->convolve({window,
                            w,
                            nullptr,
                            {seen, 1, image.size(), image.size()},
                            Activation::linear,
                            {},
                            {shown, 1, planes.size(), planes.size()},
                            nullptr});
          ASSERT_TRUE(stream->download(shown, planes.size() * 4, planes.data()));
          y.insert(y.end(), planes.begin(), planes.end());
        }
        results[with] = std::move(y);
      }
      const std::string what = std::string(name(dtype)) + ", batch " + std::to_string(s.batch);
      kernels::testing_support::expect_same_bits(results[0], results[1], what);
    }
}

}  // namespace
}  // namespace weft::gpu::stream_coded_test
