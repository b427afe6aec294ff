// SPDX-License-Identifier: Apache-2.0
// Operations of command graphs that do what stands before or behind them: layers of few rows that norm and quantise
// their rows and add what stands beside, attentions that turn q and k and append to their states. The bits are those of
// the operations one by one, and levels go.

#include "kernels/attention.hpp"
#include "kernels/gated_linear.hpp"

#include "tests/gpu/gpu_testing.hpp"

namespace weft::gpu::stream_joined_test {
namespace {

using namespace testing_support;
using kernels::Activation;
using kernels::AttentionShape;
using kernels::BinaryOp;
using kernels::testing_ops::At;

constexpr std::size_t kWidth = 200, kHidden = 150;  // neither whole chunks nor whole panels

/// Levels of a case as a command graph.
std::uint64_t levels_of(const Case& c) {
  auto stream = device().make_stream();
  EXPECT_TRUE(stream) << stream.error().text();
  const Image image(c);
  auto buffer = device().memory().allocate(image.floats.size() * sizeof(float), "operands");
  EXPECT_TRUE((*stream)->begin_capture());
  run(c, **stream, image, buffer->data(), false);
  const auto graph = (*stream)->end_capture();
  EXPECT_TRUE(graph) << graph.error().text();
  return graph ? (*graph)->levels() : 0;
}

struct Kind {
  Encoding encoding;
  std::vector<std::size_t> rows = {1};
  Activations activations = Activations::int8;
};
std::vector<Kind> kinds() {
  std::vector<Kind> all{{Encoding(Dtype::float32), {1, 3}}, {Encoding(Dtype::int8, Granularity::block32)}};
  if (device().info().kind == "cpu") return all;  // which compiles shaders for seconds
  for (const Dtype dtype : {Dtype::bfloat16, Dtype::fp8_e4m3, Dtype::uint8, Dtype::int4, Dtype::binary, Dtype::int32})
    all.push_back({Encoding(dtype), {1, 3}});
  all.push_back({Encoding(Dtype::ternary, Granularity::tensor), {1, 5}, Activations::int8_row});
  return all;
}

/// Half a block of a language model: a copy, a norm, a gated pair, a layer, the sum with what came in; twice, so that
/// the second reads the first's sum through a copy.
Case feed_forward(const Kind& kind, std::size_t rows, bool is_special) {
  Operands o(311, is_special);
  const auto stored = [&](std::size_t out, std::size_t in) {
    return o.weight(kind.encoding, out, in, kind.activations);
  };
  const kernels::ConstWeight gate = stored(kHidden, kWidth), up = stored(kHidden, kWidth),
                             down = stored(kWidth, kHidden), head = stored(33, kWidth);
  const MatrixView x = o.matrix(rows, kWidth, 8), copied = o.matrix(rows, kWidth, 8),
                   normed = o.matrix(rows, kWidth, 8), values = o.matrix(rows, kernels::kGatedBlocks * kHidden, 8),
                   out = o.matrix(rows, kWidth, 8), sum = o.matrix(rows, kWidth, 8), y = o.matrix(rows, 33),
                   z = o.matrix(rows, 33);
  float *const gain = o.values(kWidth), *const numbers = o.values(rows), *const bias = o.values(kWidth);
  return o.chain("feed forward", [=](OpStream& stream, const At& at) {
    const auto stored_at = [&](kernels::ConstWeight w) {
      w.codes = at(w.codes), w.scales = at(w.scales), w.zero_points = at(w.zero_points), w.nan_free = nullptr;
      return w;
    };
    stream.copy({at(x), at(copied)});
    for (int i = 0; i < 2; ++i) {
      stream.rms_norm({at(copied), at(gain), 1e-5f, at(normed), at(numbers)});
      stream.gated_linear(
          {{stored_at(gate), stored_at(up), nullptr, nullptr}, at(normed), Activation::silu, at(values)});
      stream.linear({stored_at(down),
                     at(bias),
                     gated_block(kernels::ConstMatrixView(at(values)), kernels::GatedBlock::product),
                     Activation::linear,
                     {},
                     at(out)});
      if (i == 0)
        stream.binary({BinaryOp::add, at(copied), at(out), at(sum)});
      else
        stream.binary({BinaryOp::add, at(out), at(copied), at(out)});  // over what it adds to: on its own
      stream.copy({i == 0 ? at(sum) : at(out), at(copied)});
    }
    stream.rms_norm({at(copied), at(gain), 1e-5f, at(normed), at(numbers)});
    stream.linear({stored_at(head), nullptr, at(normed), Activation::gelu, at(z), at(y)});
  });
}

TEST(StreamJoined, LayersNormAndAdd) {
  for (const Kind& kind : kinds())
    for (const std::size_t rows : kind.rows)
      for (const bool is_special : {false, true}) {
        SCOPED_TRACE(to_string(kind.encoding) + ", rows " + std::to_string(rows));
        auto stream = device().make_stream();
        ASSERT_TRUE(stream) << stream.error().text();
        expect_cpus_bits(**stream, feed_forward(kind, rows, is_special), Form::graph);
      }
}

TEST(StreamJoined, LevelsGo) {
  for (const Dtype dtype : {Dtype::float32, Dtype::int8}) {
    const Case c = feed_forward({Encoding(dtype)}, 1, false);
    // The gated pair and the layer behind it, twice; the sum over what it adds to; the head.
    EXPECT_EQ(levels_of(c), 6u) << name(dtype);
  }
}

// Operands of a norm or a copy are written again before its result is used.
TEST(StreamJoined, WhatWasOverwrittenIsNotReadAgain) {
  for (const int what : {0, 1, 2, 3}) {
    Operands o(320 + static_cast<std::uint64_t>(what), false);
    const kernels::ConstWeight w = o.weight(Encoding(Dtype::float32), kWidth, kWidth, Activations::int8);
    const MatrixView x = o.matrix(1, kWidth, 8), other = o.matrix(1, kWidth, 8), copied = o.matrix(1, kWidth, 8),
                     normed = o.matrix(1, kWidth, 8), y = o.matrix(1, kWidth, 8), sum = o.matrix(1, kWidth, 8);
    float *const gain = o.values(kWidth), *const numbers = o.values(1);
    auto stream = device().make_stream();
    ASSERT_TRUE(stream) << stream.error().text();
    const Case c = o.chain("overwritten " + std::to_string(what), [=](OpStream& stream, const At& at) {
      kernels::ConstWeight there = w;
      there.codes = at(w.codes), there.scales = at(w.scales), there.zero_points = nullptr, there.nan_free = nullptr;
      stream.copy({at(x), at(copied)});
      if (what == 0) stream.copy({at(other), at(x)});
      stream.rms_norm({at(copied), at(gain), 1e-5f, at(normed), at(numbers)});
      if (what == 1) stream.copy({at(other), at(copied)}), stream.copy({at(other), at(x)});
      if (what == 2) stream.scale({2.0f, {at(gain), 1, kWidth, kWidth}, {at(gain), 1, kWidth, kWidth}});
      stream.linear({there, nullptr, at(normed), Activation::linear, {}, at(y)});
      if (what == 3) stream.copy({at(x), at(copied)});
      stream.binary({BinaryOp::add, at(copied), at(y), at(sum)});
      if (what == 3) stream.binary({BinaryOp::add, at(sum), at(y), at(copied)});
    });
    expect_cpus_bits(**stream, c, Form::graph);
  }
}

/// Tokens one by one into states that stay where they are, as Attention makes them.
Case sequence(const AttentionShape& shape, const std::vector<kernels::RopePairs>& pairs, std::size_t turned,
              std::size_t sessions, std::size_t tokens) {
  Operands o(331, false);
  const std::size_t width = shape.heads * shape.head_dim, keys = shape.kv_heads * shape.head_dim,
                    size = kernels::attention_state_size(shape);
  kernels::RopeSettings settings;
  settings.head_dim = shape.head_dim, settings.dims = turned;
  if (!pairs.empty()) settings.pairs = pairs[0];
  kernels::Rope rope{shape.head_dim, settings.pairs, o.words(rope_turns(settings)), nullptr, 0, turned, 1.5};
  const MatrixView q = o.matrix(sessions, tokens * width), k = o.matrix(sessions, tokens * keys),
                   v = o.matrix(sessions, tokens * keys), y = o.matrix(sessions, tokens * width),
                   statistics = o.matrix(sessions, tokens * attention_statistics_size(shape)),
                   state = o.matrix_of(sessions, size, std::vector<float>(sessions * size));
  float *const workspace = o.workspace(kernels::attention_workspace_size(shape)), *const angles =
                                                                                      o.workspace(2 * shape.head_dim);
  return o.chain("sequence", [=, has_rope = !pairs.empty()](OpStream& stream, const At& at) {
    for (std::size_t i = 0; i < tokens; ++i) {
      const auto of = [&](MatrixView all, std::size_t each) {
        all.data += i * each, all.cols = each;
        return at(all);
      };
      kernels::Rope there = rope;
      there.turns = at(rope.turns);
      if (has_rope) {
        stream.rope({there, 1, of(q, width), at(state), false, of(q, width), at(angles)});
        stream.rope({there, 1, of(k, keys), at(state), false, of(k, keys), at(angles)});
      }
      stream.attention({shape,
                        {of(q, width), of(k, keys), of(v, keys), at(state)},
                        of(y, width),
                        of(statistics, attention_statistics_size(shape)),
                        at(state),
                        at(workspace)});
    }
  });
}

TEST(StreamJoined, AttentionTurnsAndAppends) {
  using kernels::RopePairs;
  expect_cpus_bits(sequence({1, 4, 2, 16, 100, 0, true, 0.3f}, {RopePairs::half}, 0, 1, 70));
  expect_cpus_bits(sequence({1, 3, 1, 70, 90, 24, true, 0.3f, 5.0f}, {RopePairs::interleaved}, 0, 2, 30));
  expect_cpus_bits(sequence({1, 2, 2, 20, 19, 0, true, 0.3f}, {RopePairs::half}, 8, 2, 40));  // the ring goes round
  expect_cpus_bits(sequence({1, 4, 1, 8, 40, 0, true, 0.3f}, {}, 0, 1, 10));
}

TEST(StreamJoined, ATokensAttentionIsOneLevel) {
  const AttentionShape shape{1, 4, 2, 16, 100, 0, true, 0.3f};
  // Angles; attention; turns and positions. A token more waits for positions, angles and attention.
  EXPECT_LE(levels_of(sequence(shape, {kernels::RopePairs::half}, 0, 1, 1)), 3u);
}

// Keys of many chunks: more than a group has parts, and more than it keeps scores of.
TEST(StreamJoined, AttentionGoesOverManyChunks) {
  for (const auto& [context, tokens] : {std::pair<std::size_t, std::size_t>(1200, 900), {6000, 5000}}) {
    AttentionShape shape{tokens, 1, 1, 4, context, 0, true, 0.3f}, one = shape;
    one.tokens = 1;
    Operands o(341, false);
    const std::size_t size = kernels::attention_state_size(shape);
    const MatrixView q = o.matrix(1, tokens * 4), k = o.matrix(1, tokens * 4), v = o.matrix(1, tokens * 4),
                     y = o.matrix(1, tokens * 4), statistics = o.matrix(1, attention_statistics_size(shape)),
                     state = o.matrix_of(1, size, std::vector<float>(size));
    float* const workspace = o.workspace(kernels::attention_workspace_size(shape));
    const bool is_long = tokens > 1000;
    expect_cpus_bits(o.chain("many chunks", [=](OpStream& stream, const At& at) {
      // Of the long one only the last token: the state is written as it would be, without the others' sums.
      AttentionShape first = shape;
      if (is_long) first.window = 1;
      stream.attention({first, {at(q), at(k), at(v), at(state)}, at(y), at(statistics), at(state), at(workspace)});
      const auto of = [&](MatrixView all) {
        all.cols = 4;
        return at(all);
      };
      MatrixView numbers = statistics;
      numbers.cols = attention_statistics_size(one);
      stream.attention({one, {of(q), of(k), of(v), at(state)}, of(y), at(numbers), at(state), at(workspace)});
    }));
  }
}

// Operations whose results nobody reads are left out; those that a later one reads, or that lie elsewhere, stay.
TEST(StreamJoined, WhatNobodyReadsIsLeftOut) {
  auto stream = device().make_stream();
  ASSERT_TRUE(stream) << stream.error().text();
  constexpr std::size_t kCount = 64;
  const std::vector<float> ones(kCount, 1.0f);
  const Buffer x = on_device(**stream, ones), between = on_device(**stream, ones), kept = on_device(**stream, ones),
               unread = on_device(**stream, ones);
  const auto row = [](const Buffer& of) { return MatrixView{of.data(), 1, kCount, kCount}; };
  const auto memory = [](const Buffer& of) { return MemoryAccess{of.address(), of.address() + of.bytes(), true}; };
  ASSERT_TRUE((*stream)->begin_capture());
  (*stream)->leave_out_unread({memory(between), memory(unread)});
  (*stream)->scale({2.0f, row(x), row(between)});
  (*stream)->scale({3.0f, row(between), row(kept)});
  (*stream)->scale({5.0f, row(kept), row(between)});
  (*stream)->scale({7.0f, row(between), row(unread)});
  const auto graph = (*stream)->end_capture();
  ASSERT_TRUE(graph) << graph.error().text();
  EXPECT_EQ((*graph)->operations(), 2u);
  EXPECT_EQ((*graph)->levels(), 2u);
  ASSERT_TRUE((*stream)->run(*graph));
  EXPECT_EQ(from_device(**stream, kept), std::vector<float>(kCount, 6.0f));
  EXPECT_EQ(from_device(**stream, between), std::vector<float>(kCount, 2.0f));
  EXPECT_EQ(from_device(**stream, unread), ones);
}

// Operations behind a word leave all as it is where that is 0 when they run, also where an operation before them, of
// the same command graph, made it 0; those behind the part run in any case.
TEST(StreamJoined, WhatDependsOnAWordIsLeftOut) {
  if (!device().info().conditional_dispatches) GTEST_SKIP() << "the device has no conditional dispatches";
  constexpr std::size_t kCount = 300;
  for (const bool is_graph : {false, true})
    for (const float before : {0.0f, 1.0f})
      for (const float factor : {0.0f, 1.0f}) {
        auto stream = device().make_stream();
        ASSERT_TRUE(stream) << stream.error().text();
        const std::vector<float> ones(kCount, 1.0f);
        const Buffer first = on_device(**stream, ones), second = on_device(**stream, ones),
                     word = on_device(**stream, std::vector<float>(2, before));
        const MatrixView x{first.data(), 1, kCount, kCount}, y{second.data(), 1, kCount, kCount},
            made{word.data(), 1, 1, 1};
        if (is_graph) {
          ASSERT_TRUE((*stream)->begin_capture());
        }
        (*stream)->scale({factor, made, made});
        EXPECT_TRUE((*stream)->run_only_if(word.data()));
        EXPECT_FALSE((*stream)->run_only_if(word.data<float>() + 1)) << "one within the other";
        (*stream)->scale({2.0f, x, x});
        (*stream)->scale({3.0f, x, y});
        EXPECT_TRUE((*stream)->run_only_if(nullptr));
        (*stream)->scale({5.0f, y, y});
        if (is_graph) {
          const auto graph = (*stream)->end_capture();
          ASSERT_TRUE(graph) << graph.error().text();
          ASSERT_TRUE((*stream)->run(*graph));
        }
        const bool runs = before * factor != 0.0f;
        EXPECT_EQ(from_device(**stream, first), std::vector<float>(kCount, runs ? 2.0f : 1.0f));
        EXPECT_EQ(from_device(**stream, second), std::vector<float>(kCount, runs ? 30.0f : 5.0f));
      }
}

TEST(StreamJoined, ADeviceWithoutConditionsSaysSo) {
  DeviceOptions options;
  options.cache_folder = "-";
  options.without_conditional_dispatches = true;
  const auto plain = Device::open(selector(), options);
  ASSERT_TRUE(plain) << plain.error().text();
  auto stream = (*plain)->make_stream();
  ASSERT_TRUE(stream) << stream.error().text();
  const float word = 0;
  EXPECT_FALSE((*stream)->run_only_if(&word));
}

}  // namespace
}  // namespace weft::gpu::stream_joined_test
