// SPDX-License-Identifier: Apache-2.0
// Operations on values alone: elementwise, along rows, losses, optimisers, noise.

#include "tests/kernels/op_table.hpp"
#include <cmath>
#include <string>

namespace weft::kernels::testing_ops::rows {

/// op(x, y) of one matrix into another, or in place.
template <class Make>
void map(Table& t, const Make& make, bool few = false) {
  const auto each = [&](Operands& o, const Shape& s) {
    const MatrixView x = o.matrix(s.rows, s.cols), y = o.matrix(s.rows, s.cols);
    return o.make("", make(x, y), y.data, x.data);
  };
  t.shapes(each, few);
  t.edges([&](Operands& o, const MatrixView& x) {
    const MatrixView y = o.matrix(1, x.cols);
    return o.make(" of an edge", make(x, y), y.data, x.data);
  });
}
/// op(a, b, y) of two matrices into a third, or in place of the second.
template <class Make>
void map_two(Table& t, const Make& make, bool few = false) {
  const auto each = [&](Operands& o, const Shape& s) {
    const MatrixView a = o.matrix(s.rows, s.cols), b = o.matrix(s.rows, s.cols), y = o.matrix(s.rows, s.cols);
    return o.make("", make(a, b, y), y.data, b.data);
  };
  t.shapes(each, few);
}
/// op(a, b, s), a value a row.
template <class Make>
void reduce(Table& t, const Make& make) {
  t.shapes([&](Operands& o, const Shape& s) {
    const MatrixView a = o.matrix(s.rows, s.cols), b = o.matrix(s.rows, s.cols);
    return o.make("", make(a, b, o.values(s.rows)));
  });
}

static const std::vector<Activation>& activations() {
  static const std::vector<Activation> all = [] {
    std::vector<Activation> each;
    for (int i = 0; i < kActivationCount; ++i) each.push_back(static_cast<Activation>(i));
    return each;
  }();
  return all;
}
/// Not only where normal numbers fall: a walk over the exponents, both signs.
static std::vector<float> all_scales() {
  std::vector<float> walk;
  for (std::uint32_t bits = 0; bits < 0x7f800000u; bits += 0x3fff1u)
    for (const std::uint32_t sign : {0u, 0x80000000u}) walk.push_back(std::bit_cast<float>(bits | sign));
  return walk;
}

void unary(Table& t) {
  const std::vector<float> walk = all_scales();
  for (const Activation activation : activations()) {
    map(
        t,
        [&](const MatrixView& x, const MatrixView& y) {
          return ops::Unary{activation, x, y};
        },
        true);
    t.one(false, [&](Operands& o) {
      const MatrixView x = o.matrix_of(1, walk.size(), walk), y = o.matrix(1, walk.size());
      return o.make(" on all scales", ops::Unary{activation, x, y}, y.data, x.data);
    });
  }
}
void unary_backward(Table& t) {
  const std::vector<float> walk = all_scales();
  for (const Activation activation : activations()) {
    // Only the operand that the slope is made of is there.
    const auto op = [&](const MatrixView& v, const MatrixView& dy, const MatrixView& dx) {
      const ConstMatrixView none{nullptr, v.rows, v.cols, v.stride};
      const bool by_z = needs_preactivation(activation);
      return ops::UnaryBackward{activation, by_z ? ConstMatrixView(v) : none, by_z ? none : ConstMatrixView(v), dy, dx};
    };
    map_two(t, op, true);
    t.one(false, [&](Operands& o) {
      const MatrixView v = o.matrix_of(1, walk.size(), walk), dy = o.matrix(1, walk.size()),
                       dx = o.matrix(1, walk.size());
      return o.make(" on all scales", op(v, dy, dx), dx.data, dy.data);
    });
  }
}
void binary(Table& t) {
  for (const BinaryOp op : {BinaryOp::add, BinaryOp::sub, BinaryOp::mul, BinaryOp::max, BinaryOp::min})
    map_two(
        t,
        [&](const MatrixView& a, const MatrixView& b, const MatrixView& y) {
          return ops::Binary{op, a, b, y};
        },
        op != BinaryOp::max);
}
constexpr float kFactors[] = {0.7f, -0x1p-120f, 0x1p-140f, 0x1p100f};
void scale(Table& t) {
  for (const float alpha : kFactors)
    map(
        t,
        [&](const MatrixView& x, const MatrixView& y) {
          return ops::Scale{alpha, x, y};
        },
        true);
}
void axpy(Table& t) {
  for (const float alpha : kFactors)
    t.shapes([&](Operands& o, const Shape& s) {
      return o.make("", ops::Axpy{alpha, o.matrix(s.rows, s.cols), o.matrix(s.rows, s.cols)});
    });
}
/// Rows of one to four cache lines go a way of their own, as do long ones, and rows without gaps.
template <class Make>
void lines(Table& t, const Make& make) {
  t.shapes([&](Operands& o, const Shape& s) { return make(o, s, 5); });
  for (const std::size_t cols : {15, 16, 17, 32, 37, 48, 64, 65, 1023, 1024, 1025})
    for (const std::size_t rows : {0, 1, 2, 3, 4, 5, 9})
      for (const std::size_t gap : {0, 3})
        if (t.is_broad()) t.one(true, [&](Operands& o) { return make(o, Shape{rows, cols}, gap); });
}
void copy(Table& t) {
  lines(t, [](Operands& o, const Shape& s, std::size_t gap) {
    const MatrixView x = o.matrix(s.rows, s.cols, gap), y = o.matrix(s.rows, s.cols, gap);
    return o.make("", ops::Copy{x, y}, y.data, x.data);
  });
}
void fill(Table& t) {
  lines(t, [](Operands& o, const Shape& s, std::size_t gap) {
    return o.make("", ops::Fill{-2.5f, o.matrix(s.rows, s.cols, gap)});
  });
}
void max_backward(Table& t) {
  t.shapes([](Operands& o, const Shape& s) {
    const MatrixView source = o.matrix(s.rows, s.cols), x = o.matrix(s.rows, s.cols);
    for (std::size_t i = 0; i < s.rows; ++i)
      for (std::size_t j = i % 2; j < s.cols; j += 2) x.row(i)[j] = source.row(i)[j];
    return o.make("", ops::MaxBackward{source, x, o.matrix(s.rows, s.cols), o.matrix(s.rows, s.cols)});
  });
}
void scale_rows(Table& t) {
  t.shapes([](Operands& o, const Shape& s) {
    return o.make("", ops::ScaleRows{o.values(s.rows), o.matrix(s.rows, s.cols), o.matrix(s.rows, s.cols)});
  });
}
void gap_residual(Table& t) {
  t.shapes([](Operands& o, const Shape& s) {
    const MatrixView weighted = o.matrix(s.rows, s.cols), x = o.matrix(s.rows, s.cols);
    return o.make("", ops::GapResidual{weighted, o.values(s.cols), x, o.matrix(s.rows, s.cols)});
  });
}

// Normalisations, with and without gains and biases.
template <class Make>
void norm(Table& t, const Make& make) {
  for (const int variant : {0, 1, 2, 3})
    t.shapes([&](Operands& o, const Shape& s) {
      const auto wanted = [&](bool is_wanted) { return is_wanted ? o.values(s.cols) : nullptr; };
      return make(o, s, wanted(variant & 1), wanted(variant & 2));
    });
}
void rms_norm(Table& t) {
  norm(t, [](Operands& o, const Shape& s, const float* gain, const float*) {
    const MatrixView x = o.matrix(s.rows, s.cols), y = o.matrix(s.rows, s.cols);
    return o.make("", ops::RmsNorm{x, gain, 1e-5f, y, o.values(s.rows)}, y.data, x.data);
  });
}
void rms_norm_backward(Table& t) {
  norm(t, [](Operands& o, const Shape& s, const float* gain, float* dgain) {
    const MatrixView x = o.matrix(s.rows, s.cols), dy = o.matrix(s.rows, s.cols), dx = o.matrix(s.rows, s.cols);
    return o.make("", ops::RmsNormBackward{x, gain, o.values(s.rows), dy, dx, dgain}, dx.data, dy.data);
  });
}
void layer_norm(Table& t) {
  norm(t, [](Operands& o, const Shape& s, const float* gain, const float* bias) {
    const MatrixView x = o.matrix(s.rows, s.cols), y = o.matrix(s.rows, s.cols);
    float *const mean = o.values(s.rows), *const deviation = o.values(s.rows);
    return o.make("", ops::LayerNorm{x, gain, bias, 1e-5f, y, mean, deviation}, y.data, x.data);
  });
}
void layer_norm_backward(Table& t) {
  norm(t, [](Operands& o, const Shape& s, float* dgain, float* dbias) {
    const MatrixView x = o.matrix(s.rows, s.cols), dy = o.matrix(s.rows, s.cols), dx = o.matrix(s.rows, s.cols);
    const float *const gain = dbias ? nullptr : o.values(s.cols), *const mean = o.values(s.rows),
                       *const deviation = o.values(s.rows);
    return o.make("", ops::LayerNormBackward{x, gain, mean, deviation, dy, dx, dgain, dbias}, dx.data, dy.data);
  });
}

void softmax(Table& t) {
  for (const float temperature : {1.0f, 0.3f})
    map(t, [&](const MatrixView& x, const MatrixView& y) { return ops::Softmax{x, temperature, y}; });
}
void softmax_backward(Table& t) {
  for (const float temperature : {1.0f, 0.3f})
    map_two(t, [&](const MatrixView& y, const MatrixView& dy, const MatrixView& dx) {
      return ops::SoftmaxBackward{y, dy, temperature, dx};
    });
}
/// alpha - 1.
static std::vector<float> alphas(const Table& t) {
  std::vector<float> all = {1.0f, 0.5f, 0.25f, 2.0f};
  if (t.is_broad()) all.insert(all.end(), {1e-8f, 0x1p-20f, 1.5f, 4.0f});
  return all;
}
void entmax(Table& t) {
  for (const float alpha : alphas(t))
    map(t, [&](const MatrixView& x, const MatrixView& y) { return ops::Entmax{x, alpha, 0.7f, y}; });
}
void entmax_backward(Table& t) {
  for (const float alpha : alphas(t))
    map_two(t, [&](const MatrixView& y, const MatrixView& dy, const MatrixView& dx) {
      return ops::EntmaxBackward{y, dy, alpha, 0.7f, dx};
    });
}
void log_softmax(Table& t) {
  for (const bool has_base : {false, true})
    t.shapes([&](Operands& o, const Shape& s) {
      const MatrixView x = o.matrix(s.rows, s.cols), y = o.matrix(s.rows, s.cols);
      return o.make("", ops::LogSoftmax{x, has_base ? o.matrix(s.rows, 1) : MatrixView(), y}, y.data, x.data);
    });
  t.edges([](Operands& o, const MatrixView& x) {
    return o.make(" of an edge", ops::LogSoftmax{x, {}, o.matrix(1, x.cols)});
  });
}
void log_softmax_backward(Table& t) {
  for (const bool has_base : {false, true})
    t.shapes([&](Operands& o, const Shape& s) {
      const MatrixView y = o.matrix(s.rows, s.cols), dy = o.matrix(s.rows, s.cols), dx = o.matrix(s.rows, s.cols);
      const MatrixView base = has_base ? o.matrix(s.rows, 1) : MatrixView(),
                       dbase = has_base ? o.matrix(s.rows, 1) : MatrixView();
      return o.make("", ops::LogSoftmaxBackward{y, base, dy, dx, dbase}, dx.data, dy.data);
    });
}
void math_function(Table& t) {
  for (int i = 0; i < kFunctionCount; ++i)
    map(t, [i](const MatrixView& x, const MatrixView& y) { return ops::MathFunction{static_cast<Function>(i), x, y}; });
}
void clamped_log(Table& t) {
  map(t, [](const MatrixView& x, const MatrixView& y) { return ops::ClampedLog{x, y}; });
}
void clamped_log_backward(Table& t) {
  map_two(t, [](const MatrixView& x, const MatrixView& dy, const MatrixView& dx) {
    return ops::ClampedLogBackward{x, dy, dx};
  });
}
void square_root(Table& t) {
  map(t, [](const MatrixView& x, const MatrixView& y) { return ops::SquareRoot{x, y}; });
}
void square_root_backward(Table& t) {
  map_two(t, [](const MatrixView& y, const MatrixView& dy, const MatrixView& dx) {
    return ops::SquareRootBackward{y, dy, dx};
  });
}

/// Ties, some of them across lanes.
static MatrixView tied(Operands& o, const Shape& s) {
  const MatrixView x = o.matrix(s.rows, s.cols);
  for (std::size_t i = 0; i + 1 < s.rows; ++i)
    for (std::size_t j = i; j < s.cols; j += 3) x.row(i)[j] = 0.5f;
  return x;
}
void argmax_one_hot(Table& t) {
  t.shapes([](Operands& o, const Shape& s) {
    const MatrixView x = tied(o, s), y = o.matrix(s.rows, s.cols);
    return o.make("", ops::ArgmaxOneHot{x, y}, y.data, x.data);
  });
  t.edges([](Operands& o, const MatrixView& x) {
    return o.make(" of an edge", ops::ArgmaxOneHot{x, o.matrix(1, x.cols)});
  });
}
void top_k_mask(Table& t) {
  for (const std::size_t count : {std::size_t{2}, std::size_t{33}, std::size_t{1000}})
    t.shapes([&](Operands& o, const Shape& s) {
      const MatrixView x = tied(o, s), y = o.matrix(s.rows, s.cols);
      return o.make("", ops::TopKMask{x, count, y}, y.data, x.data);
    });
  t.edges([](Operands& o, const MatrixView& x) {
    return o.make(" of an edge", ops::TopKMask{x, 2, o.matrix(1, x.cols)});
  });
}
void row_sums(Table& t) {
  reduce(t, [](const MatrixView& a, const MatrixView&, float* s) { return ops::RowSums{a, s}; });
}
void row_dots(Table& t) {
  reduce(t, [](const MatrixView& a, const MatrixView& b, float* s) { return ops::RowDots{a, b, s}; });
}
void link_budget(Table& t) {
  reduce(t, [](const MatrixView& a, const MatrixView& b, float* s) { return ops::LinkBudget{a, b, s}; });
}
void column_accumulate(Table& t) {
  t.shapes([](Operands& o, const Shape& s) {
    return o.make("", ops::ColumnAccumulate{o.matrix(s.rows, s.cols), o.values(s.cols)});
  });
}
void row_argmax(Table& t) {
  t.shapes([](Operands& o, const Shape& s) {
    const MatrixView a = tied(o, s);
    return o.make("", ops::RowArgmax{a, o.labels(s.rows, 1000)});
  });
  t.edges([](Operands& o, const MatrixView& x) { return o.make(" of an edge", ops::RowArgmax{x, o.labels(1, 1000)}); });
  std::vector<float> zeros(300, 0x1p-140f);  // subnormals count as zeros: the first of all
  zeros[0] = -0.0f;
  for (const std::vector<float>& row : {zeros, std::vector<float>(300, std::nanf(""))})
    t.one(false, [&](Operands& o) {
      return o.make(" of equal ones", ops::RowArgmax{o.matrix_of(1, 300, row), o.labels(1, 1000)});
    });
}
void row_statistics(Table& t) {
  t.shapes([](Operands& o, const Shape& s) {
    return o.make("", ops::RowStatistics{o.matrix(s.rows, s.cols), 0.5f, o.matrix(s.rows, kStatistics)});
  });
}
void is_finite(Table& t) {
  t.shapes([](Operands& o, const Shape& s) {
    Case made = o.make("", ops::IsFinite{o.matrix(s.rows, s.cols)});
    made.as_graph = false;  // it asks the device
    return made;
  });
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const float bad : {kInf, -kInf, std::nanf(""), 0x1.fffffep127f, -0x1p-149f})
    for (const std::size_t cols : testing_support::kSizes)
      for (const std::size_t at : {std::size_t{0}, cols / 2, cols - 1, cols})
        if (t.is_broad() || cols == 257)
          t.one(false, [&](Operands& o) {
            const MatrixView x = o.matrix(2, cols);
            x.row(at < cols ? at % 2 : 0)[at] = bad;  // or between the rows, which is no element
            Case made = o.make(" with one bad element", ops::IsFinite{x});
            made.as_graph = false;
            return made;
          });
}

