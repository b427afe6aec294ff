// SPDX-License-Identifier: Apache-2.0
// Random requests in random company: each has the text, the scores and the last state that it has alone, one token at a
// time, whatever is shared, guessed, suspended, paused or ended beside it, on any threads and instruction set.

#include "models/sequence_breakers.hpp"
#include "models/text_engine.hpp"
#include "models/token_constraint.hpp"

#include "mesh/mesh_access.hpp"
#include "mesh/network/network_json.hpp"

#include "text/token_stream.hpp"

#include "gpu/fault_injection.hpp"

#include "kernels/isa.hpp"

#include "tests/mesh/on_device.hpp"
#include "tests/models/imported.hpp"
#include "tests/support/temporary_directory.hpp"
#include "tests/thorough.hpp"
#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <utility>

namespace weft::models::text_equality_test {
namespace {

constexpr std::size_t kContext = 320;
constexpr std::uint32_t kRequests = 200;

/// Results of a request.
struct Outcome {
  std::string text, end;
  std::vector<text::TokenId> ids;
  std::vector<std::uint32_t> scores;  // bits
  std::optional<Hash128> state;
  TextTimes times;

  void take(const TextChunk& part) {
    constexpr const char* kEnds[] = {"none", "end", "stop", "length", "failed", "dropped"};
    text += part.text;
    end = kEnds[static_cast<int>(part.end)];
    ids.insert(ids.end(), part.ids.begin(), part.ids.end());
    for (const TokenScore& each : part.scores) {
      scores.push_back(std::bit_cast<std::uint32_t>(each.logprob.value_or(9.0f)));
      for (const auto& likely : each.likeliest) scores.push_back(likely.id);
    }
    if (part.state) state = part.state;
    times = part.times;
    EXPECT_TRUE(part.outcome) << part.outcome.error().text();
  }
};

/// Another request for each number. Prompts share beginnings of up to 200 tokens, some repeat themselves.
class Requests {
 public:
  explicit Requests(const LanguageModel& model) {
    const auto encode = [&](const std::string& text) { return *model.tokenizer->encode(text); };
    std::string shared = "Once upon a time there was a little girl who liked to play with her red ball";
    for (int i = 0; i < 4; ++i) {
      beginnings_.push_back(encode(shared));
      shared += " and one day she went to the park and saw a big dog that was very sad so she said do not cry";
    }
    for (const char* end :
         {" The end", " Tom and Lily went home", " a b a b a b a b a b", " She was happy. She was", ""})
      endings_.push_back(model.tokenizer->encode(end, {.add_special = false}).value());
    grammar_ = *text::Grammar::parse("root ::= (\" \" [a-z]+){2,9} \".\"");
  }

  TextRequest operator()(std::uint32_t number) const {
    std::mt19937 random(number * 7919 + 1);
    const auto one_of = [&](std::uint32_t n) { return random() % n == 0; };
    TextRequest request;
    request.prompt = beginnings_[random() % beginnings_.size()];
    if (one_of(6)) request.prompt.resize(1 + random() % 5);
    const auto& ending = endings_[random() % endings_.size()];
    request.prompt.insert(request.prompt.end(), ending.begin(), ending.end());
    if (one_of(12)) request.prompt.resize(64, 300);  // a block exactly
    SamplerOptions& draw = request.sampler;
    draw.temperature = one_of(2) ? 0 : 0.9;
    draw.top_k = one_of(2) ? 0 : 40;
    draw.seed = random();
    if (one_of(4)) draw.repetition_penalty = 1.2, draw.frequency_penalty = 0.3;
    if (one_of(8)) draw.no_repeat_ngram = 3;
    if (one_of(4)) set_steps(random, draw);
    if (one_of(8)) draw.logit_bias = {{300, 2.0f}, {301, -std::numeric_limits<float>::infinity()}};
    request.most_tokens = one_of(16) ? 0 : 1 + random() % 48;
    if (one_of(4)) request.stops = {".", " the"};
    if (one_of(8)) request.grammar = grammar_;
    request.ignores_ends = one_of(2);
    request.scores = one_of(4);
    request.scores_prompt = one_of(10);
    request.likeliest = request.scores || request.scores_prompt ? random() % 3 : 0;
    request.reuses = !one_of(10);
    request.tenant = one_of(3) ? "another" : "";
    request.priority = static_cast<int>(random() % 3);
    request.wants_state = true;
    return request;
  }

