// SPDX-License-Identifier: Apache-2.0

#include "gpu/command_graph.hpp"

#include "tests/gpu/gpu_testing.hpp"
#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <tuple>

namespace weft::gpu::command_graph_test {
namespace {

using namespace testing_support;
using kernels::Activation;
using kernels::BinaryOp;
using kernels::ConstPanels;
using kernels::testing_ops::At;

std::unique_ptr<VulkanStream> make_stream() {
  auto stream = device().make_stream();
  EXPECT_TRUE(stream) << stream.error().text();
  return std::move(*stream);
}

constexpr std::size_t kSide = 16, kSlot = kSide * kSide, kSlots = 8;

/// An operation on places of an arena, the same for every stream.
struct Step {
  std::uint32_t kind;
  std::array<std::size_t, 3> slot;  // all different
  std::size_t row, rows, col, cols;
};

Step draw_step(RandomStream& random) {
  Step s;
  s.kind = random.next_below(14);
  s.slot[0] = random.next_below(kSlots);
  do s.slot[1] = random.next_below(kSlots);
  while (s.slot[1] == s.slot[0]);
  do s.slot[2] = random.next_below(kSlots);
  while (s.slot[2] == s.slot[0] || s.slot[2] == s.slot[1]);
  s.row = random.next_below(kSide), s.rows = 1 + random.next_below(static_cast<std::uint32_t>(kSide - s.row));
  s.col = random.next_below(kSide), s.cols = 1 + random.next_below(static_cast<std::uint32_t>(kSide - s.col));
  return s;
}

void perform(const Step& s, OpStream& stream, float* arena, const float* panels, const ConstWeight& coded) {
  const auto part = [&](std::size_t i) {
    return MatrixView{arena + s.slot[i] * kSlot + s.row * kSide + s.col, s.rows, s.cols, kSide};
  };
  const auto whole = [&](std::size_t i) { return MatrixView{arena + s.slot[i] * kSlot, kSide, kSide, kSide}; };
  const auto full_rows = [&](std::size_t i) { return MatrixView{whole(i).row(s.row), s.rows, kSide, kSide}; };
  float* const vector = whole(1).data;
  switch (s.kind) {
    case 0:
      return stream.fill({0.25f, part(0)});
    case 1:
      return stream.copy({part(0), part(1)});
    case 2:
      return stream.scale({0.5f, part(0), part(0)});
    case 3:
      return stream.axpy({-0.75f, part(0), part(1)});
    case 4:
      return stream.binary({BinaryOp::mul, part(0), part(1), part(2)});
    case 5:
      return stream.unary({Activation::tanh, part(0), part(1)});
    case 6:
      return stream.linear(
          {ConstPanels{panels, kSide, kSide}, whole(2).data, full_rows(0), Activation::tanh, {}, full_rows(1)});
    case 7:
      return stream.linear({coded, nullptr, full_rows(0), Activation::sigmoid, {}, full_rows(1)});
    case 8:
      return stream.row_sums({part(0), vector});
    case 9:
      return stream.softmax({part(0), 1.0f, part(1)});
    case 10:
      return stream.top_k_mask({part(0), 2, part(0)});
    case 11:
      return stream.column_accumulate({part(0), vector});
    case 12: {
      kernels::Pool pool;
      pool.window.channels = 1;
      pool.window.in = {1, 4, 4}, pool.window.kernel = {1, 2, 2}, pool.window.stride = {1, 2, 2};
      pool.window.out = {1, 2, 2};
      MatrixView to = full_rows(1);
      to.cols = 4;
      return stream.avg_pool({pool, full_rows(0), to});
    }
    default:
      return stream.outer_accumulate({full_rows(0), full_rows(1), {whole(2).data, kSide, kSide}});
  }
}

TEST(CommandGraph, OfRandomOperationsHasTheBitsOfThemOneByOne) {
  for (std::uint32_t seed = 0; seed < 12; ++seed) {
    RandomStream random(90, seed, RandomPurpose::test);
    std::vector<Step> steps;
    for (int i = 0; i < 150; ++i) steps.push_back(draw_step(random));
    Operands o(90 + seed, false);
    float* const arena = o.values(kSlots * kSlot);
    const kernels::Panels panels = o.panels(kSide, kSide);
    const ConstWeight coded = o.weight(Encoding(Dtype::int8), kSide, kSide, Activations::int8);
    expect_cpus_bits(o.chain("seed " + std::to_string(seed), [=](OpStream& stream, const At& at) {
      for (const Step& each : steps) perform(each, stream, at(arena), at(panels.data), at(coded));
    }));
  }
}

/// Cells y[c] = tanh(w[c] x[c]), `ticks` times to and fro between two rings.
struct Cells {
  static constexpr std::size_t kWidth = 16;
  Cells(VulkanStream& stream, std::size_t n) : count(n) {
    RandomStream random(91, 0, RandomPurpose::test);
    w = on_device(stream, draw(random, count * kWidth * kWidth));
    x = on_device(stream, draw(random, count * kWidth));
    y = on_device(stream, std::vector<float>(count * kWidth));
  }
  void tick(VulkanStream& stream, bool back) const {
    for (std::size_t c = 0; c < count; ++c) {
      const MatrixView a{x.data() + c * kWidth, 1, kWidth, kWidth}, b{y.data() + c * kWidth, 1, kWidth, kWidth};
      stream.linear({ConstPanels{w.data() + c * kWidth * kWidth, kWidth, kWidth},
                     nullptr,
                     back ? b : a,
                     Activation::tanh,
                     {},
                     back ? a : b});
    }
  }
  std::size_t count;
  Buffer w, x, y;
};

TEST(CommandGraph, EqualCellsAreOneDispatchAndTicksAreLevels) {
  const auto stream = make_stream();
  const Cells cells(*stream, 100);
  ASSERT_TRUE(stream->begin_capture());
  const auto before = stream->dispatches();
  for (const bool back : {false, true, false}) cells.tick(*stream, back);
  EXPECT_EQ(stream->dispatches(), before);  // captured, not recorded
  const auto graph = stream->end_capture();
  ASSERT_TRUE(graph) << graph.error().text();
  EXPECT_EQ((*graph)->operations(), 300u);
  EXPECT_EQ((*graph)->dispatches(), 3u);
  EXPECT_EQ((*graph)->levels(), 3u);
  EXPECT_LT((*graph)->bytes(), 300u * 88);  // not all operands of each: they grow by steps
  // Recorded one by one.
  const auto plain = make_stream();
  const Cells same(*plain, 100);
  for (const bool back : {false, true, false}) same.tick(*plain, back);
  ASSERT_TRUE(stream->run(*graph));
  EXPECT_EQ(from_device(*stream, cells.y), from_device(*plain, same.y));
  EXPECT_EQ(from_device(*stream, cells.x), from_device(*plain, same.x));
}

// Links that go anywhere: what each cell reads stands in the table, the rest does not. And a cell notes what it puts
// out.
TEST(CommandGraph, CellsThatReadAnywhereAreOneDispatchAndNoteByThemselves) {
  constexpr std::size_t kCells = 200, kWidth = Cells::kWidth;
  for (const std::size_t outputs : {kWidth, kWidth - 3})
    for (const bool is_wrong : {false, true}) {
      const auto stream = make_stream(), plain = make_stream();
      const Buffer words = on_device(*stream, std::vector<float>(2));
      auto* const word = words.data<std::uint32_t>();
      const auto tick = [&](VulkanStream& to, const Cells& cells, bool flags) {
        for (std::size_t c = 0; c < kCells; ++c) {
          const MatrixView y{cells.y.data() + c * kWidth, 1, outputs, kWidth};
          to.linear({ConstPanels{cells.w.data() + c * kWidth * kWidth, outputs, kWidth},
                     nullptr,
                     {cells.x.data() + c * 37 % kCells * kWidth, 1, kWidth, kWidth},
                     Activation::tanh,
                     {},
                     y});
          if (flags) to.flag_not_finite(y, word + c % 2, 1u << c % 32);
        }
      };
      const Cells cells(*stream, kCells), same(*plain, kCells);
      if (is_wrong) {  // a weight of output 2 of cell 69
        const float nan = std::numeric_limits<float>::quiet_NaN();
        for (const auto& [to, of] : {std::pair(stream.get(), &cells), std::pair(plain.get(), &same)})
          to->upload(&nan, sizeof nan, of->w.data() + 69 * kWidth * kWidth + 5 * kWidth + 2);
      }
      ASSERT_TRUE(stream->begin_capture());
      tick(*stream, cells, true);
      const auto graph = stream->end_capture();
      ASSERT_TRUE(graph) << graph.error().text();
      EXPECT_EQ((*graph)->dispatches(), 1u);
      EXPECT_EQ((*graph)->levels(), 1u);
      ASSERT_TRUE(stream->run(*graph, 20));
      tick(*plain, same, false);
      const auto bits_of = [](const std::vector<float>& values) {
        std::vector<std::uint32_t> bits(values.size());
        std::memcpy(bits.data(), values.data(), values.size() * sizeof(float));
        return bits;
      };
      EXPECT_EQ(bits_of(from_device(*stream, cells.y)), bits_of(from_device(*plain, same.y)));
      std::array<std::uint32_t, 2> got{};
      ASSERT_TRUE(stream->download(word, sizeof got, got.data()));
      EXPECT_EQ(got[0], 0u);
      EXPECT_EQ(got[1], is_wrong ? 1u << 69 % 32 : 0u);
    }
}

TEST(CommandGraph, NotesWhatIsNotTheLastLayersOutputByItself) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto stream = make_stream();
  const Cells cells(*stream, 2);
  const Buffer words = on_device(*stream, std::vector<float>(1));
  auto* const word = words.data<std::uint32_t>();
  const MatrixView y{cells.y.data(), 1, 16, 16}, half{cells.y.data(), 1, 8, 16};
  const auto layer = [&] {
    stream->linear(
        {ConstPanels{cells.w.data(), 16, 16}, nullptr, {cells.x.data(), 1, 16, 16}, Activation::tanh, {}, y});
  };
  ASSERT_TRUE(stream->begin_capture());
  layer();
  stream->flag_not_finite(half, word, 1);  // less than it
  stream->fill({1.0f, {words.data(), 1, 1, 1}});
  layer();
  stream->flag_not_finite(y, word, 2);  // a word that is written on a later level
  ASSERT_TRUE(stream->end_capture());
  // Another command graph, in which an operation of the same number writes the same memory.
  ASSERT_TRUE(stream->begin_capture());
  stream->fill({kInfinity, y});
  stream->flag_not_finite(y, word, 4);
  const auto graph = stream->end_capture();
  ASSERT_TRUE(graph);
  EXPECT_EQ((*graph)->levels(), 2u);
  const std::uint32_t none = 0;
  stream->upload(&none, sizeof none, word);
  ASSERT_TRUE(stream->run(*graph));
  std::uint32_t got = 0;
  ASSERT_TRUE(stream->download(word, sizeof got, &got));
  EXPECT_EQ(got, 4u);
}

TEST(CommandGraph, RunManyTimesIsTheOperationsManyTimes) {
  const auto once = make_stream(), many = make_stream(), apart = make_stream();
  const Cells a(*once, 20), b(*many, 20), c(*apart, 20);
  const auto capture = [](VulkanStream& stream, const Cells& cells) {
    EXPECT_TRUE(stream.begin_capture());
    cells.tick(stream, false);
    cells.tick(stream, true);
    auto graph = stream.end_capture();
    EXPECT_TRUE(graph);
    return std::move(*graph);
  };
  constexpr int kTimes = 600;  // several submissions
  for (int i = 0; i < kTimes; ++i) {
    a.tick(*once, false);
    a.tick(*once, true);
  }
  ASSERT_TRUE(many->run(capture(*many, b), kTimes));
  const auto graph = capture(*apart, c);
  ASSERT_TRUE(apart->run(graph, 0));
  for (int i = 0; i < kTimes; i += 3) {
    ASSERT_TRUE(apart->run(graph, 2));
    ASSERT_TRUE(i % 5 || apart->submit());
    // In order with what is recorded between.
    c.tick(*apart, false);
    c.tick(*apart, true);
  }
  const auto want = from_device(*once, a.x);
  EXPECT_EQ(from_device(*many, b.x), want);
  EXPECT_EQ(from_device(*apart, c.x), want);
}

// Its memory goes with it, and something else takes its place at once.
TEST(CommandGraph, MayBeDroppedWhileItRuns) {
  const auto stream = make_stream();
  const Cells cells(*stream, 300);
  const auto before = device().memory().use().buffers;
  for (int round = 0; round < 20; ++round) {
    ASSERT_TRUE(stream->begin_capture());
    cells.tick(*stream, false);
    cells.tick(*stream, true);
    auto graph = stream->end_capture();
    ASSERT_TRUE(graph);
    ASSERT_TRUE(stream->run(*graph, 3));
    ASSERT_TRUE(round % 2 || stream->submit());
  }
  const auto plain = make_stream();
  const Cells same(*plain, 300);
  for (int i = 0; i < 60; ++i) {
    same.tick(*plain, false);
    same.tick(*plain, true);
  }
  EXPECT_EQ(from_device(*stream, cells.x), from_device(*plain, same.x));
  ASSERT_TRUE(stream->finish());
  EXPECT_LE(device().memory().use().buffers, before + 3);  // `same` has three
}

// More of one kind than a device runs in one dispatch.
TEST(CommandGraph, SplitsWhatExceedsTheDevicesGroups) {
  const auto stream = make_stream();
  const std::size_t limit = device().info().max_groups[2], count = limit + 5;
  if (limit > 100000) GTEST_SKIP() << "the limit is " << limit;
  std::vector<float> numbers(count);
  for (std::size_t i = 0; i < count; ++i) numbers[i] = static_cast<float>(i);
  const Buffer from = on_device(*stream, numbers), all = on_device(*stream, std::vector<float>(count));
  ASSERT_TRUE(stream->begin_capture());
  for (std::size_t i = 0; i < count; ++i) stream->row_sums({{from.data() + i, 1, 1, 1}, all.data() + i});
  const auto graph = stream->end_capture();
  ASSERT_TRUE(graph) << graph.error().text();
  EXPECT_EQ((*graph)->dispatches(), 2u);
  EXPECT_EQ((*graph)->levels(), 1u);
  ASSERT_TRUE(stream->run(*graph));
  EXPECT_EQ(from_device(*stream, all), numbers);
}

TEST(CommandGraph, OfNothingRuns) {
  const auto stream = make_stream();
  ASSERT_TRUE(stream->begin_capture());
  const auto graph = stream->end_capture();
  ASSERT_TRUE(graph);
  EXPECT_EQ((*graph)->dispatches() + (*graph)->levels() + (*graph)->operations(), 0u);
  EXPECT_TRUE(stream->run(*graph, 3));
  EXPECT_TRUE(stream->finish());
}

TEST(Flags, SayWhatIsNotFiniteAndWhatIsAllZero) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN(),
                  kTiny = std::numeric_limits<float>::denorm_min();
  for (const bool as_graph : {false, true}) {
    const auto stream = make_stream();
    std::vector<float> values(3 * 700, 1.0f);
    values[700 + 699] = -kInfinity, values[1400] = kNan;
    std::vector<float> zeros(1000, -0.0f);
    zeros[999] = kTiny;
    const Buffer x = on_device(*stream, values), z = on_device(*stream, zeros),
                 words = on_device(*stream, std::vector<float>(4));
    auto* const word = words.data<std::uint32_t>();
    const auto row = [&](std::size_t i) { return kernels::ConstMatrixView{x.data() + i * 700, 1, 700, 700}; };
    ASSERT_TRUE(!as_graph || stream->begin_capture());
    stream->flag_not_finite(row(0), word, 1);
    stream->flag_not_finite(row(1), word, 2);
    stream->flag_not_finite(row(2), word, 4);
    stream->flag_not_finite({x.data() + 699, 3, 1, 700}, word, 8);   // a column: with the infinity
    stream->flag_not_finite({x.data() + 698, 2, 1, 700}, word, 16);  // the one before it
    stream->flag_all_zero(z.data(), 1000, word, 32);
    stream->flag_all_zero(x.data(), 700, word, 64);
    stream->fill({3.0f, {z.data() + 998, 1, 1, 1}});
    stream->flag_all_zero(z.data(), 1000, word, 128);
    stream->flag_all_zero(z.data(), 998, word + 1, 1u << 31);
    if (as_graph) {
      const auto graph = stream->end_capture();
      ASSERT_TRUE(graph);
      EXPECT_EQ((*graph)->levels(), 3u);  // the fill, and what sees it
      ASSERT_TRUE(stream->run(*graph));
    }
    std::array<std::uint32_t, 2> got{};
    ASSERT_TRUE(stream->download(word, sizeof got, got.data()));
    EXPECT_EQ(got[0], 2u | 4u | 8u | 32u);
    EXPECT_EQ(got[1], 1u << 31);
  }
}

