// SPDX-License-Identifier: Apache-2.0

// Derivatives that gru and lstm carry along, against the cells' own equations in float64, differentiated by dual
// numbers: one parameter and one unit at a time, so that nothing of the layer's formulas is in them.

#include "goldens.hpp"
#include <string>

namespace weft::mesh::recurrent_traces_test {
namespace {

using namespace testing_support;
using Values = std::vector<double>;

constexpr std::size_t kIn = 5;

/// A number and its derivative by one parameter.
struct Dual {
  double value = 0, derivative = 0;
  Dual(double v, double d = 0) : value(v), derivative(d) {}
};
Dual operator+(Dual a, Dual b) { return {a.value + b.value, a.derivative + b.derivative}; }
Dual operator-(Dual a, Dual b) { return {a.value - b.value, a.derivative - b.derivative}; }
Dual operator*(Dual a, Dual b) { return {a.value * b.value, a.derivative * b.value + a.value * b.derivative}; }
Dual tanh(Dual a) {
  const double y = std::tanh(a.value);
  return {y, a.derivative * (1 - y * y)};
}
Dual sigmoid(Dual a) {
  const double y = 1 / (1 + std::exp(-a.value));
  return {y, a.derivative * y * (1 - y)};
}

/// A unit's state: h and, of lstm, c.
struct Unit {
  Dual h = 0, c = 0;
};

/// A parameter: of which matrix, which place.
struct Parameter {
  std::size_t matrix, row, column;
};

/// A cell in float64, as the headers of gru and lstm state it.
struct Cell {
  bool is_lstm;
  std::size_t hidden;
  std::vector<std::vector<float>> p;  // weight_ih, weight_hh, bias_ih, bias_hh

  std::size_t gates() const { return is_lstm ? 4 : 3; }
  bool has_bias() const { return p.size() > 2; }
  std::size_t columns(std::size_t matrix) const { return matrix == 0 ? kIn : matrix == 1 ? hidden : 1; }

  /// The next state of unit i. `h` of all units is what W_hh multiplies; `before` is what the unit itself goes on from.
  Unit step(std::size_t i, const float* x, const std::vector<Dual>& h, const Unit& before, const Parameter* by) const {
    const auto number = [&](std::size_t matrix, std::size_t row, std::size_t column) {
      const bool is_it = by && by->matrix == matrix && by->row == row && by->column == column;
      return Dual(p[matrix][row * columns(matrix) + column], is_it ? 1 : 0);
    };
    const auto sum = [&](std::size_t gate, bool of_state) {
      const std::size_t row = gate * hidden + i, matrix = of_state ? 1 : 0;
      Dual all = has_bias() ? number(matrix + 2, row, 0) : Dual(0);
      for (std::size_t k = 0; k < columns(matrix); ++k)
        all = all + number(matrix, row, k) * (of_state ? h[k] : Dual(x[k]));
      return all;
    };
    if (!is_lstm) {
      const Dual r = sigmoid(sum(0, false) + sum(0, true)), z = sigmoid(sum(1, false) + sum(1, true));
      const Dual n = tanh(sum(2, false) + r * sum(2, true));
      return {n + z * (before.h - n), 0};
    }
    const Dual in = sigmoid(sum(0, false) + sum(0, true)), forget = sigmoid(sum(1, false) + sum(1, true));
    const Dual g = tanh(sum(2, false) + sum(2, true)), o = sigmoid(sum(3, false) + sum(3, true));
    const Dual c = forget * before.c + in * g;
    return {o * tanh(c), c};
  }
};

/// States of all units before each tick, and after the last.
std::vector<std::vector<Unit>> states(const Cell& cell, const std::vector<float>& x) {
  std::vector<std::vector<Unit>> all{std::vector<Unit>(cell.hidden)};
  for (std::size_t t = 0; t < x.size() / kIn; ++t) {
    std::vector<Dual> h;
    for (const Unit& unit : all[t]) h.push_back(unit.h);
    all.emplace_back();
    for (std::size_t i = 0; i < cell.hidden; ++i)
      all[t + 1].push_back(cell.step(i, x.data() + t * kIn, h, all[t][i], nullptr));
  }
  return all;
}

/// The sum over ticks of dy dh/dp, where p moves its own unit alone: h of the unit itself (snap1), or only its inner
/// state (eprop), depends on p by way of the tick before.
double gradient(const Cell& cell, bool is_snap, const std::vector<std::vector<Unit>>& all, const std::vector<float>& x,
                const std::vector<float>& dy, const Parameter& by) {
  const std::size_t i = by.row % cell.hidden;
  Unit unit;
  double sum = 0;
  for (std::size_t t = 0; t + 1 < all.size(); ++t) {
    std::vector<Dual> h;
    for (const Unit& each : all[t]) h.push_back(each.h);
    if (is_snap) h[i] = unit.h;
    unit = cell.step(i, x.data() + t * kIn, h, unit, &by);
    sum += dy[t * cell.hidden + i] * unit.h.derivative;
  }
  return sum;
}

struct Form {
  std::string type, through_time;
  bool has_bias = true;
};
std::string name(const Form& form) { return form.type + "_" + form.through_time + (form.has_bias ? "" : "_unbiased"); }

/// A layer with weights small enough to remember, and a state of 0.
goldens::Sequence sequence(const Form& form, std::size_t hidden, std::size_t ticks, std::size_t rows = 1) {
  goldens::Sequence run(
      goldens::layer(R"({"type": ")" + form.type + R"(", "out": )" + std::to_string(hidden) + R"(, "through_time": ")" +
                     form.through_time + R"(", "bias": )" + (form.has_bias ? "true" : "false") + "}"),
      kIn, ticks, rows);
  std::fill(run.state.begin(), run.state.end(), 0.0f);
  std::fill(run.dstate.begin(), run.dstate.end(), 0.0f);
  return run;
}