 private:
  /// Steps of llama.cpp's in another order, or mirostat, whose cut is state of the text.
  static void set_steps(std::mt19937& random, SamplerOptions& draw) {
    draw.temperature = 0.9;
    SamplerStepOptions& steps = draw.steps;
    if (random() % 2 == 0) {
      steps.mirostat = 1 + random() % 2;
      steps.mirostat_tau = 1 + random() % 3;
      steps.mirostat_eta = 0.5;
      return;
    }
    steps.dry_multiplier = 0.8;
    steps.xtc_probability = 0.5;
    steps.top_n_sigma = 2;
    steps.dynatemp_range = 0.4;
    std::reverse(draw.order.begin(), draw.order.begin() + random() % 9);
  }
  std::vector<std::vector<text::TokenId>> beginnings_, endings_;
  text::Grammar grammar_ = *text::Grammar::parse("root ::= \"a\"");
};

/// A request alone and token by token, without an engine; scores are left out.
Outcome one_by_one(const LanguageModel& model, Decoding& decoding, const TextRequest& request) {
  Outcome out;
  decoding.restart();
  Sampler sampler(request.sampler,
                  std::make_shared<SequenceBreakers>(*model.tokenizer, request.sampler.steps.dry_breakers));
  text::TokenStream stream(*model.tokenizer, request.prompt, request.stops);
  TokenBytes bytes(*model.tokenizer);
  TokenConstraint constraint(request.grammar, bytes);
  const auto ends = [&](text::TokenId id) {
    return std::find(model.ends.begin(), model.ends.end(), id) != model.ends.end();
  };
  const Sampler::Mask mask = constraint.mask(ends);
  std::vector<text::TokenId> all = request.prompt;
  std::span<const float> logits;
  for (const text::TokenId id : all) logits = decoding.accept({&id, 1}).value();
  out.end = "length";
  while (out.ids.size() < request.most_tokens) {
    const text::TokenId id = sampler.pick(logits, {all, request.prompt.size()}, mask).value();
    if (ends(id) && (mask || !request.ignores_ends)) {
      out.end = "end";
      break;
    }
    out.ids.push_back(id);
    all.push_back(id);
    EXPECT_TRUE(constraint.take(id));
    out.text += stream.push(id);
    if (stream.is_stopped() || constraint.is_closed()) {
      out.end = stream.is_stopped() ? "stop" : "end";
      break;
    }
    if (out.ids.size() == request.most_tokens || decoding.position() == kContext) break;
    logits = decoding.accept({&id, 1}).value();
  }
  out.text += stream.finish();
  out.state = decoding.state_hash();
  return out;
}

/// One way to write all of them.
struct Way {
  std::size_t threads = 1;
  TextEngine::Options engine{};
  std::uint32_t requests = kRequests, seed = 1;
  bool disturbs = true;  // pauses, suspends, drops and begins anew
};

/// Sums over a way's requests, to see that it took the paths that it is for.
struct Counts {
  std::size_t cached = 0, guessed = 0, right = 0, suspended = 0, dropped = 0, parked = 0;
};

class Company {
 public:
  Company(TextEngine& engine, const Requests& requests, const Way& way)
      : engine_(engine), requests_(requests), way_(way), random_(way.seed), written_(way.requests) {
    for (std::uint32_t i = 0; i < way.requests; ++i) waiting_.push_back(i);
    if (way.disturbs) std::shuffle(waiting_.begin(), waiting_.end(), random_);
  }

  std::vector<Outcome> write() {
    while (!waiting_.empty() || !suspended_.empty() || engine_.free_slots() < engine_.slots()) {
      admit();
      if (way_.disturbs) disturb();
      engine_.step([&](std::size_t slot, const TextChunk& part) { take(slot, part); });
      for (std::size_t slot = 0; slot < engine_.slots(); ++slot) engine_.pause(slot, false);
    }
    counts.parked = engine_.parked();
    return std::move(written_);
  }
  Counts counts;

 private:
  bool happens(std::uint32_t once_in) { return random_() % once_in == 0; }