TEST(Flags, OfZerosSeeAllOfMoreThanOnePart) {
  // gpu/stream_reductions.cpp cuts them into parts of 2^20.
  constexpr std::size_t kPart = std::size_t{1} << 20, kCount = 2 * kPart + 5;
  const auto stream = make_stream();
  const Buffer z = on_device(*stream, std::vector<float>(kCount)), words = on_device(*stream, std::vector<float>(1));
  auto* const word = words.data<std::uint32_t>();
  stream->flag_all_zero(z.data(), kCount, word, 1);
  std::uint32_t bit = 2;
  for (const std::size_t at : {std::size_t{0}, kPart - 1, kPart, 2 * kPart - 1, 2 * kPart, kCount - 1}) {
    stream->fill({1.0f, {z.data() + at, 1, 1, 1}});
    stream->flag_all_zero(z.data(), kCount, word, std::exchange(bit, bit * 2));
    stream->flag_all_zero(z.data(), at, word, std::exchange(bit, bit * 2));  // all before it
    stream->fill({0.0f, {z.data() + at, 1, 1, 1}});
  }
  stream->flag_all_zero(z.data() + 3, 2 * kPart, word, bit);
  std::uint32_t got = 0;
  ASSERT_TRUE(stream->download(word, sizeof got, &got));
  EXPECT_EQ(got, 1u | 4u * 0x555u | bit);
}

