// SPDX-License-Identifier: Apache-2.0

// Gradients that diagonal cells have of all their past, against backpropagation through time in float64, written apart.

#include "goldens.hpp"
#include <complex>
#include <string>

namespace weft::mesh::diagonal_test {
namespace {

using namespace testing_support;
using Number = std::complex<double>;
using Values = std::vector<double>;

constexpr std::size_t kIn = 5, kUnits = 18, kTicks = 200;

enum class Bent { nothing, output, state };
double bend(double a) { return std::tanh(a); }
double slope(double a) { return 1 - std::tanh(a) * std::tanh(a); }

/// Backpropagation through time: adjoints of h from the last tick to the first.
struct Reference {
  std::vector<Values> gradients{Values(kUnits), Values(kUnits), Values(kUnits* kIn), Values(kUnits* kIn)};

  /// x [ticks][kIn], dy [ticks][2 kUnits]
  Reference(const std::vector<std::vector<float>>& p, const std::vector<float>& x, const std::vector<float>& dy,
            Bent bent) {
    const std::size_t ticks = x.size() / kIn;
    for (std::size_t k = 0; k < kUnits; ++k) {
      const double rate = std::exp(double{p[0][k]}), angle = std::exp(double{p[1][k]});
      const Number l = std::exp(Number(-rate, angle));
      const double gain = std::sqrt(1 - std::norm(l));
      std::vector<Number> h(ticks + 1), a(ticks), u(ticks);
      for (std::size_t t = 0; t < ticks; ++t) {
        for (std::size_t i = 0; i < kIn; ++i)
          u[t] += double{x[t * kIn + i]} * Number(p[2][k * kIn + i], p[3][k * kIn + i]);
        a[t] = l * h[t] + gain * u[t];
        h[t + 1] = bent == Bent::state ? Number(bend(a[t].real()), bend(a[t].imag())) : a[t];
      }
      Number adjoint = 0, to_l = 0;  // dLoss/dRe + i dLoss/dIm
      double to_gain = 0;
      for (std::size_t t = ticks; t-- > 0;) {
        const float* const up = dy.data() + t * 2 * kUnits;
        const Number slopes = bent == Bent::nothing ? Number(1, 1) : Number(slope(a[t].real()), slope(a[t].imag()));
        const auto bent_back = [&](Number each) {
          return Number(each.real() * slopes.real(), each.imag() * slopes.imag());
        };
        const Number own(up[k], up[kUnits + k]);
        adjoint = bent == Bent::state ? bent_back(adjoint + own) : adjoint + bent_back(own);
        to_l += adjoint * std::conj(h[t]);
        to_gain += (adjoint * std::conj(u[t])).real();
        for (std::size_t i = 0; i < kIn; ++i) {
          gradients[2][k * kIn + i] += gain * adjoint.real() * x[t * kIn + i];
          gradients[3][k * kIn + i] += gain * adjoint.imag() * x[t * kIn + i];
        }
        adjoint *= std::conj(l);
      }
      gradients[0][k] = (to_l * std::conj(-rate * l)).real() + to_gain * rate * std::norm(l) / gain;
      gradients[1][k] = (to_l * std::conj(Number(0, angle) * l)).real();
    }
  }
};

/// A layer that starts where its options say, with a state of 0.
goldens::Sequence sequence(const std::string& options, std::size_t ticks, std::size_t rows = 1) {
  goldens::Sequence run(goldens::layer(R"({"type": "diagonal", "out": )" + std::to_string(2 * kUnits) + options + "}"),
                        kIn, ticks, rows);
  for (std::size_t i = 0; i < 4; ++i) {
    const ParameterSpec& p = run.layer->parameters()[i];
    RandomStream random(3, i, RandomPurpose::test);
    std::vector<float> values(goldens::Sequence::values_of(p));
    p.init(random, values);
    run.set_parameter(i, values);
  }
  std::fill(run.state.begin(), run.state.end(), 0.0f);
  std::fill(run.dstate.begin(), run.dstate.end(), 0.0f);
  return run;
}

std::vector<std::vector<float>> parameters(const goldens::Sequence& run) {
  std::vector<std::vector<float>> all;
  for (std::size_t i = 0; i < 4; ++i) all.push_back(run.parameter(i));
  return all;
}

/// The largest error of a gradient at any of a layer's numbers, in parts of the largest of its kind.
double largest_error(const goldens::Sequence& run, const Reference& want) {
  double largest = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    const std::vector<float> got = run.gradient(i);
    double most = 0, error = 0;
    for (std::size_t k = 0; k < got.size(); ++k) {
      most = std::max(most, std::fabs(want.gradients[i][k]));
      error = std::max(error, std::fabs(got[k] - want.gradients[i][k]));
    }
    EXPECT_GT(most, 0);
    largest = std::max(largest, error / most);
  }
  return largest;
}

class Through : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Time, Through, testing::Values("forward", "backward"),
                         [](const auto& each) { return std::string(each.param); });

std::string options(const char* through_time, Bent bent) {
  return std::string(R"(, "through_time": ")") + through_time + R"(", "activation": ")" +
         (bent == Bent::nothing ? "linear" : "tanh") + R"(", "activation_of": ")" +
         (bent == Bent::state ? "state" : "output") + '"';
}

