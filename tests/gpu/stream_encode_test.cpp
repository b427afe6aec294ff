// SPDX-License-Identifier: Apache-2.0
// Stored weights made of their masters.

#include "tests/gpu/coded_testing.hpp"
#include "tests/kernels/codec_testing.hpp"

namespace weft::gpu {
namespace {

using namespace testing_support;
namespace codec = kernels::testing_codec;

/// Bytes that no encoder writes, as floats.
std::vector<float> soiled(std::size_t bytes) {
  const std::vector<std::uint8_t> all((bytes + 3) / 4 * 4, 0xa5);
  return as_floats(all.data(), all.size());
}

/// A master of one kind of numbers; of others than zeros every ninth an infinity, a NaN or a subnormal where `special`.
std::vector<float> master_of(RandomStream& random, std::size_t out, std::size_t in, codec::Fill fill, bool special) {
  codec::Master master = codec::random_master(random, out, in, fill);
  for (std::size_t o = 0; o < out; ++o)
    for (std::size_t k = 0; special && k < in; ++k)
      if (random.next_below(9) == 0) master.at(o, k) = draw(random, 4, true)[3];
  return {master.data.begin(), master.data.end()};
}

void expect_cpus_bits(RandomStream& random, const Encoding& encoding, std::size_t out, std::size_t in, codec::Fill fill,
                      bool special) {
  const auto bytes = kernels::weight_bytes(encoding, out, in);
  Comparison c;
  const auto master = c.add(master_of(random, out, in, fill, special)), codes = c.add_codes(soiled(bytes.codes)),
             scales = c.add_codes(soiled(bytes.scales)), zeros = c.add_codes(soiled(bytes.zeros));
  c.expect_same(
      to_string(encoding) + ", " + std::to_string(out) + " x " + std::to_string(in) + ", fill " +
          std::to_string(static_cast<int>(fill)) + (special ? ", special" : ""),
      [&](OpStream& stream, const auto& at) {
        stream.encode({{at.data(master), out, in},
                       {at.data(codes), bytes.scales ? at.data(scales) : nullptr,
                        bytes.zeros ? at.data(zeros) : nullptr, out, in, encoding.dtype, encoding.granularity}});
      });
}

TEST(StreamEncode, EveryTypeAndGranularityHasTheCpusBits) {
  RandomStream random(80, 0, RandomPurpose::test);
  for (const Encoding& encoding : codec::all_encodings())
    for (const codec::Fill fill : codec::kFills) {
      expect_cpus_bits(random, encoding, 35, 100, fill, false);
      if (testing::Test::HasFatalFailure()) return;
    }
}

TEST(StreamEncode, ShapesAndSpecialValuesHaveTheCpusBits) {
  RandomStream random(81, 0, RandomPurpose::test);
  for (const Encoding& encoding : codec::all_encodings())
    for (const auto& [out, in] : {std::pair<std::size_t, std::size_t>{1, 1}, {16, 32}, {70, 33}, {129, 65}, {3, 0}}) {
      expect_cpus_bits(random, encoding, out, in, codec::Fill::mixed, true);
      expect_cpus_bits(random, encoding, out, in, codec::Fill::huge, in == 33);
      if (testing::Test::HasFatalFailure()) return;
    }
}

// A step of learning in another type: the master moves, is stored anew, and computes.
TEST(StreamEncode, WhatIsEncodedComputes) {
  RandomStream random(82, 0, RandomPurpose::test);
  constexpr std::size_t kOut = 20, kIn = 40;
  for (const Encoding& encoding : codec::all_encodings()) {
    const auto bytes = kernels::weight_bytes(encoding, kOut, kIn);
    Comparison c;
    const auto master = c.add(draw_panels(random, kOut, kIn, false)),
               slope = c.add(draw_panels(random, kOut, kIn, false)), codes = c.add_codes(soiled(bytes.codes)),
               scales = c.add_codes(soiled(bytes.scales)), zeros = c.add_codes(soiled(bytes.zeros));
    const auto x = c.add(draw_matrix(random, 3, kIn, false)), y = c.add(kernels::testing_support::Matrix(3, kOut)),
               dx = c.add(kernels::testing_support::Matrix(3, kIn));
    c.expect_same(to_string(encoding), [&](OpStream& stream, const auto& at) {
      const kernels::Weight w{at.data(codes),
                              bytes.scales ? at.data(scales) : nullptr,
                              bytes.zeros ? at.data(zeros) : nullptr,
                              kOut,
                              kIn,
                              encoding.dtype,
                              encoding.granularity};
      for (int step = 0; step < 3; ++step) {
        stream.run(kernels::ops::sgd_step(kernels::panels_size(kOut, kIn), at.data(master), at.data(slope), 0.1f));
        stream.encode({{at.data(master), kOut, kIn}, w});
        stream.linear({w, nullptr, at.rows(x), kernels::Activation::tanh, {}, at.rows(y)});
        stream.linear_transposed({w, at.rows(y), at.rows(dx)});
      }
    });
  }
}

}  // namespace
}  // namespace weft::gpu
