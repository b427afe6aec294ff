// SPDX-License-Identifier: Apache-2.0

#include "models/sampler.hpp"

#include "models/generation_config.hpp"

#include "core/philox.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
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

TEST(Sampler, TakesTheLargestAtTemperaturesWhoseReciprocalIsInfinite) {
  for (const double temperature : {1e-30, 2.9e-39, 2.8e-39, 1e-39, 1e-45, 1e-300, 5e-324}) {
    Sampler sampler({.temperature = temperature, .top_k = 0, .top_p = 1, .min_p = 0});
    for (std::uint64_t i = 0; i < 20; ++i)
      EXPECT_EQ(*sampler.pick(std::vector<float>{1, 2, 5, 5, 3}, i) & ~1u, 2u) << temperature;
    EXPECT_EQ(*sampler.pick(std::vector<float>{1, 5, 2}, 7), 1u) << temperature;
  }
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

/// A sampler written apart, in binary64 with the library's functions. Nothing where a choice hangs on the last digits.
std::optional<text::TokenId> reference(std::vector<double> logits, const std::vector<text::TokenId>& ids,
                                       std::size_t prompt, const SamplerOptions& o) {
  constexpr double kNear = 1e-5;
  for (const auto& [id, bias] : o.logit_bias) logits[id] += static_cast<double>(bias);
  const std::size_t n = o.no_repeat_ngram;
  std::set<text::TokenId> banned;
  for (std::size_t i = 0; n > 0 && i + n <= ids.size(); ++i)
    if (std::vector<text::TokenId>(ids.begin() + static_cast<long>(i), ids.begin() + static_cast<long>(i + n - 1)) ==
        std::vector<text::TokenId>(ids.end() - static_cast<long>(n - 1), ids.end()))
      banned.insert(ids[i + n - 1]);
  for (std::size_t id = 0; id < logits.size(); ++id) {
    std::size_t all = 0, counted = 0;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] != id || (o.penalty_window != 0 && i + o.penalty_window < ids.size())) continue;
      ++all;
      counted += o.penalizes_prompt || i >= prompt ? 1 : 0;
    }
    if (all > 0) logits[id] *= logits[id] <= 0 ? o.repetition_penalty : 1 / o.repetition_penalty;
    logits[id] -= static_cast<double>(counted) * o.frequency_penalty + (counted > 0 ? o.presence_penalty : 0);
  }
  struct Item {
    double logit, p = 0;
    text::TokenId id;
  };
  std::vector<Item> items;
  for (text::TokenId id = 0; id < logits.size(); ++id)
    if (!banned.contains(id) && logits[id] > -1e300) items.push_back({logits[id], 0, id});
  const auto falls = [](const Item& a, const Item& b) { return a.logit > b.logit; };
  std::stable_sort(items.begin(), items.end(), falls);
  if (items.empty()) return std::nullopt;
  for (std::size_t i = 0; i + 1 < items.size(); ++i)
    if (items[i].logit - items[i + 1].logit < kNear) return std::nullopt;
  if (o.temperature <= 0) return items.front().id;
  if (o.top_k > 0 && o.top_k < items.size()) items.resize(o.top_k);
  const auto normalize = [&](double t) {
    double sum = 0;
    for (Item& each : items) sum += each.p = std::exp((each.logit - items.front().logit) / t);
    for (Item& each : items) each.p /= sum;
  };
  const auto keep_until = [&](double share, bool exceeds) {  // false: the answer is too near
    double sum = 0;
    for (std::size_t i = 0; i < items.size(); ++i) {
      sum += items[i].p;
      if (std::abs(sum - share) < kNear && i + 1 < items.size()) return false;
      if (exceeds ? sum > share : sum >= share) {
        items.resize(i + 1);
        break;
      }
    }
    return true;
  };
  const bool temperature_first = o.order == SamplerOptions::hf_order();
  const double first = temperature_first ? o.temperature : 1;
  normalize(first);
  const auto keep_typical = [&] {  // false: the answer is too near
    if (o.typical_p >= 1) return true;
    double entropy = 0;
    for (const Item& each : items) entropy -= each.p > 0 ? each.p * std::log(each.p) : 0;
    const auto distance = [&](const Item& each) { return std::abs(-std::log(each.p) - entropy); };
    std::stable_sort(items.begin(), items.end(),
                     [&](const Item& a, const Item& b) { return distance(a) < distance(b); });
    for (std::size_t i = 0; i + 1 < items.size(); ++i)
      if (distance(items[i + 1]) - distance(items[i]) < kNear) return false;
    if (!keep_until(o.typical_p, true)) return false;
    std::stable_sort(items.begin(), items.end(), falls);
    normalize(first);
    return true;
  };
  if (!temperature_first && !keep_typical()) return std::nullopt;
  if (o.top_p < 1 && !keep_until(o.top_p, false)) return std::nullopt;
  if (o.min_p > 0)
    for (std::size_t i = 1; i < items.size(); ++i) {
      const double far = items[i].p / items[0].p - o.min_p;
      if (std::abs(far) < kNear) return std::nullopt;
      if (far < 0) items.resize(i);
    }
  normalize(first);
  if (temperature_first && !keep_typical()) return std::nullopt;
  normalize(o.temperature);
  RandomStream stream(o.seed, 0, static_cast<RandomPurpose>(16));
  stream.seek(ids.size());
  const double u = (stream.next_u32() + 0.5) / 4294967296.0;
  double sum = 0;
  for (const Item& each : items) {
    sum += each.p;
    if (std::abs(sum - u) < kNear) return std::nullopt;
    if (sum >= u) return each.id;
  }
  return items.back().id;
}

