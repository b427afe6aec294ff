// SPDX-License-Identifier: Apache-2.0
// Linear layers on weights of the stored types.

#include "tests/gpu/gpu_testing.hpp"
#include "tests/kernels/coded_weights.hpp"
#include <cstring>

namespace weft::gpu {
namespace {

using namespace testing_support;
using kernels::Activation;
using kernels::testing_coded::CodedMatrix;
using kernels::testing_coded::Codes;

struct Size {
  std::size_t batch, out, in;
};

/// Bytes as operands are: in whole floats.
std::vector<float> as_floats(const void* bytes, std::size_t count) {
  std::vector<float> floats((count + 3) / 4);
  if (count > 0) std::memcpy(floats.data(), bytes, count);
  return floats;
}

void expect_cpus_bits(RandomStream& random, const Encoding& encoding, const Size& s, Codes which) {
  CodedMatrix coded(encoding, s.out, s.in);
  coded.fill(random, which);
  const auto bytes = kernels::weight_bytes(encoding, s.out, s.in);
  for (const Activations activations : {Activations::int8, Activations::float32}) {
    if (activations == Activations::int8 && !has_integer_kernel(encoding.dtype)) continue;
    Comparison c;
    const auto codes = c.add(as_floats(coded.view().codes, bytes.codes)),
               scales = c.add(as_floats(coded.view().scales, bytes.scales)),
               zeros = c.add(as_floats(coded.view().zeros, bytes.zeros));
    const auto bias = c.add(draw(random, s.out, false));
    const auto x = c.add(draw_matrix(random, s.batch, s.in, which == Codes::any)),
               y = c.add(draw_matrix(random, s.batch, s.out, false)),
               dx = c.add(draw_matrix(random, s.batch, s.in, false)), sums = c.add(draw(random, s.in, false));
    c.expect_same(to_string(encoding) + ", activations " + std::string(name(activations)) + ", batch " +
                      std::to_string(s.batch) + ", " + std::to_string(s.out) + " x " + std::to_string(s.in),
                  [&](OpStream& stream, const auto& at) {
                    ConstWeight w = coded.view();
                    w.codes = at.data(codes);
                    if (w.scales) w.scales = at.data(scales);
                    if (w.zeros) w.zeros = at.data(zeros);
                    w.activations = activations;
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
    if (!supports(Op::linear, encoding, Activations::float32)) continue;
    ++tried;
    // One row and several; panels and blocks that end early.
    expect_cpus_bits(random, encoding, {1, 35, 100}, Codes::finite);
    expect_cpus_bits(random, encoding, {7, 50, 97}, Codes::any);
  }
  EXPECT_GE(tried, 38u);
}

}  // namespace
}  // namespace weft::gpu
