// SPDX-License-Identifier: Apache-2.0

#include "tests/gpu/gpu_testing.hpp"

namespace weft::gpu::stream_learning_test {
namespace {

using namespace testing_support;

/// Every optimiser, with each of its settings that changes the formula.
std::vector<kernels::OptimizerOptions> all_options() {
  std::vector<kernels::OptimizerOptions> all;
  for (std::size_t i = 0; i < kernels::optimizer_names().size(); ++i)
    for (const bool flag : {false, true})
      for (const kernels::Clip clip : {kernels::Clip::none, kernels::Clip::value, kernels::Clip::norm}) {
        kernels::OptimizerOptions o = kernels::default_options(static_cast<kernels::OptimizerKind>(i));
        o.lr = 0.1f;
        o.weight_decay = 0.01f;
        o.nesterov = o.centered = flag;
        if (o.kind == kernels::OptimizerKind::rmsprop && flag) o.momentum = 0.5f;
        o.clip = clip;
        o.clip_limit = 0.5f;
        all.push_back(o);
      }
  return all;
}

TEST(StreamLearning, OptimisersHaveTheCpusBitsOverManySteps) {
  RandomStream random(20, 0, RandomPurpose::test);
  for (const std::size_t n : {1, 17, 256, 1000})
    for (const bool special : {false, true}) {
      Comparison c;
      const auto g = c.add(draw(random, n, special)), squares = c.add(std::vector<float>{1.75f});
      struct Arrays {
        std::size_t w, first, second, third, count, factors;
      };
      std::vector<Arrays> arrays;
      const std::vector<kernels::OptimizerOptions> all = all_options();
      for (const kernels::OptimizerOptions& o : all) {
        std::vector<float> of_squares = draw(random, n, special), means = draw(random, n, special);
        for (float& each : of_squares) each = each < 0 ? -each : each;
        if (o.kind == kernels::OptimizerKind::rmsprop) std::swap(of_squares, means);
        arrays.push_back({c.add(draw(random, n, special)), c.add(means), c.add(of_squares),
                          c.add(draw(random, n, special)), c.add_codes({0.0f, 0.0f}),
                          c.add(std::vector<float>(kernels::kOptimizerFactors))});
      }
      c.expect_same(std::to_string(n) + (special ? " special" : ""), [&](OpStream& stream, const auto& at) {
        for (int step = 0; step < 5; ++step)
          for (std::size_t i = 0; i < all.size(); ++i) {
            const kernels::OptimizerOptions& o = all[i];
            const std::size_t used = kernels::arrays_of(o);
            const bool counts = kernels::counts_updates(o) || o.clip == kernels::Clip::value;
            if (counts)
              stream.optimizer_factors({at.template as<std::uint64_t>(arrays[i].count),
                                        o.lr,
                                        o.beta1,
                                        o.beta2,
                                        {},
                                        at.data(arrays[i].factors)});
            stream.optimizer_step({n, at.data(arrays[i].w), used > 0 ? at.data(arrays[i].first) : nullptr,
                                   used > 1 ? at.data(arrays[i].second) : nullptr,
                                   used > 2 ? at.data(arrays[i].third) : nullptr, at.data(g),
                                   counts ? at.data(arrays[i].factors) : nullptr,
                                   o.clip == kernels::Clip::norm ? at.data(squares) : nullptr, o});
          }
      });
    }
}

// Small, large and very large counts; betas that are gone after a few steps, and those that hardly change; every
// schedule.
TEST(StreamLearning, CorrectionsAndRatesAreTheCpus) {
  constexpr float kBetas[][2] = {{0.9f, 0.999f}, {0.0f, 0.9999999f}, {0x1p-100f, 0x1p-130f}, {0.5f, 0.95f}};
  const std::size_t schedules = kernels::rate_schedule_names().size();
  std::vector<kernels::RateSchedule> rates;
  for (std::size_t i = 0; i < schedules; ++i)
    for (const std::uint32_t updates : {1u, 60u, 100000u, UINT32_MAX})
      rates.push_back({static_cast<kernels::RateScheduleKind>(i), updates == 60 ? 50u : 0u, updates, updates % 3 + 1,
                       0.125f, updates == 60 ? 0.97f : 0.9999f, 2.5f});
  Comparison c;
  std::vector<std::size_t> counts, factors;
  for (const std::uint64_t before :
       {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{2}, std::uint64_t{48}, std::uint64_t{98}, std::uint64_t{1023},
        std::uint64_t{54321}, std::uint64_t{UINT32_MAX} - 1, (std::uint64_t{1} << 40) + 12345})
    for (std::size_t i = 0; i < rates.size(); ++i)
      counts.push_back(c.add_codes({std::bit_cast<float>(static_cast<std::uint32_t>(before)),
                                    std::bit_cast<float>(static_cast<std::uint32_t>(before >> 32))}));
  for (std::size_t i = 0; i < counts.size(); ++i)
    factors.push_back(c.add(std::vector<float>(kernels::kOptimizerFactors)));
  c.expect_same("factors", [&](OpStream& stream, const auto& at) {
    for (int step = 0; step < 3; ++step)
      for (std::size_t i = 0; i < counts.size(); ++i)
        stream.optimizer_factors({at.template as<std::uint64_t>(counts[i]), 0.1f, kBetas[i % 4][0], kBetas[i % 4][1],
                                  rates[i % rates.size()], at.data(factors[i])});
  });
}

// A network of two layers learns for some steps; after the last the weights are the CPU's.
TEST(StreamLearning, ATrainedNetworkHasTheCpusWeights) {
  RandomStream random(21, 0, RandomPurpose::test);
  constexpr std::size_t kBatch = 6, kIn = 70, kHidden = 40, kOut = 10;
  Comparison c;
  const auto w1 = c.add(draw_panels(random, kHidden, kIn, false)),
             w2 = c.add(draw_panels(random, kOut, kHidden, false));
  const auto g1 = c.add(std::vector<float>(kernels::panels_size(kHidden, kIn))),
             g2 = c.add(std::vector<float>(kernels::panels_size(kOut, kHidden)));
  const auto b1 = c.add(draw(random, kHidden, false)), db1 = c.add(std::vector<float>(kHidden));
  const auto x = c.add(draw_matrix(random, kBatch, kIn, false));
  using Values = kernels::testing_support::Matrix;
  const auto z = c.add(Values(kBatch, kHidden)), h = c.add(Values(kBatch, kHidden)), y = c.add(Values(kBatch, kOut)),
             dy = c.add(Values(kBatch, kOut)), dh = c.add(Values(kBatch, kHidden));
  std::vector<float> classes(kBatch);
  for (float& label : classes) label = std::bit_cast<float>(random.next_below(kOut));
  const auto labels = c.add(classes), losses = c.add(std::vector<float>(kBatch));
  c.expect_same("training", [&](OpStream& stream, const auto& at) {
    const kernels::ConstPanels first{at.data(w1), kHidden, kIn}, second{at.data(w2), kOut, kHidden};
    for (int step = 0; step < 20; ++step) {
      stream.fill({0.0f, {at.data(g1), 1, kernels::panels_size(kHidden, kIn), kernels::panels_size(kHidden, kIn)}});
      stream.fill({0.0f, {at.data(g2), 1, kernels::panels_size(kOut, kHidden), kernels::panels_size(kOut, kHidden)}});
      stream.fill({0.0f, {at.data(db1), 1, kHidden, kHidden}});
      stream.linear({first, at.data(b1), at.rows(x), kernels::Activation::gelu, at.rows(z), at.rows(h)});
      stream.linear({second, nullptr, at.rows(h), kernels::Activation::linear, {}, at.rows(y)});
      stream.cross_entropy({at.rows(y), at.template as<std::uint32_t>(labels), at.data(losses), at.rows(dy)});
      stream.linear_transposed({second, at.rows(dy), at.rows(dh)});
      stream.outer_accumulate({at.rows(dy), at.rows(h), {at.data(g2), kOut, kHidden}});
      stream.unary_backward({kernels::Activation::gelu, at.rows(z), at.rows(h), at.rows(dh), at.rows(dh)});
      stream.outer_accumulate({at.rows(dh), at.rows(x), {at.data(g1), kHidden, kIn}});
      stream.column_accumulate({at.rows(dh), at.data(db1)});
      stream.run(kernels::ops::sgd_step(kernels::panels_size(kHidden, kIn), at.data(w1), at.data(g1), 0.05f));
      stream.run(kernels::ops::sgd_step(kernels::panels_size(kOut, kHidden), at.data(w2), at.data(g2), 0.05f));
      stream.run(kernels::ops::sgd_step(kHidden, at.data(b1), at.data(db1), 0.05f));
    }
  });
}

}  // namespace
}  // namespace weft::gpu::stream_learning_test