TEST(Sampler, DoesWhatAReferenceDoes) {
  std::mt19937 random(22);
  const auto draw = [&](double low, double high) { return std::uniform_real_distribution<double>(low, high)(random); };
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  int compared = 0;
  for (int i = 0; i < 4000; ++i) {
    const std::size_t vocabulary = 4 + below(60);
    std::vector<float> logits(vocabulary);
    for (float& each : logits) each = static_cast<float>(draw(-8, 8));
    std::vector<text::TokenId> ids(below(40));
    for (text::TokenId& id : ids) id = static_cast<text::TokenId>(below(vocabulary / 2 + 1));
    SamplerOptions o;
    const auto sometimes = [&](auto& option, auto value, auto off) { option = below(2) == 0 ? value : off; };
    o.temperature = below(10) == 0 ? 0 : draw(0.3, 2);
    sometimes(o.top_k, 1 + below(vocabulary), std::size_t{0});
    sometimes(o.top_p, draw(0.05, 1), 1.0);
    sometimes(o.min_p, draw(0, 0.3), 0.0);
    sometimes(o.typical_p, draw(0.05, 0.99), 1.0);
    sometimes(o.repetition_penalty, draw(0.5, 2), 1.0);
    sometimes(o.presence_penalty, draw(-2, 2), 0.0);
    sometimes(o.frequency_penalty, draw(-1, 1), 0.0);
    sometimes(o.penalty_window, 1 + below(20), std::size_t{0});
    sometimes(o.no_repeat_ngram, 1 + below(3), std::size_t{0});
    o.penalizes_prompt = below(2) == 0;
    if (i % 2 == 1) o.order = SamplerOptions::hf_order();
    o.seed = random();
    for (std::size_t b = below(3); b > 0; --b) {
      const auto id = static_cast<text::TokenId>(below(vocabulary));
      o.logit_bias.emplace_back(id, below(3) == 0 ? -INFINITY : static_cast<float>(draw(-3, 3)));
    }
    const std::size_t prompt = ids.empty() ? 0 : below(ids.size());
    const auto wanted = reference({logits.begin(), logits.end()}, ids, prompt, o);
    if (!wanted) continue;
    ++compared;
    const auto id = Sampler(o).pick(logits, {ids, prompt});
    ASSERT_TRUE(id) << id.error().text();
    ASSERT_EQ(*id, *wanted) << "row " << i;
  }
  EXPECT_GT(compared, 3000);
}

TEST(Sampler, LooksForCandidatesThatAMaskAllows) {
  const auto odd = [](text::TokenId id) { return id % 2 == 1; };
  std::set<text::TokenId> drawn_ids;
  std::vector<text::TokenId> before;
  Sampler sampler({.temperature = 1, .top_k = 2, .top_p = 1, .min_p = 0});
  for (int i = 0; i < 200; ++i) {
    before.push_back(0);
    drawn_ids.insert(*sampler.pick(kLogits, {before}, odd));
  }
  EXPECT_EQ(drawn_ids, (std::set<text::TokenId>{1, 3})) << "the two largest of 1 and 3";
  EXPECT_EQ(*Sampler({.temperature = 0}).pick(kLogits, TokenHistory{}, [](text::TokenId id) { return id == 2; }), 2u);
  const auto none = Sampler({}).pick(kLogits, TokenHistory{}, [](text::TokenId) { return false; });
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code(), Errc::not_found);
}

