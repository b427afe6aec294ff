// SPDX-License-Identifier: Apache-2.0

#include "models/decoding_batch.hpp"

#include "models/decoding.hpp"
#include "models/language_model.hpp"

#include "mesh/network/network_json.hpp"

#include "kernels/isa.hpp"

#include "tests/models/imported.hpp"
#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <random>
#include <tuple>

namespace weft::models::decoding_batch_test {
namespace {

using Bits = std::vector<std::uint32_t>;

const char* const kFamilies[] = {"llama", "llama-yarn", "qwen2", "qwen3", "gemma", "gemma2", "phi3", "gpt2", "bitnet"};

/// Calls body(mesh, vocabulary, family) with the small model of each family. @pre they are there
template <class Body>
void for_each_family(const Body& body) {
  for (const char* family : kFamilies) {
    const std::string folder = shared_data("language/families/" + std::string(family));
    const auto mesh = imported_mesh(folder, {.tokens = 12});
    ASSERT_TRUE(mesh) << mesh.error().text();
    body(*mesh, read_golden(folder + "/golden.json").logits[0].size(), std::string(family));
  }
}

Bits bits_of(std::span<const float> logits) {
  Bits bits;
  for (const float logit : logits) bits.push_back(std::bit_cast<std::uint32_t>(logit));
  return bits;
}

text::TokenId largest(std::span<const float> logits) {
  return static_cast<text::TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

/// A prompt and what follows it: the ids with the largest logits, and the bits of all logits.
struct Text {
  std::vector<text::TokenId> ids;
  std::vector<Bits> logits{};

  void take(std::span<const float> now) {
    logits.push_back(bits_of(now));
    ids.push_back(largest(now));
  }
};

/// Another prompt for each number, of 1 to 6 tokens, or of 37: a block of 32 and five one by one.
Text prompt_of(std::size_t number, std::size_t vocabulary, std::size_t context) {
  const std::size_t length = number % 4 == 3 && context > 48 ? 37 : 1 + number * 5 % 6;
  Text text;
  for (std::size_t i = 0; i < length; ++i)
    text.ids.push_back(static_cast<text::TokenId>((3 + number * 17 + i * i * 7) % vocabulary));
  return text;
}

Text alone(const mesh::Mesh& mesh, Text text, std::size_t steps, std::size_t context) {
  auto decoding = Decoding::begin(mesh, context);
  EXPECT_TRUE(decoding) << decoding.error().text();
  auto logits = decoding->accept(text.ids);
  for (std::size_t i = 0; logits; ++i) {
    text.take(*logits);
    if (i == steps) break;
    logits = decoding->accept(std::span(&text.ids.back(), 1));
  }
  EXPECT_TRUE(logits) << logits.error().text();
  return text;
}

/// A text that a sequence of a batch writes now.
struct Writing {
  std::size_t number = 0, left = 0;
  Text text;
};

/// Writes `texts` texts in a batch of `slots` sequences: each joins where one is free, pauses in some rounds, so that
/// the rows of a step change, and leaves when it has its own number of steps; the next one joins in its place.
class Rounds {
 public:
  Rounds(DecodingBatch batch, std::size_t slots, std::size_t vocabulary)
      : batch_(std::move(batch)), slots_(slots), vocabulary_(vocabulary) {}

  static std::size_t steps_of(std::size_t number) { return 3 + number % 3; }

  std::vector<Text> write(std::size_t texts) {
    std::vector<Text> done(texts);
    std::size_t next = 0, left = texts;
    for (std::size_t round = 0; left > 0 && round < 200; ++round) {
      // One joins a round, in the middle of what others write.
      const auto open = std::find_if(slots_.begin(), slots_.end(), [](const auto& slot) { return !slot; });
      if (open != slots_.end() && next < texts) join(static_cast<std::size_t>(open - slots_.begin()), next++);
      step(round);
      for (std::optional<Writing>& slot : slots_)
        if (slot && slot->left == 0) {
          done[slot->number] = std::move(slot->text);
          slot.reset();
          --left;
        }
    }
    EXPECT_EQ(left, 0u);
    return done;
  }
  std::size_t widest() const { return widest_; }

 private:
  void join(std::size_t slot, std::size_t number) {
    slots_[slot] = Writing{number, steps_of(number), prompt_of(number, vocabulary_, batch_.context())};
    Writing& writing = *slots_[slot];
    batch_.restart(slot);
    const auto logits = batch_.accept(slot, writing.text.ids);
    ASSERT_TRUE(logits) << logits.error().text();
    writing.text.take(*logits);
  }

  void step(std::size_t round) {
    std::vector<DecodingBatch::Step> steps;
    for (std::size_t slot = 0; slot < slots_.size(); ++slot)
      if (slots_[slot] && (round + slot) % 5 != 0)
        steps.push_back({.sequence = slot, .id = slots_[slot]->text.ids.back()});
    const Status ran = batch_.step(steps);
    ASSERT_TRUE(ran) << ran.error().text();
    widest_ = std::max(widest_, steps.size());
    for (const DecodingBatch::Step& each : steps) {
      ASSERT_TRUE(each.outcome) << each.outcome.error().text();
      slots_[each.sequence]->text.take(each.logits);
      --slots_[each.sequence]->left;
    }
  }

  DecodingBatch batch_;
  std::vector<std::optional<Writing>> slots_;
  std::size_t vocabulary_, widest_ = 0;
};

void expect_same_bits(const mesh::Mesh& mesh, std::size_t vocabulary, std::size_t context, const std::string& name) {
  const std::size_t texts = 11;
  auto batch = DecodingBatch::begin(mesh, 4, context);
  ASSERT_TRUE(batch) << batch.error().text();
  Rounds rounds(std::move(*batch), 4, vocabulary);
  const std::vector<Text> together = rounds.write(texts);
  EXPECT_GE(rounds.widest(), 3u) << name;
  for (std::size_t number = 0; number < texts; ++number) {
    const Text one = alone(mesh, prompt_of(number, vocabulary, context), Rounds::steps_of(number), context);
    EXPECT_EQ(together[number].ids, one.ids) << name << ", text " << number;
    ASSERT_EQ(together[number].logits.size(), one.logits.size()) << name << ", text " << number;
    for (std::size_t i = 0; i < one.logits.size(); ++i)
      EXPECT_TRUE(together[number].logits[i] == one.logits[i]) << name << ", text " << number << ", logits " << i;
  }
}

TEST(DecodingBatch, GivesEachSequenceTheBitsThatItHasAlone) {
  if (shared_data("language/families").empty()) GTEST_SKIP() << "no ../shared/data";
  for_each_family([](const mesh::Mesh& mesh, std::size_t vocabulary, const std::string& family) {
    expect_same_bits(mesh, vocabulary, 12, family);
  });
}

TEST(DecodingBatch, GivesTheseBitsWithPromptsOfBlocksToo) {
  if (shared_data("stories260K").empty()) GTEST_SKIP() << "no ../shared/data";
  const auto mesh = imported_mesh(shared_data("stories260K/derived"), {.tokens = 8});
  ASSERT_TRUE(mesh) << mesh.error().text();
  expect_same_bits(*mesh, 512, 64, "stories260K");
}

// Every operation that can be is cut up among the threads of the mesh's executor.
TEST(DecodingBatch, GivesTheseBitsOnAnyNumberOfThreads) {
  if (shared_data("stories260K").empty()) GTEST_SKIP() << "no ../shared/data";
  const kernels::Isa before = kernels::active_isa();
  std::vector<Text> wanted;
  for (const kernels::Isa isa : kernels::available_isas())
    for (const std::size_t threads : {1u, 2u, 7u}) {
      ASSERT_TRUE(kernels::set_active_isa(isa));
      mesh::MeshOptions options{.threads = threads, .grain_bytes = 0, .wide = threads > 1, .wide_from = 0};
      const auto model =
          load_language_model(storage::real_file_system(), shared_data("stories260K/derived"), {}, options);
      ASSERT_TRUE(model) << model.error().text();
      auto batch = DecodingBatch::begin(*model->mesh, 4, 64);
      ASSERT_TRUE(batch) << batch.error().text();
      const std::vector<Text> now = Rounds(std::move(*batch), 4, 512).write(5);
      if (wanted.empty()) wanted = now;
      for (std::size_t number = 0; number < now.size(); ++number)
        EXPECT_TRUE(now[number].logits == wanted[number].logits)
            << "text " << number << ", " << threads << " threads, " << kernels::name(isa);
    }
  ASSERT_TRUE(kernels::set_active_isa(before));
}

/// Tokens of another sequence for each number.
std::vector<text::TokenId> ids_of(std::size_t number, std::size_t count, std::size_t vocabulary) {
  std::vector<text::TokenId> ids;
  for (std::size_t i = 0; i < count; ++i)
    ids.push_back(static_cast<text::TokenId>((7 + number * 31 + i * 13 + i * i * number) % vocabulary));
  return ids;
}

/// Takes tokens one by one; the logits after each.
std::vector<Bits> one_by_one(DecodingBatch& batch, std::size_t sequence, std::span<const text::TokenId> ids) {
  std::vector<Bits> all;
  for (const text::TokenId id : ids) {
    const auto logits = batch.accept(sequence, {&id, 1});
    EXPECT_TRUE(logits) << logits.error().text();
    all.push_back(logits ? bits_of(*logits) : Bits());
  }
  return all;
}

/// Rolls sequence 0 of a batch back to many lengths, and compares it with one that never took the other tokens.
void expect_roll_back(const mesh::Mesh& mesh, std::size_t vocabulary, const std::string& name) {
  constexpr std::size_t kContext = 60;
  auto batch = DecodingBatch::begin(mesh, 2, kContext), plain = DecodingBatch::begin(mesh, 1, kContext);
  ASSERT_TRUE(batch && plain) << name;
  const auto beside = ids_of(9, 30, vocabulary);
  ASSERT_TRUE(batch->accept(1, beside));
  const Hash128 other = batch->state_hash(1);
  const auto good = ids_of(1, kContext, vocabulary), bad = ids_of(2, kContext, vocabulary);
  // Tokens that are taken in vain, the length to go back to, and the one to go on to.
  for (const auto& [wrong, length, right] : {std::tuple<std::size_t, std::size_t, std::size_t>{20, 0, 17},
                                             {5, 17, 22},
                                             {31, 20, 25},
                                             {32, 3, 19},
                                             {3, 19, 60}}) {
    ASSERT_TRUE(batch->accept(0, std::span(bad).first(1)));
    std::vector<DecodingBatch::Step> step{{0, bad[5]}};
    ASSERT_TRUE(batch->step(step)) << name;
    ASSERT_TRUE(batch->accept_each(0, std::span(bad).first(wrong))) << name;
    const Status back = batch->roll_back(0, length);
    ASSERT_TRUE(back) << name << ": " << back.error().text();
    EXPECT_EQ(batch->position(0), length);
    plain->restart(0);
    if (length > 0) {
      ASSERT_TRUE(plain->accept(0, std::span(good).first(length)));
    }
    EXPECT_EQ(to_string(batch->state_hash(0)), to_string(plain->state_hash(0))) << name << ", back to " << length;
    const auto rest = std::span(good).subspan(length, right - length);
    EXPECT_TRUE(one_by_one(*batch, 0, rest) == one_by_one(*plain, 0, rest)) << name << ", back to " << length;
    EXPECT_EQ(to_string(batch->state_hash(0)), to_string(plain->state_hash(0))) << name << ", on to " << right;
  }
  EXPECT_EQ(to_string(batch->state_hash(1)), to_string(other)) << name;
  EXPECT_EQ(batch->roll_back(0, kContext + 1).error().code(), Errc::out_of_range);
  EXPECT_EQ(batch->roll_back(2, 0).error().code(), Errc::out_of_range);
}

TEST(DecodingBatch, RollsBackToTheBitsOfTokensThatWereNeverTaken) {
  if (shared_data("language/families").empty()) GTEST_SKIP() << "no ../shared/data";
  for_each_family(expect_roll_back);
}

TEST(DecodingBatch, GivesTheLogitsAfterEachTokenOfAPass) {
  if (shared_data("language/families").empty()) GTEST_SKIP() << "no ../shared/data";
  for_each_family([](const mesh::Mesh& mesh, std::size_t vocabulary, const std::string& family) {
    auto batch = DecodingBatch::begin(mesh, 2, 60), plain = DecodingBatch::begin(mesh, 1, 60);
    ASSERT_TRUE(batch && plain);
    const auto ids = ids_of(4, 59, vocabulary);
    const std::vector<Bits> wanted = one_by_one(*plain, 0, ids);
    std::size_t taken = 0;
    for (const std::size_t tokens : {1u, 2u, 3u, 8u, 5u, 32u, 8u}) {
      const auto logits = batch->accept_each(1, std::span(ids).subspan(taken, tokens));
      ASSERT_TRUE(logits) << logits.error().text();
      ASSERT_EQ(logits->size(), tokens * vocabulary);
      for (std::size_t i = 0; i < tokens; ++i)
        EXPECT_TRUE(bits_of(logits->subspan(i * vocabulary, vocabulary)) == wanted[taken + i])
            << family << ", token " << taken + i;
      taken += tokens;
    }
    EXPECT_EQ(batch->accept_each(1, std::span(ids).first(2)).error().code(), Errc::full);
    EXPECT_EQ(batch->accept_each(0, std::span(ids).first(33)).error().code(), Errc::invalid_argument);
  });
}

/// Four sequences take tokens in passes of runs of any lengths, with sequences left out and rolled back between them.
void expect_runs(const mesh::Mesh& mesh, std::size_t vocabulary, const std::string& name) {
  constexpr std::size_t kContext = 60, kSequences = 4;
  auto batch = DecodingBatch::begin(mesh, kSequences, kContext), plain = DecodingBatch::begin(mesh, 1, kContext);
  ASSERT_TRUE(batch && plain) << name;
  std::vector<std::vector<text::TokenId>> ids;
  std::vector<std::vector<Bits>> wanted;
  std::vector<std::string> states;
  for (std::size_t i = 0; i < kSequences; ++i) {
    ids.push_back(ids_of(i + 3, kContext, vocabulary));
    plain->restart(0);
    wanted.push_back(one_by_one(*plain, 0, ids[i]));
    states.push_back(to_string(plain->state_hash(0)));
  }
  const auto compare = [&](std::size_t sequence, std::size_t token, std::span<const float> logits) {
    EXPECT_TRUE(bits_of(logits) == wanted[sequence][token]) << name << ", sequence " << sequence << ", token " << token;
  };
  std::mt19937 random(7);
  std::size_t left = kSequences * kContext, most = 0;
  while (left > 0) {
    std::vector<DecodingBatch::Run> runs;
    std::vector<DecodingBatch::Step> steps;
    const bool is_step = random() % 4 == 0;
    for (std::size_t i = 0; i < kSequences; ++i) {
      const std::size_t at = batch->position(i), count = std::min<std::size_t>(random() % 9, kContext - at);
      if (count == 0) continue;
      if (is_step)
        steps.push_back({i, ids[i][at]});
      else
        runs.push_back({i, std::span(ids[i]).subspan(at, count), {}});
    }
    most = std::max(most, runs.size());
    ASSERT_TRUE(batch->accept_together(runs)) << name;
    ASSERT_TRUE(batch->step(steps)) << name;
    for (const auto& each : runs)
      for (std::size_t t = 0; t < each.ids.size(); ++t)
        compare(each.sequence, batch->position(each.sequence) - each.ids.size() + t, each.logits[t]);
    for (const auto& each : steps) compare(each.sequence, batch->position(each.sequence) - 1, each.logits);
    left = 0;
    for (std::size_t i = 0; i < kSequences; ++i) {
      const std::size_t at = batch->position(i);
      if (at < kContext && random() % 3 == 0) ASSERT_TRUE(batch->roll_back(i, at - std::min<std::size_t>(at, 2)));
      left += kContext - batch->position(i);
    }
  }
  EXPECT_EQ(most, kSequences);
  for (std::size_t i = 0; i < kSequences; ++i) EXPECT_EQ(to_string(batch->state_hash(i)), states[i]) << name;
}

TEST(DecodingBatch, TakesRunsOfSeveralSequencesInOnePass) {
  if (shared_data("language/families").empty()) GTEST_SKIP() << "no ../shared/data";
  for_each_family(expect_runs);
}

TEST(DecodingBatch, TakesRunsOnAnyNumberOfThreads) {
  if (shared_data("stories260K").empty()) GTEST_SKIP() << "no ../shared/data";
  for (const std::size_t threads : {2u, 7u}) {
    mesh::MeshOptions options{.threads = threads, .grain_bytes = 0, .wide = true, .wide_from = 0};
    const auto model =
        load_language_model(storage::real_file_system(), shared_data("stories260K/derived"), {}, options);
    ASSERT_TRUE(model) << model.error().text();
    expect_runs(*model->mesh, 512, std::to_string(threads) + " threads");
  }
}

TEST(DecodingBatch, CopiesWhatTokensLeftToAnotherSequence) {
  if (shared_data("language/families").empty()) GTEST_SKIP() << "no ../shared/data";
  for_each_family([](const mesh::Mesh& mesh, std::size_t vocabulary, const std::string& family) {
    auto batch = DecodingBatch::begin(mesh, 2, 60);
    ASSERT_TRUE(batch);
    const auto ids = ids_of(5, 60, vocabulary);
    ASSERT_TRUE(batch->accept(0, std::span(ids).first(50)));
    ASSERT_TRUE(batch->accept(1, ids_of(6, 41, vocabulary)));
    ASSERT_TRUE(batch->roll_back(1, 0));
    for (const auto& [first, tokens] : {std::pair<std::size_t, std::size_t>{0, 32}, {32, 16}}) {
      std::vector<float> part(batch->part_size(tokens));
      batch->save_part(0, first, tokens, part.data());
      batch->load_part(part.data(), 1, std::span(ids).subspan(first, tokens), first);
      EXPECT_EQ(batch->position(1), first + tokens);
    }
    ASSERT_TRUE(batch->roll_back(0, 48));
    EXPECT_EQ(to_string(batch->state_hash(1)), to_string(batch->state_hash(0))) << family;
    const auto rest = std::span(ids).subspan(48);
    EXPECT_TRUE(one_by_one(*batch, 1, rest) == one_by_one(*batch, 0, rest)) << family;
  });
}

/// Computes its input as it is, and counts the rows.
class CountedExpert final : public mesh::Layer {
 public:
  explicit CountedExpert(const Shape& shape) : Layer(shape, shape) {}
  void forward(kernels::OpStream& stream, const mesh::ForwardArgs& args) const override {
    rows += args.x.rows;
    stream.copy({args.x, args.y});
  }
  void backward(kernels::OpStream&, const mesh::BackwardArgs&) const override {}
  static inline std::size_t rows = 0;
};

// Of four experts, two that add nothing but their rows to a count, those that a row chose are computed in a pass of
// several sequences too.
TEST(DecodingBatch, ComputesChosenExpertsAloneInAPassOfSequences) {
  const Status registered = mesh::register_layer(
      "counted_expert", [](const Shape& in, std::size_t, mesh::OptionReader&) -> Result<std::unique_ptr<mesh::Layer>> {
        return std::unique_ptr<mesh::Layer>(new CountedExpert(in));
      });
  ASSERT_TRUE(registered) << registered.error().text();
  const auto spec = mesh::read_network(R"({"weft": 2, "name": "mixture", "seed": 3,
    "grid": {"z": 1, "y": 1, "x": 4, "layers": 1}, "inputs": {"tokens": [1]}, "layers": [
      {"at": [0,0,0,0], "type": "embedding", "out": 8, "vocabulary": 20, "from": ["tokens"]},
      {"at": [0,0,1,0], "type": "attention", "heads": 2, "context": 40},
      {"at": [0,0,2,0], "type": "parallel", "merge": "filter", "top_k": 2, "layers": [{"type": "counted_expert"},
        {"type": "counted_expert"}, {"type": "counted_expert"}, {"type": "counted_expert"}]},
      {"at": [0,0,3,0], "type": "dense", "out": 20}], "outputs": {"logits": [0,0,3,0]}})",
                                       "test");
  ASSERT_TRUE(spec) << spec.error().text();
  const auto mesh = mesh::Mesh::build(*spec);
  ASSERT_TRUE(mesh) << mesh.error().text();
  auto batch = DecodingBatch::begin(*mesh, 2, 40), plain = DecodingBatch::begin(*mesh, 2, 40);
  ASSERT_TRUE(batch && plain) << batch.error().text();
  const auto first = ids_of(1, 7, 20), second = ids_of(2, 5, 20);
  ASSERT_TRUE(batch->prepare_together());
  CountedExpert::rows = 0;
  std::vector<DecodingBatch::Run> runs{{0, first, {}}, {1, second, {}}};
  const Status ran = batch->accept_together(runs);
  ASSERT_TRUE(ran) << ran.error().text();
  EXPECT_EQ(CountedExpert::rows, 2 * (first.size() + second.size()));
  for (const DecodingBatch::Run& run : runs) {
    const std::vector<Bits> wanted = one_by_one(*plain, run.sequence, run.ids);
    ASSERT_EQ(run.logits.size(), wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_TRUE(bits_of(run.logits[i]) == wanted[i]) << i;
  }
}

TEST(DecodingBatch, SaysThatARecurrentLayerCannotBeRolledBack) {
  const auto spec = mesh::read_network(R"({"weft": 2, "name": "recurrent", "seed": 3,
    "grid": {"z": 1, "y": 1, "x": 3, "layers": 1}, "inputs": {"tokens": [1]}, "layers": [
      {"at": [0,0,0,0], "type": "embedding", "out": 8, "vocabulary": 20, "from": ["tokens"]},
      {"at": [0,0,1,0], "type": "gru", "out": 8, "stateful": true},
      {"at": [0,0,2,0], "type": "dense", "out": 20}], "outputs": {"logits": [0,0,2,0]}})",
                                       "test");
  ASSERT_TRUE(spec) << spec.error().text();
  const auto mesh = mesh::Mesh::build(*spec);
  ASSERT_TRUE(mesh) << mesh.error().text();
  auto batch = DecodingBatch::begin(*mesh, 2, 40);
  ASSERT_TRUE(batch) << batch.error().text();
  const auto ids = ids_of(3, 12, 20);
  const std::vector<Bits> wanted = one_by_one(*batch, 0, ids);
  const Status back = batch->roll_back(0, 5);
  ASSERT_FALSE(back);
  EXPECT_EQ(back.error().code(), Errc::unsupported);
  EXPECT_NE(back.error().text().find("'gru'"), std::string::npos) << back.error().text();
  EXPECT_EQ(batch->position(0), 12u);
  // It begins anew and writes what it wrote.
  const Hash128 hash = batch->state_hash(0);
  batch->restart(0);
  EXPECT_TRUE(one_by_one(*batch, 0, ids) == wanted);
  EXPECT_EQ(to_string(batch->state_hash(0)), to_string(hash));
}