TEST(CommandGraph, AFailedOperationFailsItAndIsNamed) {
  const auto stream = make_stream();
  const Cells cells(*stream, 1);
  ASSERT_TRUE(stream->begin_capture());
  // More scratch memory than there is.
  ConstWeight stored;
  stored.dtype = Dtype::int8;
  stored.activations = Activations::int8;
  stored.out = 4, stored.in = std::size_t{1} << 20;
  stream->linear(
      {stored, nullptr, {cells.x.data(), std::size_t{1} << 38, stored.in, stored.in}, Activation::linear, {}, {}});
  const auto graph = stream->end_capture();
  ASSERT_FALSE(graph);
  EXPECT_NE(graph.error().text().find("scratch memory of a command graph"), std::string::npos) << graph.error().text();
  EXPECT_FALSE(stream->submit());
}

TEST(CommandGraph, WhatMustNotHappenMeanwhileIsAFailureThatStays) {
  const auto fails = [](const char* what, const auto& act) {
    const auto stream = make_stream();
    const Cells cells(*stream, 1);
    ASSERT_TRUE(stream->begin_capture());
    act(*stream, cells);
    const auto graph = stream->end_capture();
    ASSERT_FALSE(graph) << what;
    EXPECT_EQ(graph.error().code(), Errc::internal);
    EXPECT_NE(graph.error().text().find(what), std::string::npos) << graph.error().text();
    EXPECT_FALSE(stream->status());
  };
  float value = 0;
  fails("upload", [&](VulkanStream& s, const Cells& c) { s.upload(&value, 4, c.x.data()); });
  fails("download", [&](VulkanStream& s, const Cells& c) { EXPECT_FALSE(s.download(c.x.data(), 4, &value)); });
  fails("submit", [&](VulkanStream& s, const Cells&) { EXPECT_FALSE(s.submit()); });
  fails("begin_capture", [&](VulkanStream& s, const Cells&) { EXPECT_FALSE(s.begin_capture()); });
  fails("run", [&](VulkanStream& s, const Cells&) { EXPECT_FALSE(s.run(nullptr)); });

  const auto without = make_stream();
  EXPECT_FALSE(without->end_capture());
  const auto one = make_stream(), other = make_stream();
  ASSERT_TRUE(one->begin_capture());
  const auto graph = one->end_capture();
  ASSERT_TRUE(graph);
  const Status status = other->run(*graph);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), Errc::invalid_argument);
}