Cell cell_of(const Form& form, std::size_t hidden, const goldens::Sequence& run) {
  Cell cell{form.type == "lstm", hidden, {}};
  for (std::size_t i = 0; i < run.layer->parameters().size(); ++i) cell.p.push_back(run.parameter(i));
  return cell;
}

/// The largest difference of a gradient's numbers, in parts of the largest of its kind.
double difference(const std::vector<float>& got, const Values& want) {
  EXPECT_EQ(got.size(), want.size());
  double most = 0, error = 0;
  for (std::size_t k = 0; k < want.size(); ++k) {
    most = std::max(most, std::fabs(want[k]));
    error = std::max(error, std::fabs(got[k] - want[k]));
  }
  EXPECT_GT(most, 0);
  return error / most;
}

class Traces : public testing::TestWithParam<Form> {};
INSTANTIATE_TEST_SUITE_P(Of, Traces,
                         testing::Values(Form{"gru", "snap1"}, Form{"gru", "eprop"}, Form{"lstm", "snap1"},
                                         Form{"lstm", "eprop"}, Form{"gru", "snap1", false},
                                         Form{"lstm", "eprop", false}),
                         [](const auto& each) { return name(each.param); });

TEST_P(Traces, MeetErrorsAsTheDefinitionInFloat64Says) {
  for (const std::size_t ticks : {50, 200})
    for (const bool is_last_alone : {false, true}) {
      constexpr std::size_t kHidden = 18;
      auto run = sequence(GetParam(), kHidden, ticks);
      if (is_last_alone) std::fill(run.dy.begin(), run.dy.end() - kHidden, 0.0f);
      run.forward(0, 1);
      run.backward();
      const Cell cell = cell_of(GetParam(), kHidden, run);
      const auto all = states(cell, run.x);
      for (std::size_t m = 0; m < cell.p.size(); ++m) {
        Values want;
        for (std::size_t row = 0; row < cell.gates() * kHidden; ++row)
          for (std::size_t column = 0; column < cell.columns(m); ++column)
            want.push_back(gradient(cell, GetParam().through_time == "snap1", all, run.x, run.dy, {m, row, column}));
        const double error = difference(run.gradient(m), want);
        RecordProperty("error_" + std::to_string(m), testing::PrintToString(error));
        EXPECT_LT(error, 1e-5) << "parameter " << m << ", " << ticks << " ticks, " << is_last_alone;
      }
    }
}