TEST_P(Through, AnErrorAfter200TicksMeetsAllOfThem) {
  for (const Bent bent : {Bent::nothing, Bent::output, Bent::state}) {
    auto run = sequence(options(GetParam(), bent), kTicks);
    std::fill(run.dy.begin(), run.dy.end() - 2 * kUnits, 0.0f);
    run.forward(0, 1);
    run.backward();
    EXPECT_LT(largest_error(run, Reference(parameters(run), run.x, run.dy, bent)), 1e-5) << static_cast<int>(bent);
  }
}

TEST_P(Through, ErrorsOfEveryTickAddUp) {
  for (const Bent bent : {Bent::nothing, Bent::state}) {
    auto run = sequence(options(GetParam(), bent), kTicks);
    run.forward(0, 1);
    run.backward();
    EXPECT_LT(largest_error(run, Reference(parameters(run), run.x, run.dy, bent)), 1e-5) << static_cast<int>(bent);
  }
}

TEST(Forward, SendsNoErrorBackThroughItsState) {
  auto run = sequence("", 3);
  run.dstate.assign(run.dstate.size(), 1.0f);
  run.forward(0, 1);
  run.backward();
  EXPECT_TRUE(run.layer->learns_forward());
  EXPECT_EQ(run.dstate, std::vector<float>(run.dstate.size(), 0.0f));
}

TEST(Forward, GradientsOfSeveralSessionsAdd) {
  auto both = sequence("", 7, 2);
  std::vector<std::vector<float>> sums(4);
  both.forward(0, 2);
  both.backward();
  for (const std::size_t b : {0, 1}) {
    auto alone = sequence("", 7);
    for (std::size_t t = 0; t < 7; ++t) {
      std::copy_n(both.x.begin() + (t * 2 + b) * kIn, kIn, alone.x.begin() + t * kIn);
      std::copy_n(both.dy.begin() + (t * 2 + b) * 2 * kUnits, 2 * kUnits, alone.dy.begin() + t * 2 * kUnits);
    }
    alone.forward(0, 1);
    alone.backward();
    for (std::size_t i = 0; i < 4; ++i) {
      const std::vector<float> part = alone.gradient(i);
      sums[i].resize(part.size());
      for (std::size_t k = 0; k < part.size(); ++k) sums[i][k] += part[k];
    }
  }
  for (std::size_t i = 0; i < 4; ++i) {
    const std::vector<float> got = both.gradient(i);
    for (std::size_t k = 0; k < got.size(); ++k) EXPECT_NEAR(got[k], sums[i][k], 2e-5f) << i << " " << k;
  }
}

TEST(Diagonal, WithoutAnActivationHasNoStateToBend) {
  auto of_state = sequence(R"(, "activation_of": "state")", 3), of_output = sequence("", 3);
  EXPECT_EQ(of_state.layer->state_size(), of_output.layer->state_size());
  of_state.forward(0, 1);
  of_output.forward(0, 1);
  EXPECT_EQ(bits(of_state.y), bits(of_output.y));
  EXPECT_EQ(bits(of_state.state), bits(of_output.state));
}

TEST(Diagonal, PutsOutTheStateThatIsBent) {
  auto run = sequence(R"(, "activation": "tanh", "activation_of": "state")", 2);
  run.forward(0, 1);
  const std::size_t n = run.layer->state_size();
  EXPECT_EQ(bits(std::span(run.state).subspan(n, 2 * kUnits)), bits(std::span(run.y).first(2 * kUnits)));
}

TEST(Diagonal, StartsWithTheSizesAndAnglesThatItIsGiven) {
  const auto run = sequence(R"(, "least_size": 0.6, "largest_size": 0.95, "largest_angle": 0.5)", 1);
  for (std::size_t k = 0; k < kUnits; ++k) {
    const double size = std::exp(-std::exp(double{run.parameter(0)[k]}));
    EXPECT_GE(size, 0.6 - 1e-6);
    EXPECT_LE(size, 0.95 + 1e-6);
    EXPECT_LE(std::exp(double{run.parameter(1)[k]}), 0.5 + 1e-6);
  }
}

// exp(theta) is the slope of the angle by theta: without a bound each step would be larger than the one before.
TEST_P(Through, AnglesAndRatesBeyondTheirBoundsAreTheBounds) {
  for (const Bent bent : {Bent::nothing, Bent::state})
    for (const std::size_t parameter : {0, 1}) {
      auto far = sequence(options(GetParam(), bent), 7), near = sequence(options(GetParam(), bent), 7);
      far.set_parameter(parameter, std::vector<float>(kUnits, 200.0f));
      near.set_parameter(parameter, std::vector<float>(kUnits, parameter == 0 ? 4.5f : 1.9f));
      for (auto* const run : {&far, &near}) {
        run->forward(0, 1);
        run->backward();
      }
      EXPECT_EQ(bits(far.y), bits(near.y));
      EXPECT_EQ(bits(far.state), bits(near.state));
      for (std::size_t i = 0; i < 4; ++i) {
        EXPECT_EQ(bits(far.gradient(i)), bits(near.gradient(i))) << i;
        for (const float value : far.gradient(i)) EXPECT_TRUE(std::isfinite(value)) << i;
      }
    }
}

}  // namespace
}  // namespace weft::mesh::diagonal_test
