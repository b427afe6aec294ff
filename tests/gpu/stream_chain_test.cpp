// SPDX-License-Identifier: Apache-2.0
// Chains of operations, where one reads what another has left, recorded and as programs. Each operation alone:
// op_cases_test.cpp.

#include "kernels/attention.hpp"

#include "core/aligned_buffer.hpp"

#include "tests/gpu/coded_testing.hpp"
#include "tests/kernels/codec_testing.hpp"

namespace weft::gpu::stream_chain_test {
namespace {

using namespace testing_support;
using kernels::AttentionShape;
using Values = kernels::testing_support::Matrix;
namespace codec = kernels::testing_codec;

/// Bits that no encoder leaves behind, as floats.
std::vector<float> soiled(std::size_t bytes) {
  const std::vector<std::uint8_t> all((bytes + 3) / 4 * 4, 0xa5);
  return as_floats(all.data(), all.size());
}

// A sequence in ticks: the state that one tick leaves is what the next one starts from.
TEST(StreamChain, StatesGoFromTickToTick) {
  RandomStream random(61, 0, RandomPurpose::test);
  const AttentionShape shape{3, 2, 1, 10, 19, 0, true, 0.3f};
  constexpr std::size_t kTicks = 20;
  const std::size_t width = 60, keys = 30, size = kernels::attention_state_size(shape);
  AlignedBuffer<float> workspace(kernels::attention_workspace_size(shape));
  Comparison c;
  const auto q = c.add(draw_matrix(random, 2, kTicks * width, false)),
             k = c.add(draw_matrix(random, 2, kTicks * keys, false)),
             v = c.add(draw_matrix(random, 2, kTicks * keys, false)), y = c.add(Values(2, kTicks * width)),
             statistics = c.add(Values(2, kernels::attention_statistics_size(shape))),
             state = c.add(std::vector<float>(4 * size));
  c.expect_same("ticks", [&](OpStream& stream, const auto& at) {
    for (std::size_t i = 0; i < kTicks; ++i) {
      const auto of = [&](std::size_t operand, std::size_t each) {
        const MatrixView all = at.rows(operand);
        return MatrixView{all.data + i * each, all.rows, each, all.stride};
      };
      const MatrixView from{at.data(state) + i % 2 * 2 * size, 2, size, size},
          to{at.data(state) + (i + 1) % 2 * 2 * size, 2, size, size};
      stream.attention({shape,
                        {of(q, width), of(k, keys), of(v, keys), from},
                        of(y, width),
                        at.rows(statistics),
                        to,
                        workspace.data()});
    }
  });
}

// More probabilities than are kept at once: kv heads and sessions go in several rounds.
TEST(StreamChain, BackwardGoesInRoundsWhereMuchIsKept) {
  RandomStream random(62, 0, RandomPurpose::test);
  const AttentionShape far{2400, 3, 3,    2,
                           0,    3, true, 0.3f};  // 2400 rows of 2496 keys: three heads need more than 64 MiB
  const std::size_t width = far.tokens * 3 * 2;
  AlignedBuffer<float> workspace(kernels::attention_workspace_size(far));
  Comparison c;
  const auto q = c.add(draw_matrix(random, 1, width, false)), k = c.add(draw_matrix(random, 1, width, false)),
             v = c.add(draw_matrix(random, 1, width, false)), dy = c.add(draw_matrix(random, 1, width, false)),
             y = c.add(Values(1, width)), statistics = c.add(Values(1, kernels::attention_statistics_size(far))),
             dq = c.add(Values(1, width)), dk = c.add(Values(1, width)), dv = c.add(Values(1, width));
  c.expect_same("rounds", [&](OpStream& stream, const auto& at) {
    const kernels::AttentionOperands operands{at.rows(q), at.rows(k), at.rows(v), {}};
    stream.attention({far, operands, at.rows(y), at.rows(statistics), {}, workspace.data()});
    stream.attention_backward({far,
                               operands,
                               at.rows(y),
                               at.rows(statistics),
                               {at.rows(dy), {}, at.rows(dq), at.rows(dk), at.rows(dv), {}},
                               workspace.data()});
  });
}

// A step of learning in another type: the master moves, is stored anew, and computes.
TEST(StreamChain, WhatIsQuantizedComputes) {
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
        stream.quantize({{at.data(master), kOut, kIn}, w});
        stream.linear({w, nullptr, at.rows(x), kernels::Activation::tanh, {}, at.rows(y)});
        stream.linear_transposed({w, at.rows(y), at.rows(dx)});
      }
    });
  }
}

}  // namespace
}  // namespace weft::gpu::stream_chain_test