/// Gradients of backpropagation through all ticks, with the same weights. @pre run has been forward
std::vector<Values> through_all_ticks(const Form& form, std::size_t hidden, std::size_t ticks,
                                      const goldens::Sequence& run) {
  auto exact = sequence({form.type, "backward", form.has_bias}, hidden, ticks);
  std::vector<Values> all;
  for (std::size_t i = 0; i < run.layer->parameters().size(); ++i) exact.set_parameter(i, run.parameter(i));
  exact.forward(0, 1);
  EXPECT_EQ(bits(exact.y), bits(run.y));
  exact.backward();
  for (std::size_t i = 0; i < run.layer->parameters().size(); ++i) {
    const std::vector<float> got = exact.gradient(i);
    all.emplace_back(got.begin(), got.end());
  }
  return all;
}

// The effects of units on each other are left out: of one unit nothing, and nothing where W_hh is diagonal (0, for
// eprop, which leaves out the unit's own recurrent weights too).
TEST_P(Traces, AreExactWhereUnitsDoNotReadEachOther) {
  constexpr std::size_t kTicks = 60;
  const bool is_snap = GetParam().through_time == "snap1";
  for (const std::size_t hidden : {1, 19}) {
    auto run = sequence(GetParam(), hidden, kTicks);
    std::vector<float> own = run.parameter(1);
    for (std::size_t k = 0; k < own.size(); ++k)
      if (!is_snap || k / hidden % hidden != k % hidden) own[k] = 0.0f;
    run.set_parameter(1, own);
    run.forward(0, 1);
    run.backward();
    const auto want = through_all_ticks(GetParam(), hidden, kTicks, run);
    for (std::size_t i = 0; i < want.size(); ++i)
      EXPECT_LT(difference(run.gradient(i), want[i]), 1e-5) << hidden << " units, parameter " << i;
  }
}

TEST_P(Traces, PointWhereTheWholeGradientPoints) {
  constexpr std::size_t kTicks = 60, kHidden = 18;
  auto run = sequence(GetParam(), kHidden, kTicks);
  run.forward(0, 1);
  run.backward();
  const auto want = through_all_ticks(GetParam(), kHidden, kTicks, run);
  for (std::size_t i = 0; i < want.size(); ++i) {
    double product = 0, got_square = 0, want_square = 0;
    const std::vector<float> got = run.gradient(i);
    for (std::size_t k = 0; k < got.size(); ++k) {
      product += got[k] * want[i][k];
      got_square += double{got[k]} * got[k];
      want_square += want[i][k] * want[i][k];
    }
    const double cosine = product / std::sqrt(got_square * want_square);
    RecordProperty("cosine_" + std::to_string(i), std::to_string(cosine));
    EXPECT_GT(cosine, 0.5) << i;
    EXPECT_LT(cosine, 0.9999) << i << ": units do read each other here";
  }
}

TEST_P(Traces, SendErrorsToTheInputAndNoneThroughTheState) {
  auto run = sequence(GetParam(), 18, 3), exact = sequence({GetParam().type, "backward", GetParam().has_bias}, 18, 3);
  for (auto* each : {&run, &exact}) std::fill(each->dy.begin(), each->dy.end() - 18, 0.0f);
  run.dstate.assign(run.dstate.size(), 1.0f);
  for (auto* each : {&run, &exact}) {
    each->forward(0, 1);
    each->backward();
  }
  EXPECT_TRUE(run.layer->learns_forward());
  EXPECT_FALSE(exact.layer->learns_forward());
  EXPECT_EQ(run.dstate, std::vector<float>(run.dstate.size(), 0.0f));
  // Of the last tick what backpropagation sends; of those before it, whose own error is 0, nothing.
  const std::ptrdiff_t last = 2 * kIn;
  EXPECT_EQ(bits({run.dx.begin() + last, run.dx.end()}), bits({exact.dx.begin() + last, exact.dx.end()}));
  for (std::ptrdiff_t k = 0; k < last; ++k) EXPECT_EQ(run.dx[static_cast<std::size_t>(k)], 0.0f);
}

