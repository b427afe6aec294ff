// SPDX-License-Identifier: Apache-2.0
// Operations on weights: linear layers, gated pairs, distances, embeddings, mixtures, permutations, encoding.

#include "kernels/linear_integer.hpp"

#include "tests/kernels/codec_testing.hpp"
#include "tests/kernels/coded_weights.hpp"
#include "tests/kernels/op_table.hpp"

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
                          {1, 113, 512}})
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
    return made;
  });
}

/// make(operands, encoding, activations) -> Case of every stored type, granularity and way to compute.
template <class Make>
void stored(Table& t, const Make& make) {
  bool special = false;
  std::size_t turn = 0;
  for (const Encoding& encoding : testing_coded::all_encodings()) {
    special = !special;
    for (const Activations activations : {Activations::int8, Activations::float32}) {
      if (activations == Activations::int8 && !has_integer_kernel(encoding.dtype)) continue;
      for (const bool each : {false, true}) {
        if (!t.is_broad() && each != special) continue;
        t.one(each, [&](Operands& o) {
          Case made = make(o, encoding, activations);
          made.name += ", " + to_string(encoding) + ", activations " + std::string(weft::name(activations));
          made.as_program = ++turn % 4 == 0;  // a second for each type, to compile its shaders once more
          return made;
        });
      }
    }
  }
}

static Activation activation_of(std::size_t turn) {
  return turn % 2 ? Activation::linear : turn % 4 ? Activation::tanh : Activation::gelu;
}

