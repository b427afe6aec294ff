// SPDX-License-Identifier: Apache-2.0

#include "models/sampler.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <vector>

namespace weft::models::sampler_test {
namespace {

// Shares 0.4, 0.3, 0.2, 0.08, 0.02, in another order.
const std::vector<float> kLogits{std::log(0.2f), std::log(0.4f), std::log(0.02f), std::log(0.3f), std::log(0.08f)};

std::map<text::TokenId, int> drawn(const SamplerOptions& options, int draws = 4000) {
  Sampler sampler(options);
  std::map<text::TokenId, int> counts;
  for (int i = 0; i < draws; ++i) ++counts[*sampler.pick(kLogits, static_cast<std::uint64_t>(i))];
  return counts;
}
std::set<text::TokenId> names(const SamplerOptions& options) {
  std::set<text::TokenId> ids;
  for (const auto& [id, count] : drawn(options)) ids.insert(id);
  return ids;
}

TEST(Sampler, DrawsByShares) {
  const auto counts = drawn({.temperature = 1, .top_k = 0, .top_p = 1, .min_p = 0}, 20000);
  const double shares[] = {0.2, 0.4, 0.02, 0.3, 0.08};
  // Five standard deviations of 20,000 draws are below 0.018.
  for (text::TokenId id = 0; id < 5; ++id) EXPECT_NEAR(counts.at(id) / 20000.0, shares[id], 0.018) << id;
}

TEST(Sampler, KeepsTheCandidatesThatItsOptionsSay) {
  using Ids = std::set<text::TokenId>;
  EXPECT_EQ(names({.temperature = 1, .top_k = 2, .top_p = 1, .min_p = 0}), (Ids{1, 3}));
  EXPECT_EQ(names({.temperature = 1, .top_k = 0, .top_p = 0.65, .min_p = 0}), (Ids{1, 3})) << "0.4 and 0.3 reach it";
  EXPECT_EQ(names({.temperature = 1, .top_k = 0, .top_p = 0.75, .min_p = 0}), (Ids{0, 1, 3}));
  EXPECT_EQ(names({.temperature = 1, .top_k = 0, .top_p = 1, .min_p = 0.4}), (Ids{0, 1, 3})) << "0.2 of 0.4 is half";
  EXPECT_EQ(names({.temperature = 1, .top_k = 0, .top_p = 0, .min_p = 1}), (Ids{1})) << "one is always kept";
}

TEST(Sampler, TakesTheFirstLargestWithoutTemperature) {
  Sampler sampler({.temperature = 0});
  EXPECT_EQ(*sampler.pick(std::vector<float>{1, 5, 5, 2}, 7), 1u);
}

TEST(Sampler, SharpensByTemperature) {
  const auto cold = drawn({.temperature = 0.25, .top_k = 0, .top_p = 1, .min_p = 0});
  EXPECT_GT(cold.at(1), 2800) << "0.4^4 of 0.4^4 + 0.3^4 + 0.2^4 + ... is 0.73";
}

TEST(Sampler, DrawsByPositionAlone) {
  Sampler one({.seed = 9}), other({.seed = 9});
  std::vector<text::TokenId> forwards, backwards;
  for (std::uint64_t i = 0; i < 50; ++i) forwards.push_back(*one.pick(kLogits, i));
  for (std::uint64_t i = 50; i-- > 0;) backwards.insert(backwards.begin(), *other.pick(kLogits, i));
  EXPECT_EQ(forwards, backwards);
}

TEST(Sampler, RefusesANan) {
  Sampler sampler({});
  EXPECT_EQ(sampler.pick(std::vector<float>{1, NAN}, 3).error().code(), Errc::not_finite);
}

}  // namespace
}  // namespace weft::models::sampler_test