  void admit() {
    while (engine_.free_slots() > 0 && (!way_.disturbs || !happens(3))) {
      if (!suspended_.empty() && happens(2)) {
        auto [number, text] = std::move(suspended_.back());
        suspended_.pop_back();
        numbers_[engine_.resume(std::move(text))] = number;
      } else if (!waiting_.empty()) {
        const auto slot = engine_.begin(requests_(waiting_.back()));
        ASSERT_TRUE(slot) << slot.error().text();
        numbers_[*slot] = waiting_.back();
        written_[waiting_.back()] = {};
        waiting_.pop_back();
      } else if (suspended_.empty()) {
        return;
      }
    }
  }

  void disturb() {
    for (std::size_t slot = 0; slot < engine_.slots(); ++slot) {
      if (!engine_.slot(slot).is_busy) continue;
      // Not too often, as a text that has lost all begins at its first token.
      if (happens(12) && disturbed_[numbers_[slot]] < 4) {
        ++disturbed_[numbers_[slot]];
        suspended_.emplace_back(numbers_[slot], engine_.suspend(slot));
        ++counts.suspended;
      } else if (happens(60) && disturbed_[numbers_[slot]] < 4) {
        engine_.drop(slot);
        begin_again(slot);
      } else if (happens(6)) {
        engine_.pause(slot, true);
      }
    }
    if (happens(200)) engine_.forget();
  }

  void begin_again(std::size_t slot) {
    waiting_.push_back(numbers_[slot]);
    ++disturbed_[numbers_[slot]];
    ++counts.dropped;
  }

  void take(std::size_t slot, const TextChunk& part) {
    Outcome& outcome = written_[numbers_[slot]];
    outcome.take(part);
    if (part.end != TextChunk::End::none) {
      counts.cached += part.times.cached;
      counts.guessed += part.times.guessed;
      counts.right += part.times.guessed_right;
    } else if (way_.disturbs && disturbed_[numbers_[slot]] < 4 && happens(150)) {
      // In the middle of a step, also of one that judges guesses.
      engine_.drop(slot);
      begin_again(slot);
    }
  }

  TextEngine& engine_;
  const Requests& requests_;
  const Way& way_;
  std::mt19937 random_;
  std::vector<std::uint32_t> waiting_;
  std::vector<std::pair<std::uint32_t, TextEngine::Suspended>> suspended_;
  std::map<std::size_t, std::uint32_t> numbers_;  // by slot
  std::map<std::uint32_t, int> disturbed_;        // times that a request was suspended or dropped
  std::vector<Outcome> written_;
};

class TextEquality : public ::testing::Test {
 protected:
  void SetUp() override {
    if (shared_data("stories260K").empty()) GTEST_SKIP() << "no ../shared/data";
    auto loaded = model_on(1);
    ASSERT_TRUE(loaded) << loaded.error().text();
    model_ = std::make_unique<LanguageModel>(*std::move(loaded));
    want(kRequests);
  }

  /// Takes what the model writes of the first `count` requests alone, token by token.
  void want(std::uint32_t count) {
    requests_.emplace(*model_);
    wanted_.clear();
    auto decoding = Decoding::begin(*model_->mesh, kContext);
    ASSERT_TRUE(decoding);
    for (std::uint32_t i = 0; i < count; ++i) wanted_.push_back(one_by_one(*model_, *decoding, (*requests_)(i)));
    Way plain{.engine = {.slots = 1, .context = kContext}, .requests = count, .disturbs = false};
    plain.engine.prefix_cache = 0;
    auto engine = TextEngine::make(*model_, plain.engine);
    ASSERT_TRUE(engine) << engine.error().text();
    const auto written = Company(*engine, *requests_, plain).write();
    for (std::uint32_t i = 0; i < count; ++i) wanted_[i].scores = written[i].scores;
    expect_wanted(written, "one after the other");
  }

  static Result<LanguageModel> model_on(std::size_t threads, const std::string& device = {}) {
    mesh::MeshOptions options{.threads = threads, .grain_bytes = 0, .wide = threads > 1, .wide_from = 0};
    options.device = device;
    return load_language_model(storage::real_file_system(), shared_data("stories260K/derived"), {}, options);
  }

  /// The same model with matrices of another type: it guesses well, but not always.
  Result<LanguageModel> rounded(Dtype type) {
    WEFT_TRY(const ImportedModel model, import_model(storage::real_file_system(), shared_data("stories260K/derived"),
                                                     {.encoding = Encoding(type)}));
    WEFT_TRY(const ByteBuffer bytes, collect(model.content));
    const std::string path = directory_.path() + "/rounded.entity";
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    return load_language_model(storage::real_file_system(), path);
  }