void cross_entropy(Table& t) {
  for (const bool wants_loss : {false, true})
    t.shapes([&](Operands& o, const Shape& s) {
      const MatrixView x = o.matrix(s.rows, s.cols), dx = o.matrix(s.rows, s.cols);
      float* const loss = wants_loss ? o.values(s.rows) : nullptr;
      return o.make("", ops::CrossEntropy{x, o.labels(s.rows, s.cols), loss, dx}, dx.data, x.data);
    });
  t.edges([](Operands& o, const MatrixView& x) {
    return o.make(" of an edge", ops::CrossEntropy{x, o.labels(1, x.cols), o.values(1), o.matrix(1, x.cols)});
  });
}
void value_loss(Table& t) {
  for (int kind = 0; kind < kLossCount; ++kind)
    for (const bool wants_loss : {false, true}) {
      const Loss loss = static_cast<Loss>(kind);
      if (targets_of(loss) != LossTargets::values) continue;
      t.shapes([&](Operands& o, const Shape& s) {
        const MatrixView x = o.matrix(s.rows, s.cols), target = o.matrix(s.rows, s.cols), dx = o.matrix(s.rows, s.cols);
        float* const losses = wants_loss ? o.values(s.rows) : nullptr;
        return o.make(std::string(name(loss)), ops::ValueLoss{loss, 0.75f, x, target, losses, dx}, dx.data,
                      wants_loss ? x.data : target.data);
      });
    }
}
void one_hot(Table& t) {
  t.shapes([](Operands& o, const Shape& s) {
    return o.make("", ops::OneHot{o.labels(s.rows, s.cols), -0.75f, o.matrix(s.rows, s.cols)});
  });
}