TEST(Sampler, RefusesWhatIsNotFinite) {
  Sampler sampler({});
  EXPECT_EQ(sampler.pick(std::vector<float>{1, NAN}, 3).error().code(), Errc::not_finite);
  EXPECT_EQ(sampler.pick(std::vector<float>{1, INFINITY}, 3).error().code(), Errc::not_finite);
  EXPECT_EQ(sampler.pick(std::vector<float>{1, -INFINITY}, 3).error().code(), Errc::not_finite);
  Sampler biased({.logit_bias = {{1, 3e38f}}});
  EXPECT_EQ(biased.pick(std::vector<float>{1, 1e38f}, 3).error().code(), Errc::not_finite);
  Sampler hot({.temperature = 1e300, .top_k = 0, .top_p = 1, .min_p = 0});
  EXPECT_EQ(hot.pick(std::vector<float>{3e38f, -3e38f}, 3).error().code(), Errc::not_finite) << "0 times infinity";
}

TEST(GenerationConfig, IsThePresetHf) {
  EXPECT_EQ(sampler_of_preset("llama.cpp", {{"top_k", 7}, {"num_beams", 4}})->top_k, 40u);
  EXPECT_EQ(sampler_of_preset("hf", {{"top_k", 7}})->top_k, 7u);
  const auto refused = sampler_of_preset("hf", {{"num_beams", 4}});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().text().find("hf: generation_config.json: num_beams"), std::string::npos);
  EXPECT_EQ(sampler_of_preset("HF", {}).error().code(), Errc::unknown_name);
}

TEST(GenerationConfig, GivesTheDrawThatAFileNames) {
  const auto usual = read_generation_config({});
  ASSERT_TRUE(usual) << usual.error().text();
  EXPECT_EQ(usual->temperature, 0) << "do_sample is false there";
  const auto made = read_generation_config({{"do_sample", true},
                                            {"temperature", 0.6},
                                            {"top_p", 0.9},
                                            {"top_k", nullptr},
                                            {"eos_token_id", 2},
                                            {"repetition_penalty", 1.1},
                                            {"typical_p", 0.7},
                                            {"min_p", 0.02},
                                            {"no_repeat_ngram_size", 3},
                                            {"num_beams", 1}});
  ASSERT_TRUE(made) << made.error().text();
  EXPECT_EQ(made->temperature, 0.6);
  EXPECT_EQ(made->top_k, 50u) << "the usual value there";
  EXPECT_EQ(made->top_p, 0.9);
  EXPECT_EQ(made->min_p, 0.02);
  EXPECT_EQ(made->typical_p, 0.7);
  EXPECT_EQ(made->repetition_penalty, 1.1);
  EXPECT_EQ(made->no_repeat_ngram, 3u);
  EXPECT_EQ(made->penalty_window, 0u);
  EXPECT_EQ(made->order, SamplerOptions::hf_order());
  const auto refused = read_generation_config({{"num_beams", 4}, {"bad_words_ids", {{1}}}, {"eta_cutoff", 0}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Errc::unsupported);
  EXPECT_NE(refused.error().text().find("num_beams, bad_words_ids:"), std::string::npos) << refused.error().text();
  for (const Json& each : {Json{{"min_new_tokens", 1}}, Json{{"forced_eos_token_id", 1}}, Json{{"num_beams", 0}},
                           Json{{"stop_strings", {"Lily"}}}, Json{{"encoder_no_repeat_ngram_size", 1}}})
    EXPECT_FALSE(read_generation_config(each)) << each.dump();
  const auto none = read_generation_config({{"do_sample", nullptr}, {"min_length", 0}, {"guidance_scale", 1.0}});
  ASSERT_TRUE(none) << none.error().text();
  EXPECT_EQ(none->temperature, 0);
  EXPECT_EQ(read_generation_config({{"top_p", 2}}).error().code(), Errc::out_of_range);
  EXPECT_EQ(read_generation_config({{"top_p", "x"}}).error().code(), Errc::parse_failed);
  EXPECT_EQ(described_sampling({{"top_k", 20}, {"temperature", 0.6}, {"eos_token_id", 2}}),
            "temperature 0.6, top_k 20");
  EXPECT_EQ(described_sampling({{"eos_token_id", 2}}), "");
}

}  // namespace
}  // namespace weft::models::sampler_test
