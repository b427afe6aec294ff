// SPDX-License-Identifier: Apache-2.0
// Steps that llama.cpp has, against what its own samplers leave (llama_samplers.py), closed forms and binary64.

#include "models/language_model.hpp"
#include "models/sampler.hpp"
#include "models/sequence_breakers.hpp"

#include "storage/file_system.hpp"

#include "core/json.hpp"
#include "core/philox.hpp"

#include <gtest/gtest.h>

#include "tests/models/imported.hpp"
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace weft::models::sampler_steps_test {
namespace {

using Shares = std::vector<std::pair<text::TokenId, double>>;  // the likeliest first
using Ids = std::vector<text::TokenId>;
using Order = SamplerOptions::Order;

/// The random number that a draw takes, and that of xtc.
double uniform(std::uint64_t seed, std::uint64_t position, std::uint64_t place = 0) {
  RandomStream stream(seed, place, static_cast<RandomPurpose>(16));
  stream.seek(position);
  return (stream.next_u32() + 0.5) / 4294967296.0;
}

/// The token that a number from 0 to 1 falls on; nothing where it is too near to another one.
std::optional<text::TokenId> token_at(const Shares& shares, double u) {
  double sum = 0, all = 0;
  for (const auto& [id, share] : shares) all += share;
  for (const auto& [id, share] : shares) {
    sum += share / all;
    if (std::abs(sum - u) < 1e-5) return std::nullopt;
    if (sum > u) return id;
  }
  return shares.back().first;
}

/// Breakers that are tokens: the text of token 0 is "0", of 1 "1" and so on.
// Texts that almost come at every token, many of them, the same many times: what one draw may cost.
TEST(SequenceBreakers, ManyThatAlmostComeTakeNoTime) {
  std::size_t asked = 0;
  const auto text_of = [&](text::TokenId id) {
    ++asked;
    return std::string(1, static_cast<char>('a' + id));
  };
  std::vector<std::string> texts(128, std::string(39, 'a') + "b");
  for (char c = 'c'; c <= 'z'; ++c) texts.push_back(std::string(39, 'a') + c);
  const SequenceBreakers made(26, text_of, texts);
  std::vector<text::TokenId> ids(20000, 0);
  asked = 0;
  EXPECT_EQ(made.unbroken(ids), ids.size());
  EXPECT_LE(asked, 2 * ids.size());
  ids[15000] = 1;
  EXPECT_EQ(made.unbroken(ids), ids.size() - 15001);
  ids[14980] = 2;
  EXPECT_EQ(made.unbroken(ids), ids.size() - 14981) << "19 letters before 'b' are too few";
}

std::shared_ptr<const SequenceBreakers> breakers_of(const std::vector<Ids>& sequences) {
  const auto text_of = [](text::TokenId id) { return std::string(1, static_cast<char>('0' + id)); };
  std::vector<std::string> texts;
  for (const Ids& each : sequences) {
    texts.emplace_back();
    for (const text::TokenId id : each) texts.back() += text_of(id);
  }
  return std::make_shared<SequenceBreakers>(64, text_of, texts);
}

/// Draws of many seeds; how many could be compared.
int expect_draws(SamplerOptions o, const std::vector<float>& logits, const Ids& ids, const Shares& left,
                 const std::vector<Ids>& breakers = {}) {
  int compared = 0;
  for (o.seed = 0; o.seed < 40; ++o.seed) {
    const auto wanted = token_at(left, uniform(o.seed, ids.size()));
    const auto id = Sampler(o, breakers_of(breakers)).pick(logits, {ids, 0});
    EXPECT_TRUE(id) << id.error().text();
    if (!wanted || !id) continue;
    ++compared;
    EXPECT_EQ(*id, *wanted) << "seed " << o.seed;
  }
  return compared;
}

SamplerOptions off() { return {.temperature = 1, .top_k = 0, .top_p = 1, .min_p = 0}; }

SamplerOptions options_of(const Json& row) {
  const Json& given = row["options"];
  SamplerOptions o = off();
  const auto read = [&](const char* name, auto& to) {
    using T = std::remove_reference_t<decltype(to)>;
    if (const Json* const found = given.find(name)) to = static_cast<T>(found->get<double>());
  };
  for (const auto& each : kSamplerReals) read(each.name, o.steps.*each.value);
  for (const auto& each : kSamplerWholes) read(each.name, o.steps.*each.value);
  read("temperature", o.temperature);
  read("top_k", o.top_k);
  read("typical_p", o.typical_p);
  read("top_p", o.top_p);
  read("min_p", o.min_p);
  read("repetition_penalty", o.repetition_penalty);
  read("presence_penalty", o.presence_penalty);
  read("frequency_penalty", o.frequency_penalty);
  read("penalty_window", o.penalty_window);
  o.order.clear();
  for (const Json& name : row["samplers"]) EXPECT_TRUE(add_step(name.text(), "samplers", o.order));
  return o;
}

TEST(SamplerSteps, LeaveWhatThoseOfLlamaCppLeave) {
  const auto bytes = storage::real_file_system().read(source_path("tests/data/models/llama_samplers.json"), 1 << 20);
  ASSERT_TRUE(bytes) << bytes.error().text();
  const Json rows = parse_json(as_text(*bytes), "llama_samplers.json").value();
  int number = 0, compared = 0, cut = 0;
  for (const Json& row : rows) {
    SCOPED_TRACE("row " + std::to_string(number++));
    const auto logits = row["logits"].get<std::vector<float>>();
    Shares left;
    for (const Json& each : row["left"]) left.emplace_back(each[0].get<text::TokenId>(), each[1].get<double>());
    cut += left.size() < logits.size() ? 1 : 0;
    compared += expect_draws(options_of(row), logits, row["ids"].get<Ids>(), left,
                             row["options"]["breakers"].get<std::vector<Ids>>());
  }
  EXPECT_EQ(number, 160);
  EXPECT_GT(compared, 6000);
  EXPECT_GT(cut, 100);
}

/// Mirostat in binary64, as the paper and llama.cpp have it: a text's draws and the cut that they leave.
struct Mirostat {
  explicit Mirostat(const SamplerOptions& options) : o(options), mu(2 * options.steps.mirostat_tau) {}
  /// Nothing where a choice hangs on the last digits.
  std::optional<text::TokenId> next(const std::vector<float>& logits, std::uint64_t position) {
    Shares all;
    double sum = 0;
    for (std::size_t i = 0; i < logits.size(); ++i)
      all.emplace_back(static_cast<text::TokenId>(i), std::exp(static_cast<double>(logits[i]) / o.temperature));
    for (const auto& each : all) sum += each.second;
    for (auto& each : all) each.second /= sum;
    std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
    std::size_t kept = 0;
    if (o.steps.mirostat == 2) {
      for (; kept < all.size() && -std::log2(all[kept].second) <= mu; ++kept)
        if (std::abs(-std::log2(all[kept].second) - mu) < 1e-5) return std::nullopt;
    } else {
      double products = 0, squares = 0;
      for (std::size_t i = 0; i < 99 && i + 1 < all.size(); ++i) {
        const double t = std::log((i + 2.0) / (i + 1.0));
        products += t * std::log(all[i].second / all[i + 1].second);
        squares += t * t;
      }
      const double s = products / squares, e = s - 1, n = static_cast<double>(logits.size());
      const double k = std::pow(e * std::pow(2, mu) / (1 - std::pow(n, -e)), 1 / s);
      if (std::abs(k - std::round(k)) < 1e-4 * k) return std::nullopt;
      kept = static_cast<std::size_t>(std::min(k, n));
    }
    all.resize(std::max<std::size_t>(kept, 1));
    const auto id = token_at(all, uniform(o.seed, position));
    if (!id) return id;
    double total = 0, own = 0;
    for (const auto& each : all) total += each.second, own = each.first == *id ? each.second : own;
    mu -= o.steps.mirostat_eta * (-std::log2(own / total) - o.steps.mirostat_tau);
    return id;
  }
  SamplerOptions o;
  double mu;
};

TEST(SamplerSteps, KeepMirostatsCutThroughAText) {
  std::mt19937 random(5);
  const auto draw = [&](double low, double high) { return std::uniform_real_distribution<double>(low, high)(random); };
  int compared = 0;
  for (int text = 0; text < 60; ++text) {
    SamplerOptions o = off();
    o.steps.mirostat = 1 + text % 2;
    o.steps.mirostat_tau = draw(0.5, 4), o.steps.mirostat_eta = draw(0, 1);
    o.temperature = draw(0.5, 1.5);
    o.top_k = 1, o.repetition_penalty = 2, o.steps.xtc_probability = 1;  // as in llama.cpp they do not count
    o.seed = random();
    Sampler sampler(o);
    Mirostat reference(o);
    for (std::uint64_t i = 0; i < 40; ++i) {
      std::vector<float> logits(20 + random() % 180);
      for (float& each : logits) each = static_cast<float>(draw(-6, 6));
      const auto wanted = reference.next(logits, i);
      if (!wanted) break;
      const Sampler before = sampler;  // a draft model draws by a copy
      ASSERT_EQ(*sampler.pick(logits, i), *wanted) << "text " << text << ", token " << i;
      Sampler copy = before;
      ASSERT_EQ(*copy.pick(logits, i), *wanted);
      ++compared;
    }
  }
  EXPECT_GT(compared, 1500);
}

// Shares 0.4, 0.3, 0.2, 0.08, 0.02.
const std::vector<float> kLogits{std::log(0.4f), std::log(0.3f), std::log(0.2f), std::log(0.08f), std::log(0.02f)};

TEST(SamplerSteps, LeaveTheLikeliestOutAsOftenAsXtcSays) {
  SamplerOptions o = off();
  o.steps.xtc_probability = 0.3, o.steps.xtc_threshold = 0.15;
  int first = 0, left_out = 0;
  for (std::uint64_t i = 0; i < 4000; ++i) {
    const bool is_out = uniform(o.seed, i, 1) <= 0.3;
    const Shares left =
        is_out ? Shares{{2, 0.2}, {3, 0.08}, {4, 0.02}} : Shares{{0, 0.4}, {1, 0.3}, {2, 0.2}, {3, 0.08}, {4, 0.02}};
    const auto wanted = token_at(left, uniform(o.seed, i));
    const text::TokenId id = *Sampler(o).pick(kLogits, i);
    if (wanted) {
      ASSERT_EQ(id, *wanted) << i;
    }
    first += id == 0 ? 1 : 0;
    left_out += is_out ? 1 : 0;
  }
  EXPECT_NEAR(left_out / 4000.0, 0.3, 0.04);
  EXPECT_NEAR(first / 4000.0, 0.7 * 0.4, 0.04);
  o.temperature = 0, o.steps.xtc_probability = 1;
  EXPECT_EQ(*Sampler(o).pick(kLogits, 1), 0u) << "always the likeliest one";
}

TEST(SamplerSteps, PenalizeWhatGoesOnWithARepetition) {
  SamplerOptions o = off();
  o.steps.dry_multiplier = 2, o.steps.dry_base = 3;
  const std::vector<float> logits(10, 0.0f);
  const Ids ids{1, 2, 3, 4, 9, 1, 2, 3};  // 1 2 3 stood before 4
  const auto left = [](double penalty) {
    Shares shares;
    for (text::TokenId id = 0; id < 10; ++id)
      if (id != 4) shares.emplace_back(id, 1);
    shares.emplace_back(4, std::exp(-penalty));
    return shares;
  };
  EXPECT_GT(expect_draws(o, logits, ids, left(2 * 3)), 30) << "base^(3 - 2)";
  o.steps.dry_allowed_length = 3;
  expect_draws(o, logits, ids, left(2));
  o.steps.dry_allowed_length = 4;
  Shares all = left(0);
  std::sort(all.begin(), all.end());
  expect_draws(o, logits, ids, all);
  o.steps.dry_allowed_length = 2;
  // The sequence 9 1 breaks, and so what may repeat has two tokens; then a token that breaks alone goes free.
  expect_draws(o, logits, ids, left(2), {{9, 1}});
  expect_draws(o, logits, ids, left(2 * 3), {{9}});
  expect_draws(o, logits, ids, all, {{2}});
  expect_draws(o, logits, ids, all, {{4}});
  o.steps.dry_penalty_last_n = 6;  // 3 4 9 1 2 3: only one token is repeated
  expect_draws(o, logits, ids, all);
}

TEST(SamplerSteps, FindBreakersInTokensAndAcrossThem) {
  if (shared_data("stories260K").empty()) GTEST_SKIP() << "no ../shared/data";
  const auto model = load_language_model(storage::real_file_system(), shared_data("stories260K/derived"));
  ASSERT_TRUE(model) << model.error().text();
  const text::Tokenizer& tokenizer = *model->tokenizer;
  const std::vector<std::string> texts{"\n", "ther", "."};
  const SequenceBreakers made(tokenizer, texts);
  for (const char* const text :
       {"\n", " other mother", ".", " together. She", " ran", " the rat", " th", " . he ther e", "mother moth er"}) {
    const Ids ids = *tokenizer.encode(std::string("One day") + text);
    // The fewest tokens from the back whose text holds a breaker; those of them after it.
    std::size_t wanted = ids.size();
    for (std::size_t i = 1; i <= ids.size() && wanted == ids.size(); ++i) {
      const auto last = std::span(ids).last(i);
      std::string tail;
      for (const text::TokenId id : last) tail += tokenizer.token_bytes(id);
      for (const std::string& each : texts) {
        const std::size_t at = tail.find(each);
        if (at == tail.npos) continue;
        std::size_t end = 0, tokens = 0;
        while (end < at + each.size()) end += tokenizer.token_bytes(last[tokens++]).size();
        wanted = i - tokens;
      }
    }
    EXPECT_EQ(made.unbroken(ids), wanted) << text;
  }
  for (std::size_t id = 0; id < tokenizer.size(); ++id) {
    const std::string bytes = tokenizer.token_bytes(static_cast<text::TokenId>(id));
    EXPECT_EQ(made.is_single(static_cast<text::TokenId>(id)),
              bytes.find('\n') != bytes.npos || bytes.find("ther") != bytes.npos || bytes.find('.') != bytes.npos)
        << bytes;
  }
}

TEST(SamplerSteps, CountRepeatedRunsAsASlowSearchDoes) {
  std::mt19937 random(3);
  for (int i = 0; i < 500; ++i) {
    Ids ids(random() % 40);
    for (text::TokenId& id : ids) id = random() % 3;
    const std::size_t least = random() % 4, most = random() % 12;
    std::unordered_map<text::TokenId, std::size_t> wanted;
    for (std::size_t end = 1; end < ids.size(); ++end) {  // a run that ends before the token at `end`
      std::size_t length = 0;
      while (length < end && ids[end - 1 - length] == ids[ids.size() - 1 - length]) ++length;
      length = std::min(length, most);
      if (length >= least) wanted[ids[end]] = std::max(wanted[ids[end]], length);
    }
    EXPECT_EQ(repeated_runs(ids, least, most), wanted) << i;
  }
}

TEST(SamplerSteps, AreTakenInTheOrderGiven) {
  SamplerOptions o = off();
  o.temperature = 2, o.top_p = 0.65;
  o.order = parse_order("top_p;temperature", "samplers").value();
  expect_draws(o, kLogits, {}, {{0, std::sqrt(0.4)}, {1, std::sqrt(0.3)}});
  o.order = parse_order("temperature;top_p", "samplers").value();
  // Of the roots' sum, 2.05, two are 0.58 and three 0.80.
  expect_draws(o, kLogits, {}, {{0, std::sqrt(0.4)}, {1, std::sqrt(0.3)}, {2, std::sqrt(0.2)}});
  o.order = parse_order("top_p", "samplers").value();
  expect_draws(o, kLogits, {}, {{0, 0.4}, {1, 0.3}});
  o.order = parse_order("", "samplers").value();
  expect_draws(o, kLogits, {}, {{0, 0.4}, {1, 0.3}, {2, 0.2}, {3, 0.08}, {4, 0.02}});
  EXPECT_EQ(parse_order(sampler_names(), "samplers").value(), SamplerOptions::llama_order());
  EXPECT_EQ(parse_order_letters("edskypmxt", "samplers").value(), SamplerOptions::llama_order());
}

TEST(SamplerSteps, AskAMaskBeforeAnyOfThem) {
  const auto even = [](text::TokenId id) { return id % 2 == 0; };
  for (const char* const order : {"top_n_sigma;top_k;top_p;temperature", "xtc;top_k", "typ_p;min_p", ""}) {
    SamplerOptions o = off();
    o.order = parse_order(order, "samplers").value();
    o.top_k = 2, o.steps.top_n_sigma = 3, o.steps.xtc_probability = 1, o.steps.xtc_threshold = 0.5, o.typical_p = 0.99,
    o.min_p = 0.01;
    for (std::uint64_t i = 0; i < 200; ++i) {
      o.seed = i;
      EXPECT_EQ(*Sampler(o).pick(kLogits, TokenHistory{}, even) % 2, 0u) << order;
    }
    const auto none = Sampler(o).pick(kLogits, TokenHistory{}, [](text::TokenId) { return false; });
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().code(), Errc::not_found);
  }
}

TEST(SamplerSteps, RefuseWhatIsOutOfRangeByName) {
  const auto refused = [](auto change) {
    SamplerOptions o;
    change(o);
    const Status checked = check_sampler(o);
    return checked ? std::string("taken") : checked.error().text();
  };
  EXPECT_EQ(refused([](SamplerOptions&) {}), "taken");
  for (const auto& each : kSamplerReals)
    for (const double value : {-2.0, 1e300, std::numeric_limits<double>::quiet_NaN()})
      EXPECT_TRUE(refused([&](SamplerOptions& o) { o.steps.*each.value = value; }).starts_with(each.name)) << each.name;
  for (const auto& each : kSamplerWholes)
    for (const std::int64_t value : {std::int64_t{-2}, std::numeric_limits<std::int64_t>::max()})
      EXPECT_TRUE(refused([&](SamplerOptions& o) { o.steps.*each.value = value; }).starts_with(each.name)) << each.name;
  EXPECT_EQ(refused([](SamplerOptions& o) { o.steps.mirostat = 3; }), "mirostat 3 is not between 0 and 2");
  EXPECT_EQ(refused([](SamplerOptions& o) { o.steps.dry_breakers.assign(10000, "x"); }),
            "dry_sequence_breakers: 10000 texts are more than 128");
  EXPECT_NE(refused([](SamplerOptions& o) {
              o.steps.dry_breakers = {"a", ""};
            }).find("dry_sequence_breakers[1]: an empty"),
            std::string::npos);
  EXPECT_NE(refused([](SamplerOptions& o) { o.steps.dry_breakers = {std::string(41, 'x')}; }).find("41 bytes"),
            std::string::npos);
  EXPECT_EQ(parse_order("top_k;nucleus", "--samplers").error().text(),
            "--samplers: \"nucleus\" is none of penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature");
  EXPECT_EQ(parse_order("top_k;top_p;top_k", "x").error().code(), Errc::duplicate_name);
  EXPECT_EQ(parse_order("top_k;", "x").error().code(), Errc::unknown_name);
  EXPECT_EQ(parse_order_letters("kz", "x").error().code(), Errc::unknown_name);
}

TEST(SamplerSteps, EndWithATokenOrAnErrorWhateverTheyAreGiven) {
  std::mt19937 random(9);
  const auto one_of = [&](std::initializer_list<double> values) {
    return *(values.begin() + random() % values.size());
  };
  for (int i = 0; i < 3000; ++i) {
    SamplerOptions o;
    for (const auto& each : kSamplerReals)
      o.steps.*each.value = one_of({each.least, each.most, 0, 0.5, 1e-300, 1e-30, 2});
    for (const auto& each : kSamplerWholes)
      o.steps.*each.value =
          static_cast<std::int64_t>(one_of({static_cast<double>(each.least), static_cast<double>(each.most), 0, 1, 2}));
    o.temperature = one_of({0, 1e-300, 1e-38, 1, 100});
    o.repetition_penalty = one_of({0.01, 1, 100}), o.presence_penalty = one_of({-100, 0, 100});
    o.typical_p = one_of({0, 0.5, 1}), o.top_p = one_of({0, 0.5, 1}), o.min_p = one_of({0, 0.5, 1});
    o.top_k = random() % 4;
    o.steps.dry_breakers.clear();
    if (!check_sampler(o)) continue;
    std::shuffle(o.order.begin(), o.order.end(), random);
    std::vector<float> logits(1 + random() % 30);
    for (float& each : logits) each = static_cast<float>(one_of({-3e38, 3e38, 0, 1e-45, -1e-45, 1, 1, 80, -80}));
    Ids ids(random() % 30);
    for (text::TokenId& id : ids) id = static_cast<text::TokenId>(random() % 3);
    Sampler sampler(o);
    for (int k = 0; k < 3; ++k) {
      const auto id = sampler.pick(logits, {ids, 0});
      if (id) {
        EXPECT_LT(*id, logits.size());
      } else {
        EXPECT_TRUE(id.error().code() == Errc::not_finite || id.error().code() == Errc::not_found) << id.error().text();
      }
    }
  }
}

}  // namespace
}  // namespace weft::models::sampler_steps_test