TEST(Watch, TellsWhatOperationsTouchRowByRow) {
  const auto stream = make_stream();
  const Buffer buffer = on_device(*stream, std::vector<float>(64, 1.0f));
  float* const data = buffer.data();
  const auto at = [&](std::size_t value) { return buffer.address() + value * sizeof(float); };
  const auto expect = [&](std::vector<MemoryAccess> accesses) {
    const auto key = [](const MemoryAccess& t) { return std::tuple(t.is_written, t.begin, t.end); };
    std::sort(accesses.begin(), accesses.end(), [&](const auto& a, const auto& b) { return key(a) < key(b); });
    std::vector<std::tuple<bool, std::uint64_t, std::uint64_t>> found;
    for (const MemoryAccess& each : accesses) found.push_back(key(each));
    EXPECT_EQ(found,
              (std::vector<std::tuple<bool, std::uint64_t, std::uint64_t>>{
                  {false, at(0), at(3)}, {false, at(8), at(11)}, {true, at(32), at(35)}, {true, at(40), at(43)}}));
  };
  const auto act = [&] { stream->scale({3.0f, {data, 2, 3, 8}, {data + 32, 2, 3, 8}}); };
  // Instead of anything else, recorded or captured.
  std::vector<MemoryAccess> accesses;
  stream->track_accesses(&accesses, true);
  act();
  expect(accesses);
  ASSERT_TRUE(stream->begin_capture());
  accesses.clear();
  act();
  expect(accesses);
  stream->track_accesses(nullptr);
  const auto nothing = stream->end_capture();
  ASSERT_TRUE(nothing) << nothing.error().text();
  EXPECT_EQ((*nothing)->operations(), 0u);
  EXPECT_EQ(from_device(*stream, buffer)[32], 1.0f);
  // Beside it.
  ASSERT_TRUE(stream->begin_capture());
  accesses.clear();
  stream->track_accesses(&accesses);
  act();
  stream->track_accesses(nullptr);
  expect(accesses);
  const auto graph = stream->end_capture();
  ASSERT_TRUE(graph) << graph.error().text();
  ASSERT_TRUE(stream->run(*graph));
  act();
  EXPECT_EQ(from_device(*stream, buffer)[32], 3.0f);
  expect(accesses);
}

}  // namespace
}  // namespace weft::gpu::command_graph_test