TEST_P(Traces, GradientsOfSeveralSessionsAdd) {
  constexpr std::size_t kTicks = 7, kHidden = 18;
  auto both = sequence(GetParam(), kHidden, kTicks, 2);
  std::vector<Values> sums(both.layer->parameters().size());
  both.forward(0, 2);
  both.backward();
  for (const std::size_t b : {0, 1}) {
    auto alone = sequence(GetParam(), kHidden, kTicks);
    for (std::size_t t = 0; t < kTicks; ++t) {
      std::copy_n(both.x.begin() + (t * 2 + b) * kIn, kIn, alone.x.begin() + t * kIn);
      std::copy_n(both.dy.begin() + (t * 2 + b) * kHidden, kHidden, alone.dy.begin() + t * kHidden);
    }
    alone.forward(0, 1);
    alone.backward();
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const std::vector<float> part = alone.gradient(i);
      sums[i].resize(part.size());
      for (std::size_t k = 0; k < part.size(); ++k) sums[i][k] += part[k];
    }
  }
  for (std::size_t i = 0; i < sums.size(); ++i) EXPECT_LT(difference(both.gradient(i), sums[i]), 1e-5) << i;
}

// As many numbers as parameters; snap1 of lstm has those of c and of h, eprop those of c, without the output gate's.
TEST(RecurrentTraces, AreAsManyAsTheParameters) {
  for (const bool has_bias : {true, false})
    for (const std::size_t hidden : {1, 18}) {
      const auto size = [&](const char* type, const char* through_time) {
        return sequence({type, through_time, has_bias}, hidden, 1).layer->state_size();
      };
      const std::size_t each = kIn + hidden + (has_bias ? 2 : 0);
      EXPECT_EQ(size("gru", "backward"), hidden);
      EXPECT_EQ(size("gru", "snap1"), hidden + 3 * hidden * each);
      EXPECT_EQ(size("gru", "eprop"), hidden + 3 * hidden * each);
      EXPECT_EQ(size("lstm", "snap1"), 2 * hidden + 8 * hidden * each);
      EXPECT_EQ(size("lstm", "eprop"), 2 * hidden + 3 * hidden * each);
    }
}

TEST(RecurrentTraces, TakeOneVectorATickAndAStateThatPersists) {
  for (const char* type : {"gru", "lstm"})
    for (const char* through_time : {"snap1", "eprop"}) {
      const auto error = [&](const std::string& more, const Shape& in) {
        const auto made = make_layer(goldens::layer(std::string(R"({"type": ")") + type + R"(", "through_time": ")" +
                                                    through_time + '"' + more + "}"),
                                     in, "layers[0]");
        return made ? std::string() : std::string(name(made.error().code())) + ": " + made.error().text();
      };
      EXPECT_EQ(error("", {4}), "");
      const std::string text = std::string("unsupported: layers[0].through_time: found ") + through_time +
                               ", which takes one vector a tick and a state that persists; of an input ";
      EXPECT_EQ(error("", {3, 4}), text + "[3, 4] without such a state expected backward");
      EXPECT_EQ(error(R"(, "stateful": true)", {3, 4}), text + "[3, 4] expected backward");
      EXPECT_EQ(error(R"(, "stateful": false)", {4}), text + "[4] without such a state expected backward");
    }
}

}  // namespace
}  // namespace weft::mesh::recurrent_traces_test