void optimizer_factors(Table& t) {
  // Small, large and very large counts; betas that are gone after a few steps, and those that hardly change.
  constexpr float kBetas[][2] = {{0.9f, 0.999f}, {0.0f, 0.9999999f}, {0x1p-100f, 0x1p-130f}, {0.5f, 0.95f}};
  for (std::size_t i = 0; i < rate_schedule_names().size(); ++i)
    for (const std::uint32_t updates : {60u, 1u, 100000u, UINT32_MAX}) {
      const bool is_short = updates == 60;
      if (!t.is_broad() && !is_short && updates != UINT32_MAX) continue;
      const RateSchedule schedule{static_cast<RateScheduleKind>(i),
                                  is_short ? 50u : 0u,
                                  updates,
                                  updates % 3 + 1,
                                  0.125f,
                                  is_short ? 0.97f : 0.9999f,
                                  2.5f};
      for (const std::uint64_t before :
           {0ull, 1ull, 48ull, 98ull, 1023ull, 54321ull, 0xfffffffeull, (1ull << 40) + 12345})
        for (const auto& betas : kBetas)
          t.one(false, [&](Operands& o) {
            std::uint64_t* const count = o.words({before});
            return o.make(
                "", ops::OptimizerFactors{count, 0.1f, betas[0], betas[1], schedule, o.values(kOptimizerFactors)});
          });
    }
}
/// Every optimiser, with each of its settings that changes the formula.
static std::vector<OptimizerOptions> all_options() {
  std::vector<OptimizerOptions> all;
  for (std::size_t i = 0; i < optimizer_names().size(); ++i)
    for (const bool flag : {false, true})
      for (const Clip clip : {Clip::none, Clip::value, Clip::norm}) {
        OptimizerOptions o = default_options(static_cast<OptimizerKind>(i));
        o.lr = 0.1f, o.weight_decay = 0.01f, o.nesterov = o.centered = flag;
        if (o.kind == OptimizerKind::rmsprop && flag) o.momentum = 0.5f;
        o.clip = clip, o.clip_limit = 0.5f;
        all.push_back(o);
      }
  for (const StepShares shares : {StepShares{0.6561f, 0.3439f}, {-5.75f, 7.125f}, {0.0f, 1.5f}}) {
    all.push_back(default_options(OptimizerKind::momentum));
    all.back().lr = 0.1f, all.back().shares = shares;
  }
  return all;
}
void optimizer_step(Table& t) {
  for (const OptimizerOptions& options : all_options())
    t.each(std::vector<std::size_t>{1, 17, 64, 131, 256, 1000}, [&](Operands& o, std::size_t n) {
      const std::size_t used = arrays_of(options);
      const auto array = [&](std::size_t i) {
        float* const values = used > i ? o.values(n) : nullptr;
        const bool is_of_squares = i == (options.kind == OptimizerKind::rmsprop ? 0 : 1);
        for (std::size_t j = 0; values && is_of_squares && j < n; ++j) values[j] = std::fabs(values[j]);
        return values;
      };
      float *const w = o.values(n), *const first = array(0), *const second = array(1), *const third = array(2);
      const float* const g = o.values(n);
      const float* const factors = counts_updates(options) || n % 2 ? o.values_of({0.05f, 0.19f, 0.002f}) : nullptr;
      const float* const squares = options.clip == Clip::norm ? o.values_of({1.75f}) : nullptr;
      const std::string what = ", " + std::string(optimizer_names()[static_cast<std::size_t>(options.kind)]);
      return o.make(what, ops::OptimizerStep{n, w, first, second, third, g, factors, squares, options});
    });
}