  void expect_wanted(const std::vector<Outcome>& written, const std::string& how) {
    for (std::size_t i = 0; i < written.size(); ++i) {
      EXPECT_EQ(written[i].text, wanted_[i].text) << how << ", request " << i;
      EXPECT_EQ(written[i].ids, wanted_[i].ids) << how << ", request " << i;
      EXPECT_EQ(written[i].end, wanted_[i].end) << how << ", request " << i;
      EXPECT_EQ(written[i].scores, wanted_[i].scores) << how << ", request " << i;
      ASSERT_TRUE(written[i].state) << how << ", request " << i;
      EXPECT_EQ(to_string(*written[i].state), to_string(*wanted_[i].state)) << how << ", request " << i;
    }
  }

  Counts write(const LanguageModel& model, const Way& way, const std::string& how, bool ends_on_device = false) {
    auto engine = TextEngine::make(model, way.engine);
    EXPECT_TRUE(engine) << engine.error().text();
    if (!engine) return {};
    Company company(*engine, *requests_, way);
    expect_wanted(company.write(), how);
    EXPECT_EQ(engine->is_on_device(), ends_on_device) << how;
    return company.counts;
  }

  storage::TemporaryDirectory directory_;
  std::unique_ptr<LanguageModel> model_;
  std::optional<Requests> requests_;
  std::vector<Outcome> wanted_;
};

/// A software device compiles its shaders for a minute: it is for tests that WEFT_TEST_FULL asks for.
class TextEqualityOnDevice : public TextEquality {
 protected:
  void SetUp() override {
    if (mesh::testing_support::is_device_absent()) GTEST_SKIP() << "no Vulkan device";
    if (!is_thorough() && !std::getenv("WEFT_TEST_DEVICE")) GTEST_SKIP() << "WEFT_TEST_FULL=1 asks for it";
    TextEquality::SetUp();
  }
};

TEST_F(TextEquality, HoldsWhateverIsSharedGuessedSuspendedOrEnded) {
  const auto draft = rounded(Dtype::int4);
  ASSERT_TRUE(draft) << draft.error().text();
  // 5 layers, 4 heads of 8, whose values stand in 16 places.
  const std::uint64_t block = 5 * 4 * 64 * (8 + 16) * sizeof(float);
  std::uint32_t seed = 1;
  for (const std::uint64_t cache : {std::uint64_t{0}, 8 * block, std::uint64_t{1} << 26})
    for (const int guesses : {0, 1, 2}) {
      Way way{.seed = ++seed};
      way.engine = {.slots = seed % 5 + 1, .context = kContext, .block = std::size_t{1} << (3 * (seed % 4))};
      way.engine.prefix_cache = cache;
      way.engine.drafts.looks_up = guesses == 1;
      way.engine.drafts.model = guesses == 2 ? &*draft : nullptr;
      way.engine.drafts.most = 1 + 3 * (seed % 5);
      const std::string how = std::to_string(way.engine.slots) + " slots, blocks of " +
                              std::to_string(way.engine.block.value_or(0)) + ", cache of " + std::to_string(cache) +
                              ", guesses " + std::to_string(guesses) + " up to " +
                              std::to_string(way.engine.drafts.most);
      const Counts counts = write(*model_, way, how);
      EXPECT_GT(counts.suspended, 100u) << how;
      EXPECT_GT(counts.dropped, 5u) << how;
      EXPECT_GT(counts.cached, 1000u) << how;
      if (guesses > 0) {
        EXPECT_GT(counts.guessed, 200u) << how;
        EXPECT_GT(counts.right, 50u) << how;
        EXPECT_LT(counts.right, counts.guessed) << how;
      }
    }
}

// Products of integers go other ways than those of floats where rows stand together.
TEST_F(TextEquality, HoldsOfModelsOfCodes) {
  const auto draft = std::exchange(model_, nullptr);
  std::uint32_t seed = 10;
  for (const Dtype type : {Dtype::int8, Dtype::int4, Dtype::ternary}) {
    auto loaded = rounded(type);
    ASSERT_TRUE(loaded) << loaded.error().text();
    model_ = std::make_unique<LanguageModel>(*std::move(loaded));
    want(40);
    for (const int guesses : {1, 2}) {
      Way way{.requests = 40, .seed = ++seed};
      way.engine = {.slots = 5, .context = kContext, .block = 48};
      way.engine.prefix_cache = std::uint64_t{1} << 20;
      way.engine.drafts.looks_up = guesses == 1;
      way.engine.drafts.model = guesses == 2 ? draft.get() : nullptr;
      const Counts counts = write(*model_, way, std::string(name(type)) + ", guesses " + std::to_string(guesses));
      EXPECT_GT(counts.guessed, 20u) << name(type);
      EXPECT_GT(counts.cached, 100u) << name(type);
    }
  }
}

TEST_F(TextEquality, HoldsWhereMemoryIsShort) {
  // Two contexts for five slots, and one. A token has 5 layers, 4 heads of 8 values, in places for 16.
  const std::uint64_t token = 5 * 4 * (8 + 16) * sizeof(float);
  std::uint32_t seed = 20;
  for (const bool overcommits : {false, true})
    for (const std::size_t contexts : {1u, 2u}) {
      Way way{.requests = kRequests / 2, .seed = ++seed};
      way.engine = {.slots = 5, .context = kContext, .block = 64};
      way.engine.prefix_cache = seed % 2 == 0 ? std::uint64_t{0} : std::uint64_t{1} << 20;
      way.engine.drafts.looks_up = true;
      way.engine.state_memory = contexts * kContext * token;
      way.engine.overcommits = overcommits;
      const std::string how = std::to_string(contexts) + " contexts" + (overcommits ? ", overcommitted" : "");
      EXPECT_GT(write(*model_, way, how).parked, 0u) << how;
    }
}

TEST_F(TextEquality, HoldsOnAnyThreadsAndInstructionSet) {
  const kernels::Isa before = kernels::active_isa();
  std::uint32_t seed = 40;
  for (const kernels::Isa isa : kernels::available_isas())
    for (const std::size_t threads : {1u, 2u, 7u}) {
      ASSERT_TRUE(kernels::set_active_isa(isa));
      const auto model = model_on(threads);
      ASSERT_TRUE(model) << model.error().text();
      Way way{.threads = threads,
              .requests = is_thorough()  ? kRequests
                          : threads == 1 ? kRequests / 2
                                         : 15,
              .seed = ++seed};
      way.engine = {.slots = 4, .context = kContext, .block = 48};
      way.engine.prefix_cache = std::uint64_t{1} << 20;
      way.engine.drafts.looks_up = true;
      write(*model, way, std::to_string(threads) + " threads on " + std::string(kernels::name(isa)));
    }
  ASSERT_TRUE(kernels::set_active_isa(before));
}

// With a prefix cache and guesses; the second time the device is lost in the middle.
TEST_F(TextEqualityOnDevice, HoldsAndLosesNothing) {
  const auto faults = std::make_shared<gpu::FaultInjection>();
  // Holds the device, and so its faults, while models share it.
  const auto spec = mesh::read_network(R"({"weft": 2, "grid": {"z": 1, "y": 1, "x": 1, "layers": 1},
      "inputs": {"in": [1]}, "layers": [{"at": [0, 0, 0, 0], "type": "dense", "out": 1, "from": ["in"]}],
      "outputs": {"out": [0, 0, 0, 0]}})",
                                       "test");
  ASSERT_TRUE(spec) << spec.error().text();
  mesh::MeshOptions options;
  options.device = mesh::testing_support::device_name();
  const auto held = mesh::MeshAccess::build(*spec, options, faults);
  ASSERT_TRUE(held) << held.error().text();
  for (const bool is_lost : {false, true}) {
    const auto model = model_on(1, mesh::testing_support::device_name());
    ASSERT_TRUE(model) << model.error().text();
    Way way{.requests = is_thorough() ? kRequests : 10, .seed = is_lost ? 61u : 60u};
    way.engine = {.slots = 3, .context = kContext, .block = 48};
    way.engine.prefix_cache = std::uint64_t{1} << 20;
    way.engine.drafts.looks_up = true;
    if (is_lost) faults->fail(gpu::DriverFault::lost_at_submit, 60, 1000);
    write(*model, way, is_lost ? "a device that is lost" : "a device", !is_lost);
  }
  EXPECT_GT(faults->failed(), 0u);
}

}  // namespace
}  // namespace weft::models::text_equality_test
