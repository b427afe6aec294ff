// SPDX-License-Identifier: Apache-2.0
// Linear layers on weights of the stored types.

#include "tests/gpu/coded_testing.hpp"

namespace weft::gpu {
namespace {

using namespace testing_support;
using kernels::Activation;
using kernels::testing_coded::Codes;

struct Size {
  std::size_t batch, out, in;
};

void expect_cpus_bits(RandomStream& random, const Encoding& encoding, const Size& s, Codes which) {
  for (const Activations activations : {Activations::int8, Activations::float32}) {
    if (activations == Activations::int8 && !has_integer_kernel(encoding.dtype)) continue;
    Comparison c;
    const CodedOperand weight(c, random, encoding, s.out, s.in, which);
    const auto bias = c.add(draw(random, s.out, false));
    const auto x = c.add(draw_matrix(random, s.batch, s.in, which == Codes::any)),
               y = c.add(draw_matrix(random, s.batch, s.out, false)),
               dx = c.add(draw_matrix(random, s.batch, s.in, false)), sums = c.add(draw(random, s.in, false));
    c.expect_same(
        to_string(encoding) + ", activations " + std::string(name(activations)) + ", batch " + std::to_string(s.batch),
        [&](OpStream& stream, const auto& at) {
          const ConstWeight w = weight.at(at, activations);
          stream.linear(w, at.data(bias), at.rows(x), Activation::relu, {}, at.rows(y));
          stream.linear_transposed(w, at.rows(y), at.rows(dx));
          stream.absolute_column_sums(w, at.data(sums));
        });
  }
}

TEST(StreamCoded, EveryTypeAndGranularityHasTheCpusBits) {
  RandomStream random(30, 0, RandomPurpose::test);
  std::size_t tried = 0;
  for (const Encoding& encoding : kernels::testing_coded::all_encodings()) {
    ++tried;
    // One row and several; panels and blocks that end early.
    expect_cpus_bits(random, encoding, {1, 35, 100}, Codes::finite);
    expect_cpus_bits(random, encoding, {7, 50, 97}, Codes::any);
  }
  EXPECT_EQ(tried, 55u);
}

TEST(StreamCoded, DistancesToPointsOfEveryTypeHaveTheCpusBits) {
  RandomStream random(31, 0, RandomPurpose::test);
  constexpr std::size_t kPoints = 21, kFeatures = 35;
  for (const Encoding& encoding : kernels::testing_coded::all_encodings()) {
    Comparison c;
    const CodedOperand points(c, random, encoding, kPoints, kFeatures, Codes::finite);
    const auto x = c.add(draw_matrix(random, 3, kFeatures, false)), y = c.add(draw_matrix(random, 3, kPoints, false)),
               dx = c.add(draw_matrix(random, 3, kFeatures, false));
    c.expect_same(to_string(encoding), [&](OpStream& stream, const auto& at) {
      const ConstWeight w = points.at(at, Activations::float32);
      stream.squared_distances(w, at.rows(x), at.rows(y));
      stream.squared_distances_backward(w, at.rows(x), at.rows(y), at.rows(dx), {});
    });
  }
}

}  // namespace
}  // namespace weft::gpu