TEST(DecodingBatch, RefusesWhatDoesNotFitAndGoesOn) {
  if (shared_data("stories260K").empty()) GTEST_SKIP() << "no ../shared/data";
  const auto mesh = imported_mesh(shared_data("stories260K/derived"), {.tokens = 8});
  ASSERT_TRUE(mesh) << mesh.error().text();
  EXPECT_EQ(DecodingBatch::begin(*mesh, 0, 4).error().code(), Errc::invalid_argument);
  EXPECT_EQ(DecodingBatch::begin(*mesh, 2, 0).error().code(), Errc::invalid_argument);
  EXPECT_EQ(DecodingBatch::begin(*mesh, 64, 512, 1 << 20).error().code(), Errc::too_large);
  auto batch = DecodingBatch::begin(*mesh, 2, 4);
  ASSERT_TRUE(batch) << batch.error().text();
  const std::vector<text::TokenId> four{1, 2, 3, 4};
  ASSERT_TRUE(batch->accept(1, four));
  EXPECT_NE(batch->accept(2, four).error().text().find("sequence 2, the batch has 2"), std::string::npos);
  const auto refused = [&](std::vector<DecodingBatch::Step> steps) { return batch->step(steps).error().code(); };
  EXPECT_EQ(refused({{0, 1}, {1, 1}}), Errc::full);
  EXPECT_EQ(refused({{0, 1}, {2, 1}}), Errc::out_of_range);
  EXPECT_EQ(refused({{0, 512}}), Errc::out_of_range);
  EXPECT_EQ(refused({{0, 1}, {0, 2}}), Errc::invalid_argument);
  const auto refused_runs = [&](std::vector<DecodingBatch::Run> runs) {
    return batch->accept_together(runs).error().code();
  };
  EXPECT_EQ(refused_runs({{0, four, {}}, {1, four, {}}}), Errc::full);
  EXPECT_EQ(refused_runs({{0, std::span(four).first(2), {}}, {0, std::span(four).first(2), {}}}),
            Errc::invalid_argument);
  EXPECT_EQ(refused_runs({{0, {}, {}}}), Errc::invalid_argument);
  EXPECT_EQ(refused_runs({{2, four, {}}}), Errc::out_of_range);
  EXPECT_EQ(batch->position(0), 0u);
  EXPECT_EQ(batch->position(1), 4u);
  std::vector<DecodingBatch::Step> none;
  EXPECT_TRUE(batch->step(none));
  batch->restart(1);
  EXPECT_EQ(batch->position(1), 0u);
  const Text one = alone(*mesh, {.ids = {1, 2, 3, 4}}, 0, 4);
  EXPECT_EQ(bits_of(*batch->accept(1, four)), one.logits[0]);
}

}  // namespace
}  // namespace weft::models::decoding_batch_test
