// SPDX-License-Identifier: Apache-2.0
// Chains of operations, where one reads what another has left, recorded and as command graphs. Each operation alone:
// op_cases_test.cpp.

#include "kernels/attention.hpp"

#include "tests/gpu/gpu_testing.hpp"
#include "tests/kernels/coded_weights.hpp"

namespace weft::gpu::stream_chain_test {
namespace {

using namespace testing_support;
using kernels::Activation;
using kernels::AttentionShape;
using kernels::Panels;
using kernels::testing_ops::At;

// A sequence in ticks: the state that one tick leaves is what the next one starts from.
TEST(StreamChain, StatesGoFromTickToTick) {
  const AttentionShape shape{3, 2, 1, 10, 19, 0, true, 0.3f};
  constexpr std::size_t kTicks = 20, kWidth = 60, kKeys = 30;
  const std::size_t size = kernels::attention_state_size(shape);
  Operands o(61, false);
  const MatrixView q = o.matrix(2, kTicks * kWidth), k = o.matrix(2, kTicks * kKeys), v = o.matrix(2, kTicks * kKeys),
                   y = o.matrix(2, kTicks * kWidth), statistics = o.matrix(2, attention_statistics_size(shape));
  const MatrixView states[2] = {o.matrix_of(2, size, std::vector<float>(2 * size)), o.matrix(2, size)};
  float* const workspace = o.workspace(kernels::attention_workspace_size(shape));
  expect_cpus_bits(o.chain("ticks", [=](OpStream& stream, const At& at) {
    for (std::size_t i = 0; i < kTicks; ++i) {
      const auto of = [&](MatrixView all, std::size_t each) {
        all.data += i * each, all.cols = each;
        return at(all);
      };
      stream.attention({shape,
                        {of(q, kWidth), of(k, kKeys), of(v, kKeys), at(states[i % 2])},
                        of(y, kWidth),
                        at(statistics),
                        at(states[(i + 1) % 2]),
                        at(workspace)});
    }
  }));
}

// So many queries that those of a kv head go in tiles: heads of several slices or of no whole quads, rings that go
// round, windows, caps, masks that hide keys, tokens that see all.
TEST(StreamChain, ManyQueriesShareTheirKeys) {
  struct Queries {
    AttentionShape shape;
    std::size_t sessions, calls;
  };
  for (const auto& [shape, sessions, calls] :
       std::initializer_list<Queries>{{{70, 4, 2, 16, 200, 0, true, 0.3f}, 2, 3},
                                      {{70, 6, 2, 72, 90, 24, true, 0.3f, 5.0f}, 2, 3},
                                      {{64, 8, 1, 18, 0, 0, false, 0.3f}, 1, 1},
                                      {{130, 4, 4, 130, 0, 40, false, 0.3f}, 1, 1},
                                      {{70, 4, 2, 20, 0, 0, true, 0.3f, 0, {70 * 70, 70, 1}}, 2, 1}}) {
    Operands o(63, false);
    const std::size_t width = shape.tokens * shape.heads * shape.head_dim,
                      keys = shape.tokens * shape.kv_heads * shape.head_dim,
                      size = kernels::attention_state_size(shape), of_mask = kernels::attention_mask_size(shape);
    const MatrixView q = o.matrix(sessions, calls * width), k = o.matrix(sessions, calls * keys),
                     v = o.matrix(sessions, calls * keys), y = o.matrix(sessions, calls * width),
                     statistics = o.matrix(sessions, attention_statistics_size(shape));
    MatrixView state, mask;
    if (size > 0) state = o.matrix_of(sessions, size, std::vector<float>(sessions * size));
    if (of_mask > 0) {
      std::vector<float> numbers(sessions * of_mask);
      for (std::size_t i = 0; i < numbers.size(); ++i)
        numbers[i] = i % 7 < 3 ? -1e30f : 0.01f * static_cast<float>(i % 50);
      mask = o.matrix_of(sessions, of_mask, numbers);
    }
    float* const workspace = o.workspace(kernels::attention_workspace_size(shape));
    expect_cpus_bits(o.chain("tiles of " + std::to_string(shape.head_dim),
                             [=, shape = shape, calls = calls](OpStream& stream, const At& at) {
                               for (std::size_t i = 0; i < calls; ++i) {
                                 const auto of = [&](MatrixView all, std::size_t each) {
                                   all.data += i * each, all.cols = each;
                                   return at(all);
                                 };
                                 const auto there = [&](const MatrixView& m) { return m.data ? at(m) : MatrixView(); };
                                 stream.attention({shape,
                                                   {of(q, width), of(k, keys), of(v, keys), there(state), there(mask)},
                                                   of(y, width),
                                                   at(statistics),
                                                   there(state),
                                                   at(workspace)});
                               }
                             }));
  }
}

// More probabilities than are kept at once: kv heads and sessions go in several rounds.
TEST(StreamChain, BackwardGoesInRoundsWhereMuchIsKept) {
  // 2400 rows of 2496 keys: three heads, which share a mask, need more than 64 MiB.
  const AttentionShape far{2400, 3, 3, 2, 0, 3, true, 0.3f, 0, {0, 0, 1}};
  const std::size_t width = far.tokens * 3 * 2;
  Operands o(62, false);
  const auto row = [&] { return o.matrix(1, width); };
  const MatrixView q = row(), k = row(), v = row(), dy = row(), y = row(), dq = row(), dk = row(), dv = row(),
                   statistics = o.matrix(1, attention_statistics_size(far)), mask = o.matrix(1, far.tokens),
                   dmask = o.matrix(1, far.tokens);
  float* const workspace = o.workspace(kernels::attention_workspace_size(far));
  expect_cpus_bits(o.chain("rounds", [=](OpStream& stream, const At& at) {
    const kernels::AttentionOperands operands{at(q), at(k), at(v), {}, at(mask)};
    stream.attention({far, operands, at(y), at(statistics), {}, at(workspace)});
    stream.attention_backward(
        {far, operands, at(y), at(statistics), {at(dy), {}, at(dq), at(dk), at(dv), {}, at(dmask)}, at(workspace)});
  }));
}

// A step of learning in another type: the master moves, is stored anew, and computes.
TEST(StreamChain, WhatIsQuantizedComputes) {
  constexpr std::size_t kOut = 20, kIn = 40, kSize = kernels::panels_size(kOut, kIn);
  for (const Encoding& encoding : kernels::testing_coded::device_encodings()) {
    Operands o(82, false);
    const Panels master = o.panels(kOut, kIn), slope = o.panels(kOut, kIn);
    const kernels::Weight stored = o.filler(encoding, kOut, kIn);
    const MatrixView x = o.matrix(3, kIn), y = o.matrix(3, kOut), dx = o.matrix(3, kIn);
    expect_cpus_bits(o.chain(to_string(encoding), [=](OpStream& stream, const At& at) {
      kernels::Weight w = stored;
      w.codes = at(w.codes), w.scales = at(w.scales), w.zero_points = at(w.zero_points);
      for (int step = 0; step < 3; ++step) {
        stream.run(kernels::ops::sgd_step(kSize, at(master.data), at(slope.data), 0.1f));
        stream.quantize({at(master), w});
        stream.linear({w, nullptr, at(x), Activation::tanh, {}, at(y)});
        stream.linear_transposed({w, at(y), at(dx)});
      }
    }));
  }
}

// A network of two layers learns for some steps; after the last the weights are the CPU's.
TEST(StreamChain, ATrainedNetworkHasTheCpusWeights) {
  constexpr std::size_t kBatch = 6, kIn = 70, kHidden = 40, kOut = 10;
  Operands o(21, false);
  const Panels w1 = o.panels(kHidden, kIn), w2 = o.panels(kOut, kHidden), g1 = o.panels(kHidden, kIn),
               g2 = o.panels(kOut, kHidden);
  float *const b1 = o.values(kHidden), *const db1 = o.values(kHidden), *const losses = o.values(kBatch);
  const MatrixView x = o.matrix(kBatch, kIn), z = o.matrix(kBatch, kHidden), h = o.matrix(kBatch, kHidden),
                   y = o.matrix(kBatch, kOut), dy = o.matrix(kBatch, kOut), dh = o.matrix(kBatch, kHidden);
  const std::uint32_t* const labels = o.labels(kBatch, kOut);
  expect_cpus_bits(o.chain("training", [=](OpStream& stream, const At& at) {
    const auto each = [](const Panels& p) { return kernels::panels_size(p.out, p.in); };
    for (int step = 0; step < 20; ++step) {
      for (const Panels& g : {g1, g2}) stream.fill({0.0f, {at(g.data), 1, each(g), each(g)}});
      stream.fill({0.0f, {at(db1), 1, kHidden, kHidden}});
      stream.linear({kernels::ConstPanels(at(w1)), at(b1), at(x), Activation::gelu, at(z), at(h)});
      stream.linear({kernels::ConstPanels(at(w2)), nullptr, at(h), Activation::linear, {}, at(y)});
      stream.cross_entropy({at(y), at(labels), at(losses), at(dy)});
      stream.linear_transposed({kernels::ConstPanels(at(w2)), at(dy), at(dh)});
      stream.outer_accumulate({at(dy), at(h), at(g2)});
      stream.unary_backward({Activation::gelu, at(z), at(h), at(dh), at(dh)});
      stream.outer_accumulate({at(dh), at(x), at(g1)});
      stream.column_accumulate({at(dh), at(db1)});
      stream.run(kernels::ops::sgd_step(each(w1), at(w1.data), at(g1.data), 0.05f));
      stream.run(kernels::ops::sgd_step(each(w2), at(w2.data), at(g2.data), 0.05f));
      stream.run(kernels::ops::sgd_step(kHidden, at(b1), at(db1), 0.05f));
    }
  }));
}

}  // namespace
}  // namespace weft::gpu::stream_chain_test