void linear(Table& t) {
  products(t, [](Operands& o, const Size& s, std::size_t turn) {
    const ConstPanels w = o.panels(s.out, s.in);
    const float* const bias = turn % 3 ? o.values(s.out) : nullptr;
    const MatrixView x = o.matrix(s.batch, s.in), z = turn % 2 ? o.matrix(s.batch, s.out) : MatrixView();
    return o.make("", ops::Linear{w, bias, x, activation_of(turn), z, o.matrix(s.batch, s.out)});
  });
  stored(t, [](Operands& o, const Encoding& encoding, Activations activations) {
    const Size s = o.is_special() ? Size{7, 50, 97} : Size{1, 35, 100};
    const ConstWeight w = o.weight(encoding, s.out, s.in, activations);
    const float* const bias = o.values(s.out);
    const MatrixView x = o.matrix(s.batch, s.in);
    return o.make("", ops::Linear{w, bias, x, Activation::relu, {}, o.matrix(s.batch, s.out)});
  });
}
void linear_transposed(Table& t) {
  products(t, [](Operands& o, const Size& s, std::size_t) {
    const ConstPanels w = o.panels(s.out, s.in);
    const MatrixView dy = o.matrix(s.batch, s.out);
    return o.make("", ops::LinearTransposed{w, dy, o.matrix(s.batch, s.in)});
  });
  stored(t, [](Operands& o, const Encoding& encoding, Activations activations) {
    const Size s = o.is_special() ? Size{7, 50, 97} : Size{1, 35, 100};
    const ConstWeight w = o.weight(encoding, s.out, s.in, activations);
    const MatrixView dy = o.matrix(s.batch, s.out);
    return o.make("", ops::LinearTransposed{w, dy, o.matrix(s.batch, s.in)});
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
  stored(t, [](Operands& o, const Encoding& encoding, Activations activations) {
    const ConstWeight w = o.weight(encoding, 35, 100, activations);
    return o.make("", ops::ColumnL1Norms{w, o.values(100)});
  });
}

constexpr Activation kGates[] = {Activation::silu, Activation::gelu, Activation::relu2, Activation::tanh,
                                 Activation::linear};
void gated_linear(Table& t) {
  products(
      t,
      [](Operands& o, const Size& s, std::size_t turn) {
        const ConstPanels gate = o.panels(s.out, s.in), up = o.panels(s.out, s.in);
        const float *const gate_bias = turn % 2 ? o.values(s.out) : nullptr, *const up_bias =
                                                                                 turn % 2 ? o.values(s.out) : nullptr;
        const MatrixView x = o.matrix(s.batch, s.in), y = o.matrix(s.batch, kGatedBlocks * s.out);
        return o.make("", ops::GatedLinear{{gate, up, gate_bias, up_bias}, x, kGates[turn % std::size(kGates)], y});
      },
      true);
  std::size_t turn = 0;
  stored(t, [&](Operands& o, const Encoding& encoding, Activations activations) {
    // Small ones, which quantise their rows themselves on a device, deeper ones and many rows.
    constexpr Size kForms[] = {{1, 35, 60}, {2, 50, 97}, {7, 20, 150}};
    const Size s = kForms[++turn % 3];
    const ConstWeight gate = o.weight(encoding, s.out, s.in, activations),
                      up = o.weight(encoding, s.out, s.in, activations);
    const float *const gate_bias = turn % 2 ? o.values(s.out) : nullptr, *const up_bias =
                                                                             turn % 2 ? o.values(s.out) : nullptr;
    const MatrixView x = o.matrix(s.batch, s.in), y = o.matrix(s.batch, kGatedBlocks * s.out);
    return o.make("", ops::GatedLinear{{gate, up, gate_bias, up_bias}, x, kGates[turn % std::size(kGates)], y});
  });
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
  stored(t, [](Operands& o, const Encoding& encoding, Activations activations) {
    const ConstWeight points = o.weight(encoding, 21, 35, activations);
    const MatrixView x = o.matrix(3, 35);
    return o.make("", ops::SquaredDistances{points, x, o.matrix(3, 21)});
  });
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
  stored(t, [](Operands& o, const Encoding& encoding, Activations activations) {
    const ConstWeight points = o.weight(encoding, 21, 35, activations);
    const MatrixView x = o.matrix(3, 35), dy = o.matrix(3, 21);
    return o.make("", ops::SquaredDistancesBackward{points, x, dy, o.matrix(3, 35), {}});
  });
}

void weighted_sum(Table& t) {
  for (const std::size_t experts : {1, 5})
    t.shapes([&](Operands& o, const Shape& s) {
      const MatrixView p = o.matrix(s.rows, experts), x = o.matrix(s.rows, experts * s.cols);
      return o.make("", ops::WeightedSum{p, x, o.matrix(s.rows, s.cols)});
    });
}
void weighted_sum_backward(Table& t) {
  for (const std::size_t experts : {1, 5})
    t.shapes([&](Operands& o, const Shape& s) {
      const MatrixView p = o.matrix(s.rows, experts), x = o.matrix(s.rows, experts * s.cols),
                       dy = o.matrix(s.rows, s.cols), dp = o.matrix(s.rows, experts);
      return o.make("", ops::WeightedSumBackward{p, x, dy, dp, o.matrix(s.rows, experts * s.cols)});
    });
}

void permute(Table& t) {
  using Axes = std::vector<std::size_t>;
  const std::vector<std::pair<Axes, Axes>> cases = {
      {{7, 5}, {1, 0}}, {{3, 4, 5}, {2, 0, 1}}, {{6}, {0}}, {{2, 3, 1, 4, 2}, {4, 2, 0, 3, 1}}, {{33, 20}, {1, 0}}};
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
  return x;
}
void embedding(Table& t) {
  stored(t, [](Operands& o, const Encoding& encoding, Activations activations) {
    const ConstWeight w = o.weight(encoding, 21, 12, activations);
    return o.make("", ops::Embedding{w, columns(o, 9, 12), o.matrix(2, 9 * 21)});
  });
}
void embedding_backward(Table& t) {
  t.each(std::vector<std::size_t>{3, kNoColumn}, [](Operands& o, std::size_t skipped) {
    const MatrixView x = columns(o, 9, 12), dy = o.matrix(2, 9 * 21);
    return o.make("", ops::EmbeddingBackward{x, dy, skipped, o.sums(21, 12)});
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
void quantize(Table& t) {
  const auto make = [](Operands& o, const Encoding& encoding, std::size_t out, std::size_t in,
                       testing_codec::Fill fill) {
    const ConstPanels from = master(o, out, in, fill);
    return o.make(
        ", " + to_string(encoding) + text(Size{0, out, in}) + ", fill " + std::to_string(static_cast<int>(fill)),
        ops::Quantize{from, o.soiled(encoding, out, in)});
  };
  for (const Encoding& encoding : testing_codec::all_encodings()) {
    for (const testing_codec::Fill fill : testing_codec::kFills)
      t.one(false, [&](Operands& o) { return make(o, encoding, 35, 100, fill); });
    for (const auto& [out, in] : {std::pair<std::size_t, std::size_t>{1, 1}, {16, 32}, {70, 33}, {129, 65}, {3, 0}})
      for (const testing_codec::Fill fill : {testing_codec::Fill::mixed, testing_codec::Fill::huge})
        t.one(true, [&, out = out, in = in](Operands& o) { return make(o, encoding, out, in, fill); });
  }
}

}  // namespace weft::kernels::testing_ops::rows