/// States of noise: at the beginning, far on, and what no generator leaves.
static MatrixView noise_state(Operands& o, std::size_t rows) {
  const MatrixView state = o.matrix(rows, kNoiseState);
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < kNoiseState; ++j)
      if (!o.is_special()) state.row(i)[j] = i == 0 ? 0.0f : static_cast<float>(o.random().next_below(1 << 24));
  if (rows > 2) state.row(1)[0] = 16777215.0f, state.row(2)[1] = -3.0f, state.row(2)[2] = 2.5f;
  return state;
}
void gumbel_noise(Table& t) {
  t.shapes([](Operands& o, const Shape& s) {
    const MatrixView x = o.matrix(s.rows, s.cols), y = o.matrix(s.rows, s.cols), state = noise_state(o, s.rows);
    return o.make("", ops::GumbelNoise{x, {1234567u, 89u}, state, o.matrix(s.rows, kNoiseState), y}, y.data, x.data);
  });
}
void dropout_mask(Table& t) {
  for (const std::uint32_t threshold : {0x60000000u, 0xffffffffu})
    t.shapes([&](Operands& o, const Shape& s) {
      const MatrixView state = noise_state(o, s.rows), next = o.matrix(s.rows, kNoiseState);
      const ops::DropoutMask op{{42u, ~0u}, state, next, threshold, 1.6f, o.matrix(s.rows, s.cols)};
      return o.make("", op, next.data, state.data);
    });
}

}  // namespace weft::kernels::testing_ops::rows
