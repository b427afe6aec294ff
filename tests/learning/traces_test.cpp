// SPDX-License-Identifier: Apache-2.0
// Eligibility traces and bounded steps: against float64, saved and put back, on every shape of machine, and what they
// refuse.

#include "learning/learner.hpp"

#include "kernels/float_environment.hpp"
#include "kernels/isa.hpp"
#include "kernels/linear.hpp"
#include "kernels/optimizer.hpp"
#include "kernels/trace.hpp"

#include "core/aligned_buffer.hpp"

#include <gtest/gtest.h>

#include "networks.hpp"
#include "traced_steps.hpp"
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace weft::learning::traces_test {
namespace {

using namespace mesh::testing_support;
using namespace test;
using namespace traced;
using kernels::Activation;

using Matrix = std::vector<double>;

/// Layers that move together, in float64.
struct Reference {
  std::vector<Matrix> weights, traces;

  void move(const TraceSignal& signal, const std::vector<Matrix>& gradients) {
    double norm = 0.0;
    for (std::size_t p = 0; p < weights.size(); ++p)
      for (std::size_t i = 0; i < weights[p].size(); ++i) {
        traces[p][i] = double{signal.decay} * traces[p][i] + gradients[p][i];
        norm += std::fabs(traces[p][i]);
      }
    const double error = signal.error;
    const double step = 1.0 / std::max(1.0, double{signal.bound} * std::max(std::fabs(error), 1.0) * norm);
    for (std::size_t p = 0; p < weights.size(); ++p)
      for (std::size_t i = 0; i < weights[p].size(); ++i) {
        weights[p][i] -= step * error * traces[p][i];
        if (signal.ends) traces[p][i] = 0.0;
      }
  }
  explicit Reference(std::vector<Matrix> from) : weights(std::move(from)), traces(weights) {
    for (Matrix& trace : traces) std::fill(trace.begin(), trace.end(), 0.0);
  }
};

Matrix outer(const Matrix& dy, const std::vector<double>& x) {
  Matrix all;
  for (const double d : dy)
    for (const double value : x) all.push_back(d * value);
  return all;
}

// Within 2e-5, after 60 steps of which some are bounded and some are not.
TEST(Traces, MoveAsTheReferenceInFloat64) {
  LearningRun made(network(), with_traces());
  const std::vector<Matrix> start = made.weights();
  ASSERT_EQ(start.size(), 6u);
  Reference actor({start[0], start[1], start[2], start[3]}), critic({start[4], start[5]});
  run(*made.learner, 0, 60);
  for (std::uint64_t s = 0; s < 60; ++s) {
    const Step step(s);
    const Matrix x(step.x.begin(), step.x.end()), dy(step.actor.begin(), step.actor.end()),
        dv(step.critic.begin(), step.critic.end());
    if (s % 3 != 2) {
      Matrix hidden(kWidth), dh(kWidth);
      for (std::size_t o = 0; o < kWidth; ++o) {
        for (std::size_t k = 0; k < kIn; ++k) hidden[o] += actor.weights[0][o * kIn + k] * x[k];
        hidden[o] = std::tanh(hidden[o] + actor.weights[1][o]);
        for (std::size_t a = 0; a < kActions; ++a) dh[o] += actor.weights[2][a * kWidth + o] * dy[a];
        dh[o] *= 1.0 - hidden[o] * hidden[o];
      }
      actor.move(step.of_actor, {outer(dh, x), dh, outer(dy, hidden), dy});
    }
    critic.move(step.of_critic, {outer(dv, x), dv});
  }
  const std::vector<Matrix> end = made.weights();
  for (std::size_t p = 0; p < end.size(); ++p) {
    const Matrix& wanted = p < 4 ? actor.weights[p] : critic.weights[p - 4];
    ASSERT_EQ(end[p].size(), wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(end[p][i], wanted[i], 2e-5) << p << ", " << i;
  }
}

// Layers further from an output than a stated horizon stay as they are, and count in no bound. Within 2e-5.
TEST(Traces, GoNoFurtherThanAStatedHorizon) {
  LearningOptions options = with_traces();
  options.horizon = 1;
  LearningRun made(network(), options);
  const std::vector<Matrix> start = made.weights();
  Reference actor({start[2], start[3]});
  run(*made.learner, 0, 20);
  for (std::uint64_t s = 0; s < 20; ++s) {
    const Step step(s);
    if (s % 3 == 2) continue;
    Matrix hidden(kWidth);
    for (std::size_t o = 0; o < kWidth; ++o) {
      for (std::size_t k = 0; k < kIn; ++k) hidden[o] += start[0][o * kIn + k] * double{step.x[k]};
      hidden[o] = std::tanh(hidden[o] + start[1][o]);
    }
    const Matrix dy(step.actor.begin(), step.actor.end());
    actor.move(step.of_actor, {outer(dy, hidden), dy});
  }
  const std::vector<Matrix> end = made.weights();
  for (const std::size_t p : {0, 1}) EXPECT_EQ(end[p], start[p]);
  for (const std::size_t p : {2, 3})
    for (std::size_t i = 0; i < end[p].size(); ++i) EXPECT_NEAR(end[p][i], actor.weights[p - 2][i], 2e-5) << p;
}

/// A linear map whose gradient may stay without an addition: by the first input, none (-1) or a product of 0 (-2).
class Silent final : public mesh::Layer {
 public:
  Silent(const Shape& in, std::size_t out) : Layer(in, Shape{out}) {
    parameters_.push_back({"weight", out, in.back(), true, [](RandomStream& random, std::span<float> values) {
                             for (float& value : values) value = random.next_normal();
                           }});
    parameters_.back().is_outer = true;
  }
  const std::vector<mesh::ParameterSpec>& parameters() const noexcept override { return parameters_; }
  void forward(kernels::OpStream& stream, const mesh::ForwardArgs& args) const override {
    stream.linear({args.weights.matrix(0), nullptr, args.x, Activation::linear, args.z, args.y});
  }
  void backward(kernels::OpStream& stream, const mesh::BackwardArgs& args) const override {
    if (!args.gradients.data || args.x.row(0)[0] == -1.0f) return;
    if (args.x.row(0)[0] == -2.0f) stream.fill({0.0f, args.dy});
    args.gradients.add_outer(stream, 0, args.dy, args.x);
  }

 private:
  std::vector<mesh::ParameterSpec> parameters_;
};

// Memory may hold the gradient of an earlier update.
TEST(Traces, FadeWhereNothingWasAddedToAGradient) {
  static const Status done = mesh::register_layer(
      "silent", [](const Shape& in, std::size_t out, mesh::OptionReader&) -> Result<std::unique_ptr<mesh::Layer>> {
        return std::unique_ptr<mesh::Layer>(new Silent(in, out));
      });
  must(done);
  const auto after = [](float first) {
    const auto spec = mesh::NetworkBuilder("silent", GridShape{1, 1, 1, 1})
                          .input("x", 3)
                          .layer({0, 0, 0, 0}, "silent", 2)
                          .output("y", {0, 0, 0, 0})
                          .seed(5)
                          .spec();
    LearningRun made(spec, with_traces());
    // Numbers that are not moderate have their product in memory.
    for (const std::vector<float>& x : {std::vector{1.0f, 1e20f, 2.0f}, std::vector{first, 0.5f, 0.25f}}) {
      const mesh::RunInput input{"x", x};
      const std::vector<float> gradient{1.0f, -0.5f};
      const Target target{.output = "y", .gradient = gradient, .signal = TraceSignal{1.0f, 0.75f, 0.0f, false}};
      must(made.learner->teach(must(made.learner->observe({&input, 1})), {&target, 1}));
    }
    return made.weights();
  };
  EXPECT_EQ(after(-1.0f), after(-2.0f));
  EXPECT_NE(after(-1.0f), after(1.0f));
}

// Each session's own traces, its own bound, steps added up in the order of sessions; all gradients by the weights of
// before. Within 2e-5 of float64, after 60 steps.
TEST(TracesOfSessions, MoveAsTheReferenceInFloat64) {
  constexpr std::size_t kLearners = 3;
  LearningRun made(network(), of_learners(kLearners), sessions(kLearners));
  const std::vector<Matrix> start = made.weights();
  std::vector<Matrix> now = start;
  std::vector<Reference> actors(kLearners, Reference({start[0], start[1], start[2], start[3]})),
      critics(kLearners, Reference({start[4], start[5]}));
  run_sessions(*made.learner, 0, 60, kLearners);
  for (std::uint64_t t = 0; t < 60; ++t) {
    const std::vector<Matrix> before = now;
    for (std::size_t s = 0; s < kLearners; ++s) {
      const Step step(100 * s + t);
      const Matrix x(step.x.begin(), step.x.end()), dy(step.actor.begin(), step.actor.end()),
          dv(step.critic.begin(), step.critic.end());
      Matrix hidden(kWidth), dh(kWidth);
      for (std::size_t o = 0; o < kWidth; ++o) {
        for (std::size_t k = 0; k < kIn; ++k) hidden[o] += before[0][o * kIn + k] * x[k];
        hidden[o] = std::tanh(hidden[o] + before[1][o]);
        for (std::size_t a = 0; a < kActions; ++a) dh[o] += before[2][a * kWidth + o] * dy[a];
        dh[o] *= 1.0 - hidden[o] * hidden[o];
      }
      const auto add = [&](Reference& of, std::size_t first, const TraceSignal& signal,
                           const std::vector<Matrix>& gradients) {
        for (std::size_t p = 0; p < of.weights.size(); ++p) of.weights[p].assign(of.weights[p].size(), 0.0);
        of.move(signal, gradients);
        for (std::size_t p = 0; p < of.weights.size(); ++p)
          for (std::size_t i = 0; i < of.weights[p].size(); ++i) now[first + p][i] += of.weights[p][i];
      };
      if (t % 3 != 2) add(actors[s], 0, step.of_actor, {outer(dh, x), dh, outer(dy, hidden), dy});
      add(critics[s], 4, step.of_critic, {outer(dv, x), dv});
    }
  }
  const std::vector<Matrix> end = made.weights();
  for (std::size_t p = 0; p < end.size(); ++p)
    for (std::size_t i = 0; i < now[p].size(); ++i) EXPECT_NEAR(end[p][i], now[p][i], 2e-5) << p << ", " << i;
}

// A session that nothing moves leaves the other the bits of one alone; which of the two it is does not matter.
// Some inputs are not moderate: their products go by way of memory.
TEST(TracesOfSessions, OfWhichOneLearnsHaveTheBitsOfOne) {
  const auto sample = [](std::uint64_t s) {
    Step step(s);
    if (s % 9 == 8) step.x[1] = 1e20f;
    return step;
  };
  LearningRun alone(network(), with_traces());
  for (std::uint64_t s = 0; s < 40; ++s) {
    const Step step = sample(s);
    const mesh::RunInput input{"x", step.x};
    must(alone.learner->teach(must(alone.learner->observe({&input, 1})), step.targets(s)));
  }
  for (const std::size_t which : {0, 1}) {
    LearningRun two(network(), of_learners(2), sessions(2));
    for (std::uint64_t s = 0; s < 40; ++s) {
      const Step step = sample(s);
      std::vector<float> x(2 * kIn), actor(2 * kActions), critic(2);
      std::vector<TraceSignal> of_actor(2), of_critic(2);
      std::copy(step.x.begin(), step.x.end(), x.begin() + static_cast<std::ptrdiff_t>(which * kIn));
      std::copy(step.actor.begin(), step.actor.end(), actor.begin() + static_cast<std::ptrdiff_t>(which * kActions));
      critic[which] = step.critic[0];
      of_actor[which] = step.of_actor;
      of_critic[which] = step.of_critic;
      const mesh::RunInput input{"x", x};
      std::vector<Target> targets;
      if (s % 3 != 2) targets.push_back({.output = "actor", .gradient = actor, .signals = of_actor});
      targets.push_back({.output = "critic", .gradient = critic, .signals = of_critic});
      must(two.learner->teach(must(two.learner->observe({&input, 1})), targets));
    }
    EXPECT_EQ(two.weights(), alone.weights()) << which;
  }
}

TEST(TracesOfSessions, EndInTheSameStateOnEveryMachineShape) {
  const auto hash = [](const mesh::MeshOptions& wanted) {
    LearningRun made(network(), of_learners(3), sessions(3, wanted));
    run_sessions(*made.learner, 0, 40, 3);
    return made.told();
  };
  const std::string alone = hash(shape());
  for (const kernels::Isa isa : kernels::available_isas()) {
    const ForIsa scope(isa);
    for (const std::size_t threads : {1, 2, 7}) EXPECT_EQ(hash(shape(threads)), alone) << name(isa) << threads;
  }
}

TEST(TracesOfSessions, AreSavedAndHashed) {
  LearningRun unbroken(network(), of_learners(2), sessions(2));
  run_sessions(*unbroken.learner, 0, 13, 2);
  const ByteBuffer bytes = unbroken.file();
  const std::string at_cut = unbroken.hash();
  run_sessions(*unbroken.learner, 13, 20, 2);
  LearningRun resumed(bytes, of_learners(2), sessions(2));
  EXPECT_EQ(resumed.hash(), at_cut);
  run_sessions(*resumed.learner, 13, 20, 2);
  EXPECT_EQ(resumed.hash(), unbroken.hash());
}

TEST(TracesOfSessions, StayWhereTheGradientsOfOneAreNotFinite) {
  LearningRun made(network(), of_learners(2), sessions(2));
  Steps step(0, 2);
  step.x[kIn] = 1e25f;
  step.critic[1] = 1e25f;
  const mesh::RunInput input{"x", step.x};
  const Target target{.output = "critic", .gradient = step.critic, .signals = step.of_critic};
  const auto before = made.weights();
  EXPECT_FALSE(made.learner->teach(must(made.learner->observe({&input, 1})), {&target, 1}));
  EXPECT_EQ(made.weights(), before);
}

TEST(TracesOfSessions, RefuseWhatIsNotOneRowASession) {
  const auto refused = [](const std::string& type, const char* text) {
    const auto spec = mesh::NetworkBuilder("rows", GridShape{1, 1, 2, 1})
                          .input("x", kIn)
                          .layer({0, 0, 0, 0}, type, kWidth)
                          .dense({0, 0, 1, 0}, 1)
                          .output("critic", {0, 0, 1, 0})
                          .spec();
    auto mesh = must(mesh::Mesh::build(spec, sessions(2)));
    expect_error(Learner::build(mesh, of_learners(2)), Errc::unsupported, {"learning.traces: 2 learners", text});
  };
  refused("gru", "[0,0,0,0] has weights whose gradients are sums");
  LearningRun two(network(), of_learners(2), sessions(2));
  Steps step(0, 2);
  const mesh::RunInput input{"x", step.x};
  step.of_critic.pop_back();
  const Target target{.output = "critic", .gradient = step.critic, .signals = step.of_critic};
  expect_error(two.learner->teach(must(two.learner->observe({&input, 1})), {&target, 1}), Errc::shape_mismatch,
               {"1 signals where 2 are expected"});
}

TEST(Traces, EndInTheSameStateOnEveryMachineShape) {
  const auto hash = [](const mesh::MeshOptions& wanted) {
    LearningRun made(network(), with_traces(), wanted);
    run(*made.learner, 0, 40);
    return made.told();
  };
  const std::string alone = hash(shape());
  for (const kernels::Isa isa : kernels::available_isas()) {
    const ForIsa scope(isa);
    for (const std::size_t threads : {1, 2, 7}) EXPECT_EQ(hash(shape(threads)), alone) << name(isa) << threads;
  }
}

TEST(Traces, AreSavedAndHashed) {
  LearningRun unbroken(network(), with_traces());
  run(*unbroken.learner, 0, 13);
  const ByteBuffer bytes = unbroken.file();
  const std::string at_cut = unbroken.hash();
  run(*unbroken.learner, 13, 20);
  LearningRun resumed(bytes, with_traces());
  EXPECT_EQ(resumed.hash(), at_cut);
  run(*resumed.learner, 13, 20);
  EXPECT_EQ(resumed.hash(), unbroken.hash());
}

TEST(Traces, RefuseTargetsWithoutASignal) {
  LearningRun traced(network(), with_traces());
  const Step step(0);
  const mesh::RunInput input{"x", step.x};
  const Ticket ticket = must(traced.learner->observe({&input, 1}));
  const std::string before = traced.hash();
  const auto refused = [&](const Target& target, Errc code, const char* text) {
    expect_error(traced.learner->teach(ticket, {&target, 1}), code, {"target of 'actor'", text});
  };
  const std::uint32_t label = 1;
  refused({.output = "actor", .labels = {&label, 1}}, Errc::invalid_argument, "takes a gradient and a signal");
  refused({.output = "actor", .gradient = step.actor}, Errc::invalid_argument, "takes a gradient and a signal");
  refused({.output = "actor", .gradient = step.actor, .signal = TraceSignal{.error = NAN}}, Errc::not_finite,
          "signal.error");
  refused({.output = "actor", .gradient = step.actor, .signal = TraceSignal{.decay = 1.5f}}, Errc::out_of_range,
          "signal.decay 1.5");
  const Target target{"actor", {&label, 1}};
  expect_error(traced.learner->learn({&input, 1}, {&target, 1}, 1), Errc::invalid_argument, {"Learner::teach"});
  EXPECT_EQ(traced.hash(), before);

  LearningOptions plain = with_traces();
  plain.traces = false;
  LearningRun untraced(network(), plain);
  const Target signalled{.output = "actor", .gradient = step.actor, .signal = step.of_actor};
  expect_error(untraced.learner->teach(must(untraced.learner->observe({&input, 1})), {&signalled, 1}),
               Errc::invalid_argument, {"learning.traces is false"});
}

TEST(Traces, NameTheOptionsTheyDoNotGoWith) {
  const auto refused = [](auto change, const char* text) {
    LearningOptions options = with_traces();
    change(options);
    expect_error(check_options(options), Errc::invalid_argument, {"learning.traces", text});
  };
  refused([](LearningOptions& o) { o.rule = Rule::dfa; }, "rule 'dfa'; give 'backprop'");
  refused([](LearningOptions& o) { o.schedule = Schedule::pipelined; }, "schedule 'pipelined'; give 'settle'");
  refused([](LearningOptions& o) { o.late = Late::again; }, "late 'again'; give 'meet'");
  refused([](LearningOptions& o) { o.optimizer.kind = OptimizerKind::adamw; }, "optimizer.type 'adamw'; give 'sgd'");
  refused([](LearningOptions& o) { o.optimizer.weight_decay = 0.5f; }, "weight_decay 0.5");
  refused([](LearningOptions& o) { o.optimizer.clip = Clip::norm; }, "clip 'norm'");
  refused([](LearningOptions& o) { o.loss = Loss::mse; }, "loss 'mse'; give none");
  refused([](LearningOptions& o) { o.feedback = Feedback::tanh; }, "feedback 'tanh'; give none");
  refused([](LearningOptions& o) { o.delay_compensation = DelayCompensation::spike; },
          "delay_compensation 'spike'; give 'none'");
  refused([](LearningOptions& o) { o.rate_schedule = {.kind = RateScheduleKind::linear, .updates = 9}; },
          "rate_schedule 'linear'");
}

TEST(Traces, RefuseALayerWhoseErrorsComeFromTwoOutputs) {
  auto spec = network();
  spec.layers[2].from = spec.layers[1].from;
  auto mesh = must(mesh::Mesh::build(spec, shape()));
  expect_error(Learner::build(mesh, with_traces()), Errc::unsupported,
               {"'actor'", "'critic'", "[0,0,0,0]", "give each output layers of its own"});
  // A frozen layer has no traces.
  spec.layers[0].is_frozen = true;
  auto frozen = must(mesh::Mesh::build(spec, shape()));
  must(Learner::build(frozen, with_traces()));
}

// The networks that traces are made for: a norm without parameters learns as one whose gain is 1 and bias 0.
TEST(Traces, NormsWithoutParametersPassTheSameErrors) {
  const auto weights = [](bool affine) {
    const auto spec = mesh::NetworkBuilder("norm", GridShape{1, 1, 3, 1})
                          .input("x", kIn)
                          .dense({0, 0, 0, 0}, kWidth)
                          .layer({0, 0, 1, 0}, "layer_norm")
                          .option("affine", affine)
                          .dense({0, 0, 2, 0}, kActions)
                          .output("y", {0, 0, 2, 0})
                          .seed(5)
                          .spec();
    LearningOptions options{.optimizer = {.kind = OptimizerKind::sgd, .lr = 0.1f}};
    LearningRun made(spec, options);
    EXPECT_EQ(made.store().of(made.node({0, 0, 1, 0})).size(), affine ? 2u : 0u);
    const Step step(0);
    const mesh::RunInput input{"x", step.x};
    const std::uint32_t label = 1;
    const Target target{"y", {&label, 1}};
    must(made.learner->learn({&input, 1}, {&target, 1}, 1));
    return std::pair(made.weights({0, 0, 0, 0}), made.weights({0, 0, 2, 0}));
  };
  EXPECT_EQ(weights(true), weights(false));
}

TEST(Traces, AddUpTheSameOnEveryInstructionSet) {
  const kernels::FlushSubnormals flush;
  for (const std::size_t n : {1u, 15u, 16u, 63u, 64u, 65u, 200u, 1000u}) {
    RandomStream random(3, n, RandomPurpose::test);
    std::vector<float> z(n), g(n), wanted;
    for (std::size_t i = 0; i < n; ++i) z[i] = random.next_normal(), g[i] = random.next_normal();
    double norm = 0.0;
    for (std::size_t i = 0; i < n; ++i) {
      wanted.push_back(std::fma(0.8f, z[i], g[i]));
      norm += std::fabs(double{wanted.back()});
    }
    std::optional<float> first;
    for (const kernels::Isa isa : kernels::available_isas()) {
      const ForIsa scope(isa);
      std::vector<float> moved = z;
      const float sum = kernels::trace_update(moved.data(), g.data(), 0.8f, n);
      EXPECT_EQ(moved, wanted) << name(isa) << n;
      EXPECT_EQ(sum, first.value_or(sum)) << name(isa) << n;
      first = sum;
    }
    EXPECT_NEAR(*first, norm, 1e-5 * norm);
  }
}

// Outer products that stay in registers have the bits of those in memory; what pads the last panel stays 0.
TEST(Traces, TakeAnOuterProductInAsItsGradients) {
  const kernels::FlushSubnormals flush;
  for (const auto& [out, in] : std::vector<std::pair<std::size_t, std::size_t>>{
           {1, 1}, {3, 5}, {16, 4}, {17, 8}, {18, 7}, {40, 6}, {128, 128}, {130, 3}}) {
    RandomStream random(3, out * 1000 + in, RandomPurpose::test);
    const std::size_t n = kernels::panels_size(out, in);
    std::vector<float> dy(out), x(in), z(n);
    AlignedBuffer<float> g(n);
    for (float& value : dy) value = random.next_normal();
    for (float& value : x) value = random.next_normal();
    dy.back() = -0.0f;
    for (std::size_t o = 0; o < out; ++o)
      for (std::size_t k = 0; k < in; ++k) z[kernels::panel_index(in, o, k)] = random.next_normal();
    for (const kernels::Isa isa : kernels::available_isas()) {
      const ForIsa scope(isa);
      std::vector<float> wanted = z, moved = z;
      std::fill_n(g.data(), n, 0.0f);
      kernels::outer_accumulate({dy.data(), 1, out, out}, {x.data(), 1, in, in}, {g.data(), out, in});
      const float sum = kernels::trace_update(wanted.data(), g.data(), 0.8f, n);
      EXPECT_EQ(kernels::trace_update(moved.data(), kernels::OuterProduct{dy.data(), x.data(), out, in}, 0.8f), sum)
          << name(isa) << out << 'x' << in;
      EXPECT_EQ(moved, wanted) << name(isa) << out << 'x' << in;
    }
  }
}

}  // namespace
}  // namespace weft::learning::traces_test
