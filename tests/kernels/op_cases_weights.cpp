// SPDX-License-Identifier: Apache-2.0
// Operations on weights: linear layers, gated pairs, distances, embeddings, mixtures, permutations, encoding.

#include "kernels/linear_integer.hpp"

#include "core/numeric.hpp"

#include "tests/kernels/codec_testing.hpp"
#include "tests/kernels/coded_weights.hpp"
#include "tests/kernels/op_table.hpp"
#include <algorithm>
#include <limits>

namespace weft::kernels::testing_ops::rows {

struct Size {
  std::size_t batch, out, in;
};
static std::string text(const Size& s) {
  return ", batch " + std::to_string(s.batch) + ", out " + std::to_string(s.out) + ", in " + std::to_string(s.in);
}

/// make(operands, size) -> Case. Few rows and many, ends inside and at panels, chunks and tiles of every instruction
/// set and shader, nothing at all. `few`: half of them on a device.
template <class Make>
void products(Table& t, const Make& make, bool few = false) {
  std::vector<Size> all = {{1, 1, 1},     {1, 64, 64},    {1, 63, 65},   {2, 10, 64},  {1, 16, 257}, {1, 17, 0},
                           {0, 5, 5},     {7, 5, 0},      {1, 33, 1000}, {3, 100, 33}, {4, 48, 130}, {5, 97, 101},
                           {13, 31, 64},  {64, 65, 127},  {70, 130, 7},  {6, 80, 200}, {97, 40, 17}, {1, 40, 2200},
                           {5, 16400, 5}, {6, 16384, 18}, {2, 256, 128}, {1, 260, 64}, {40, 68, 260}};
  if (t.is_broad())
    for (const Size& s : {Size{1, 65, 63},
                          {1, 0, 5},
                          {1, 1000, 33},
                          {1, 1000, 1000},
                          {14, 16, 129},
                          {15, 47, 63},
                          {29, 130, 7},
                          {7, 1000, 64},
                          {4, 113, 66},
                          {200, 19, 70},
                          {1, 129, 128},
                          {1, 113, 512},
                          {3, 40, 1700},  // deep ones: their sums lie among the outputs from one part to the next
                          {57, 24, 3101},
                          {65, 33, 2048},
                          {33, 5, 4096},
                          {6, 48, 30000}})
      all.push_back(s);
  RandomStream random(2025, 0, RandomPurpose::test);
  for (int i = 0; i < (t.is_broad() ? 20 : 6); ++i)
    all.push_back({1 + random.next_below(34), 1 + random.next_below(150), 1 + random.next_below(200)});
  for (std::size_t i = 0; few && !t.is_broad() && i < all.size(); ++i)
    all.erase(all.begin() + static_cast<std::ptrdiff_t>(i));  // every other one
  std::size_t turn = 0;
  t.each(all, [&](Operands& o, const Size& s) {
    Case made = make(o, s, turn++);
    made.name += text(s);
    made.as_graph = turn % 3 == 0;
    return made;
  });
}

/// Sizes of stored weights: their ends in words, blocks and panels, few rows and many, nothing at all. Of integers that
/// meet integers every length of a row and every number of rows too.
static std::vector<Size> stored_sizes(bool is_broad, bool is_integer, bool is_special) {
  std::vector<Size> all = {is_special ? Size{7, 50, 97} : Size{1, 35, 100}};
  if (is_integer) all.insert(all.end(), {{1, 64, 64}, {2, 35, 41}, {3, 3, 31}, {1, 512, 7}, {1, 5, 0}});
  if (!is_broad) return all;
  all.insert(all.end(), {{1, 1, 1},
                         {1, 17, 0},
                         {0, 5, 5},
                         {1, 63, 65},
                         {1, 65, 63},
                         {1, 10, 257},
                         {1, 200, 33},
                         {1, 37, 1000},
                         {2, 31, 97},
                         {5, 130, 33},
                         {14, 64, 128},
                         {40, 19, 129}});
  for (std::size_t in = 2; is_integer && in <= 130; in += 1 + in / 20) all.push_back({in % 4, 19, in});
  for (std::size_t batch = 1; is_integer && is_special && batch <= 40; ++batch) all.push_back({batch, 49, 96});
  // Around tiles of rows and panels, pairs of blocks and their odd tails; many panels of one row, for tables.
  for (std::size_t i = 0; is_integer && i < 13; ++i)
    all.push_back({1 + (is_special ? i : 12 - i), 16 * (1 + i % 5) - i % 3, 32 + i * 42 + i / 12 * 8});
  if (is_integer) all.insert(all.end(), {{1, 128, 32}, {1, 177, 544}, {1, 205, 2113}, {17, 33, 544}, {17, 65, 992}});
  return all;
}
static std::vector<Size> every_fourth(const std::vector<Size>& sizes) {
  std::vector<Size> few;
  for (std::size_t i = 0; i < sizes.size(); i += 4) few.push_back(sizes[i]);
  return few;
}
/// make(operands, encoding, activations, size, turn) -> Case of every stored type, granularity and way to compute.
template <class Make>
void stored(Table& t, const Make& make, bool has_sizes = true, bool few = false) {
  bool special = false;
  std::size_t turn = 0, number = 0;
  for (const Encoding& encoding : t.is_broad() ? testing_coded::all_encodings() : testing_coded::device_encodings()) {
    special = !special;
    if (few && !t.is_broad() && number++ % 5 != 0) continue;
    for (const Activations activations : {Activations::int8, Activations::float32, Activations::int8_row}) {
      const bool is_integer = activations != Activations::float32;
      if (is_integer && !has_integer_kernel(encoding.dtype)) continue;
      for (const bool each : {false, true}) {
        if (!t.is_broad() && each != special) continue;
        std::vector<Size> sizes = stored_sizes(t.is_broad(), is_integer, each);
        if (!has_sizes) sizes.resize(1);
        // Sums of the one are those of int8, of the other those of block32.
        if (activations == Activations::int8_row || encoding.granularity == Granularity::block32_f16)
          sizes = every_fourth(sizes);
        for (const Size& size : sizes)
          t.one(each, [&](Operands& o) {
            Case made = make(o, encoding, activations, size, turn);
            made.name +=
                ", " + to_string(encoding) + ", activations " + std::string(weft::name(activations)) + text(size);
            made.as_graph = ++turn % 4 == 0;  // a second for each type, to compile its shaders once more
            return made;
          });
      }
    }
  }
  // Dequantized in groups of panels.
  for (const Dtype dtype : {Dtype::int4, Dtype::fp8_e4m3, Dtype::binary, Dtype::uint16})
    for (const std::size_t batch : {2, 30})
      if (t.is_broad() && has_sizes)
        t.one(false, [&](Operands& o) {
          return make(o, Encoding(dtype), Activations::float32, Size{batch, 331, 1500}, turn++);
        });
}

/// Few on a device, where each compiles shaders of its own.
static Activation activation_of(const Table& t, std::size_t turn) {
  if (t.is_broad()) return static_cast<Activation>(turn % kActivationCount);
  return turn % 4 ? Activation::linear : Activation::tanh;
}

void linear(Table& t) {
  products(t, [&](Operands& o, const Size& s, std::size_t turn) {
    const ConstPanels w = o.panels(s.out, s.in);
    const float* const bias = turn % 3 ? o.values(s.out) : nullptr;
    const MatrixView x = o.matrix(s.batch, s.in), z = turn % 2 ? o.matrix(s.batch, s.out) : MatrixView();
    return o.make("", ops::Linear{w, bias, x, activation_of(t, turn), z, o.matrix(s.batch, s.out)});
  });
  stored(t, [&](Operands& o, const Encoding& encoding, Activations activations, const Size& s, std::size_t turn) {
    const ConstWeight w = o.weight(encoding, s.out, s.in, activations);
    const bool is_bare = t.is_broad() && turn % 3 == 1, wants_z = t.is_broad() && turn % 2;
    const float* const bias = is_bare ? nullptr : o.values(s.out);
    const MatrixView x = o.matrix(s.batch, s.in), z = wants_z ? o.matrix(s.batch, s.out) : MatrixView();
    const Activation activation = t.is_broad() ? activation_of(t, turn) : Activation::relu;
    return o.make("", ops::Linear{w, bias, x, activation, z, o.matrix(s.batch, s.out)});
  });
}
void linear_transposed(Table& t) {
  products(t, [](Operands& o, const Size& s, std::size_t) {
    const ConstPanels w = o.panels(s.out, s.in);
    const MatrixView dy = o.matrix(s.batch, s.out);
    return o.make("", ops::LinearTransposed{w, dy, o.matrix(s.batch, s.in)});
  });
  stored(t, [](Operands& o, const Encoding& encoding, Activations activations, const Size& s, std::size_t) {
    const ConstWeight w = o.weight(encoding, s.out, s.in, activations);
    const MatrixView dy = o.matrix(s.batch, s.out);
    return o.make("", ops::LinearTransposed{w, dy, o.matrix(s.batch, s.in)});
  });
  // Lanes of a partial panel flush to -0; lanes past `out` hold +0 weights, which must not be added to them.
  t.one(false, [](Operands& o) {
    const Panels w = o.panels(65, 1);
    const MatrixView dy = o.matrix(1, 65);
    for (std::size_t i = 0; i < 65; ++i) w.data[panel_index(1, i, 0)] = -0x1p-100f, dy.data[i] = 0x1p-100f;
    return o.make(" of tiny products", ops::LinearTransposed{ConstPanels(w), dy, o.matrix(1, 1)});
  });
}
void outer_accumulate(Table& t) {
  products(t, [](Operands& o, const Size& s, std::size_t) {
    const MatrixView dy = o.matrix(s.batch, s.out), x = o.matrix(s.batch, s.in);
    return o.make("", ops::OuterAccumulate{dy, x, o.sums(s.out, s.in)});
  });
}
void column_l1_norms(Table& t) {
  products(t, [](Operands& o, const Size& s, std::size_t) {
    const ConstPanels w = o.panels(s.out, s.in);
    return o.make("", ops::ColumnL1Norms{w, o.values(s.in)});
  });
  stored(t, [](Operands& o, const Encoding& encoding, Activations activations, const Size& s, std::size_t) {
    const ConstWeight w = o.weight(encoding, s.out, s.in, activations);
    return o.make("", ops::ColumnL1Norms{w, o.values(s.in)});
  });
}

constexpr Activation kGates[] = {Activation::silu, Activation::gelu, Activation::relu2, Activation::tanh,
                                 Activation::linear};
/// Few on a device, where each compiles shaders of its own.
static Activation gate_of(const Table& t, std::size_t turn) {
  return kGates[t.is_broad() ? turn % std::size(kGates) : turn % 8 ? 0 : 2];
}
void gated_linear(Table& t) {
  products(
      t,
      [&](Operands& o, const Size& s, std::size_t turn) {
        const ConstPanels gate = o.panels(s.out, s.in), up = o.panels(s.out, s.in);
        const float *const gate_bias = turn % 2 ? o.values(s.out) : nullptr, *const up_bias =
                                                                                 turn % 2 ? o.values(s.out) : nullptr;
        const MatrixView x = o.matrix(s.batch, s.in), y = o.matrix(s.batch, kGatedBlocks * s.out);
        return o.make("", ops::GatedLinear{{gate, up, gate_bias, up_bias}, x, gate_of(t, turn), y});
      },
      true);
  const auto gated = [&](Operands& o, const Encoding& encoding, Activations activations, const Size&,
                         std::size_t turn) {
    // Small ones, which quantise their rows themselves on a device, deeper ones and many rows.
    constexpr Size kForms[] = {{1, 35, 60}, {2, 50, 97}, {7, 20, 150}};
    const Size s = kForms[turn % 3];
    const ConstWeight gate = o.weight(encoding, s.out, s.in, activations),
                      up = o.weight(encoding, s.out, s.in, activations);
    const float *const gate_bias = turn % 2 ? o.values(s.out) : nullptr, *const up_bias =
                                                                             turn % 2 ? o.values(s.out) : nullptr;
    const MatrixView x = o.matrix(s.batch, s.in), y = o.matrix(s.batch, kGatedBlocks * s.out);
    return o.make("", ops::GatedLinear{{gate, up, gate_bias, up_bias}, x, gate_of(t, turn), y});
  };
  stored(t, gated, false, true);  // its shaders share linear's text
}
void gated_backward(Table& t) {
  for (const Activation gate : kGates)
    t.shapes([&](Operands& o, const Shape& s) {
      const MatrixView values = o.matrix(s.rows, kGatedBlocks * s.cols), dy = o.matrix(s.rows, s.cols),
                       dgate = o.matrix(s.rows, s.cols), dup = o.matrix(s.rows, s.cols);
      return o.make("", ops::GatedBackward{gate, values, dy, dgate, dup}, dgate.data, dy.data);
    });
}

constexpr Size kDistances[] = {{1, 1, 1},   {5, 17, 70}, {3, 70, 9},  {20, 130, 5}, {2, 16, 64},
                               {9, 33, 63}, {7, 65, 31}, {3, 100, 1}, {12, 48, 200}};
void squared_distances(Table& t) {
  t.each(kDistances, [](Operands& o, const Size& s) {
    const ConstPanels points = o.panels(s.out, s.in);
    const MatrixView x = o.matrix(s.batch, s.in);
    return o.make(text(s), ops::SquaredDistances{points, x, o.matrix(s.batch, s.out)});
  });
  const auto of_type = [](Operands& o, const Encoding& encoding, Activations activations, const Size&, std::size_t) {
    const ConstWeight points = o.weight(encoding, 21, 35, activations);
    const MatrixView x = o.matrix(3, 35);
    return o.make("", ops::SquaredDistances{points, x, o.matrix(3, 21)});
  };
  stored(t, of_type, false);
}
void squared_distances_backward(Table& t) {
  for (const int wanted : {1, 2, 3})
    t.each(kDistances, [&](Operands& o, const Size& s) {
      const ConstPanels points = o.panels(s.out, s.in);
      const MatrixView x = o.matrix(s.batch, s.in), dy = o.matrix(s.batch, s.out),
                       dx = wanted & 1 ? o.matrix(s.batch, s.in) : MatrixView();
      const Panels dc = wanted & 2 ? o.sums(s.out, s.in) : Panels();
      return o.make(text(s), ops::SquaredDistancesBackward{points, x, dy, dx, dc});
    });
  const auto of_type = [](Operands& o, const Encoding& encoding, Activations activations, const Size&, std::size_t) {
    const ConstWeight points = o.weight(encoding, 21, 35, activations);
    const MatrixView x = o.matrix(3, 35), dy = o.matrix(3, 21);
    return o.make("", ops::SquaredDistancesBackward{points, x, dy, o.matrix(3, 35), {}});
  };
  stored(t, of_type, false);
}

/// Takes some experts their weight, and what they made is no number.
void leave_out(const MatrixView& p, const MatrixView& x) {
  const std::size_t cols = x.cols / p.cols;
  for (std::size_t b = 0; b < p.rows; ++b)
    for (std::size_t e = b % 2; e < p.cols; e += 2) {
      p.row(b)[e] = 0.0f;
      std::fill_n(x.row(b) + e * cols, cols, e % 3 == 0 ? std::numeric_limits<float>::quiet_NaN() : 1e38f);
    }
}

void weighted_sum(Table& t) {
  for (const std::size_t experts : {1, 5})
    t.shapes([&](Operands& o, const Shape& s) {
      const MatrixView p = o.matrix(s.rows, experts), x = o.matrix(s.rows, experts * s.cols);
      leave_out(p, x);
      return o.make("", ops::WeightedSum{p, x, o.matrix(s.rows, s.cols)});
    });
}
void weighted_sum_backward(Table& t) {
  for (const std::size_t experts : {1, 5})
    t.shapes([&](Operands& o, const Shape& s) {
      const MatrixView p = o.matrix(s.rows, experts), x = o.matrix(s.rows, experts * s.cols),
                       dy = o.matrix(s.rows, s.cols), dp = o.matrix(s.rows, experts);
      leave_out(p, x);
      return o.make("", ops::WeightedSumBackward{p, x, dy, dp, o.matrix(s.rows, experts * s.cols)});
    });
}

void permute(Table& t) {
  using Axes = std::vector<std::size_t>;
  const std::vector<std::pair<Axes, Axes>> cases = {{{7, 5}, {1, 0}},
                                                    {{3, 4, 5}, {2, 0, 1}},
                                                    {{6}, {0}},
                                                    {{2, 3, 1, 4, 2}, {4, 2, 0, 3, 1}},
                                                    {{33, 20}, {1, 0}},
                                                    {{17, 2, 19}, {1, 2, 0}},
                                                    {{2, 3, 4, 5}, {3, 1, 0, 2}},
                                                    {{1, 1, 1}, {2, 0, 1}},
                                                    {{5, 1, 6}, {0, 2, 1}},
                                                    {{2, 2, 2, 2, 2, 2, 2, 2}, {6, 0, 3, 7, 1, 5, 2, 4}}};
  for (const bool is_inverse : {false, true})
    t.each(cases, [&](Operands& o, const std::pair<Axes, Axes>& each) {
      std::size_t volume = 1;
      for (const std::size_t n : each.first) volume *= n;
      const MatrixView x = o.matrix(3, volume);
      const auto order =
          is_inverse ? AxisOrder::inverse(each.first, each.second) : AxisOrder::make(each.first, each.second);
      return o.make(" of rank " + std::to_string(each.first.size()), ops::Permute{x, order, o.matrix(3, volume)});
    });
}

/// Places of columns, and what names none.
static MatrixView columns(Operands& o, std::size_t count, std::size_t below) {
  const MatrixView x = o.matrix(2, count);
  for (std::size_t b = 0; b < 2; ++b)
    for (std::size_t i = 0; i < count; ++i)
      x.row(b)[i] = static_cast<float>(o.random().next_below(static_cast<std::uint32_t>(below))) + 0.5f;
  x.row(0)[0] = -3.0f, x.row(0)[1] = 1e9f, x.row(0)[2] = std::nanf(""), x.row(1)[0] = 0x1p-140f;
  x.row(1)[1] = static_cast<float>(below), x.row(1)[2] = static_cast<float>(below - 1);
  return x;
}
void embedding(Table& t) {
  const auto of_type = [](Operands& o, const Encoding& encoding, Activations activations, const Size&, std::size_t) {
    const ConstWeight w = o.weight(encoding, 21, 12, activations);
    return o.make("", ops::Embedding{w, columns(o, 9, 12), o.matrix(2, 9 * 21)});
  };
  stored(t, of_type, false);
  const auto of_rows = [](Operands& o, const Encoding& encoding, Activations activations, const Size&, std::size_t) {
    constexpr std::size_t kIn = 70;  // two blocks and a part of one
    const ConstWeight w = o.weight(encoding, 21, kIn, activations);
    return o.make(" of rows", ops::Embedding{w, columns(o, 9, 21), o.matrix(2, 9 * kIn), TableEntries::rows});
  };
  stored(t, of_rows, false);
}
void embedding_backward(Table& t) {
  t.each(std::vector<std::size_t>{3, kNoColumn}, [](Operands& o, std::size_t skipped) {
    const MatrixView x = columns(o, 9, 12), dy = o.matrix(2, 9 * 21);
    return o.make("", ops::EmbeddingBackward{x, dy, skipped, o.sums(21, 12)});
  });
  t.each(std::vector<std::size_t>{3, kNoColumn}, [](Operands& o, std::size_t skipped) {
    const MatrixView x = columns(o, 9, 21), dy = o.matrix(2, 9 * 12);
    return o.make(" of rows", ops::EmbeddingBackward{x, dy, skipped, o.sums(21, 12), TableEntries::rows});
  });
}

/// A master of one kind of numbers; where the case is special every ninth an infinity, a NaN or a subnormal.
static ConstPanels master(Operands& o, std::size_t out, std::size_t in, testing_codec::Fill fill) {
  const Panels to = o.panels(out, in);
  for (std::size_t i = 0; i < out; ++i)
    for (std::size_t k = 0; k < in; ++k)
      if (!o.is_special() || o.random().next_below(2) == 0)
        to.data[panel_index(in, i, k)] = testing_codec::draw(o.random(), fill);
  return to;
}
/// Every number of a format, the middles between neighbours, and the floats beside both.
template <class T>
static std::vector<float> telling_floats() {
  std::vector<float> all = {0.0f, -0.0f, 0x1p-149f, -0x1p-149f, 0x1.fffffcp-127f};
  for (unsigned code = 0; code < T::kLargest; ++code) {
    const float a = T::decode(static_cast<typename T::Code>(code)),
                b = T::decode(static_cast<typename T::Code>(code + 1));
    // By bits: the middle of bfloat16's subnormals is one of float32's.
    const auto middle = static_cast<float>((numeric::Float64::decode(numeric::Float64::encode(a)) +
                                            numeric::Float64::decode(numeric::Float64::encode(b))) /
                                           2);
    const float tie =
        T::bias == 127 ? std::bit_cast<float>((std::bit_cast<std::uint32_t>(a) + std::bit_cast<std::uint32_t>(b)) / 2)
                       : middle;
    for (const float x : {a, tie})
      for (const int step : {-1, 0, 1}) {
        const auto word = std::bit_cast<std::uint32_t>(x);
        if (word == 0 && step < 0) continue;
        const auto near = std::bit_cast<float>(word + static_cast<std::uint32_t>(step));
        all.push_back(near), all.push_back(-near);
      }
  }
  return all;
}
/// Weights whose scale comes out as 1, so that a weight is its own quotient: halves between integers, with the zero
/// point of unsigned ones in their middle; the floats that tell a small float's codes apart.
static std::vector<float> unit_scaled(Dtype dtype) {
  return visit(dtype, [](auto type) {
    using T = decltype(type);
    std::vector<float> all;
    if constexpr (requires { T::bias; }) {
      all = telling_floats<T>();
      constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
      all.insert(all.end(), {kInf, -kInf, kNan, -kNan, std::bit_cast<float>(0xff800001u)});
      all.insert(all.end(), {T::largest_number(), -T::largest_number()});
    } else if constexpr (T::bits > 1 && T::bits <= 16) {
      const double most = std::ldexp(1.0, T::bits - 1) - 1, least = has_zero_point(T::dtype) ? -most - 1 : -most;
      for (double x = least + 0.5; x < most; x += T::bits == 16 ? 13 : 1) all.push_back(static_cast<float>(x));
      all.insert(all.end(), {static_cast<float>(most), static_cast<float>(least)});
    }
    return all;
  });
}
void quantize(Table& t) {
  const auto make = [](Operands& o, const Encoding& encoding, std::size_t out, std::size_t in,
                       testing_codec::Fill fill) {
    const ConstPanels from = master(o, out, in, fill);
    return o.make(
        ", " + to_string(encoding) + text(Size{0, out, in}) + ", fill " + std::to_string(static_cast<int>(fill)),
        ops::Quantize{from, o.filler(encoding, out, in)});
  };
  std::size_t turn = 0;
  for (const Encoding& encoding : t.is_broad() ? testing_codec::all_encodings() : testing_codec::device_encodings()) {
    for (const testing_codec::Fill fill : testing_codec::kFills)
      t.one(false, [&](Operands& o) {
        Case made = make(o, encoding, 35, 100, fill);
        made.as_graph = ++turn % 32 == 0;  // each compiles shaders of its own
        return made;
      });
    for (const auto& [out, in] : {std::pair<std::size_t, std::size_t>{1, 1}, {16, 32}, {70, 33}, {129, 65}, {3, 0}})
      for (const testing_codec::Fill fill : {testing_codec::Fill::mixed, testing_codec::Fill::huge})
        t.one(true, [&, out = out, in = in](Operands& o) { return make(o, encoding, out, in, fill); });
    if (const auto weights = unit_scaled(encoding.dtype); t.is_broad() && !weights.empty())
      t.one(false, [&](Operands& o) {
        const Panels from = o.panels(1, weights.size());
        for (std::size_t k = 0; k < weights.size(); ++k) from.data[panel_index(weights.size(), 0, k)] = weights[k];
        return o.make(", " + to_string(encoding) + " of ties",
                      ops::Quantize{from, o.filler(encoding, 1, weights.size())});
      });
    // Ranges past the largest float, and means that overflow.
    constexpr float kMost = std::numeric_limits<float>::max();
    for (const float low : {-kMost, -0x1p127f, -0x1.8p126f, 0.0f, kMost})
      if (t.is_broad())
        t.one(false, [&](Operands& o) {
          const Panels from = o.panels(20, 70);
          for (std::size_t i = 0; i < 20; ++i)
            for (std::size_t k = 0; k < 70; ++k) {
              float& w = from.data[panel_index(70, i, k)];
              w = (k + i) % 7 ? w * 0x1p125f : k % 2 ? kMost : low;
            }
          return o.make(", " + to_string(encoding) + " of the largest",
                        ops::Quantize{from, o.filler(encoding, 20, 70)});
        });
  }
}

}  // namespace weft::kernels::testing_ops::rows
