// SPDX-License-Identifier: Apache-2.0

#include "models/text_engine.hpp"

#include "mesh/network/network_json.hpp"

#include "formats/safetensors/safetensors_shards.hpp"

#include "tests/models/imported.hpp"
#include <algorithm>
#include <cstdint>
#include <map>
#include <random>

namespace weft::models::text_engine_test {
namespace {

Result<LanguageModel> stories() {
  return load_language_model(storage::real_file_system(), shared_data("stories260K/derived"));
}

/// A text that was written.
struct Written {
  std::string text;
  std::vector<text::TokenId> ids;
  std::vector<TokenScore> scores;
  std::vector<float> features;
  TextChunk::End end = TextChunk::End::none;
  std::string stop;
  TextTimes times;

  void take(TextChunk part) {
    text += part.text;
    ids.insert(ids.end(), part.ids.begin(), part.ids.end());
    for (TokenScore& each : part.scores) scores.push_back(std::move(each));
    if (!part.features.empty()) features = std::move(part.features);
    end = part.end;
    stop = part.stop;
    times = part.times;
  }
};

Written alone(TextEngine& engine, TextRequest request) {
  Written written;
  EXPECT_TRUE(engine.begin(std::move(request)));
  while (engine.step([&](std::size_t, TextChunk part) { written.take(std::move(part)); })) {
  }
  return written;
}

/// Another request for each number: prompts of one to 90 tokens, greedy or drawn, some with stop strings.
TextRequest request_of(const LanguageModel& model, std::uint32_t number) {
  std::mt19937 random(number);
  static const char* const kBegins[] = {"Once upon a time", "The cat", "Lily and Tom went to the park", "One day"};
  TextRequest request;
  std::string prompt = kBegins[random() % 4];
  for (std::uint32_t more = random() % 4 == 0 ? 11 : random() % 2; more > 0; --more) prompt += " and then she said yes";
  request.prompt = *model.tokenizer->encode(prompt);
  request.sampler.temperature = random() % 3 == 0 ? 0 : 1;
  request.sampler.seed = random();
  request.sampler.top_k = random() % 2 ? 0 : 40;
  request.most_tokens = 1 + random() % 40;
  if (random() % 3 == 0) request.stops = {".", " the"};
  request.ignores_ends = random() % 2 == 0;
  return request;
}

TEST(TextEngine, WritesEachTextAsIfItWereAlone) {
  if (shared_data("stories260K").empty()) GTEST_SKIP() << "no ../shared/data";
  const auto model = stories();
  ASSERT_TRUE(model) << model.error().text();
  auto engine = TextEngine::make(*model, {.slots = 3, .context = 128});
  ASSERT_TRUE(engine) << engine.error().text();
  constexpr std::uint32_t kTexts = 24;
  std::map<std::size_t, std::uint32_t> numbers;  // by slot
  std::vector<Written> written(kTexts);
  std::mt19937 random(5);
  std::uint32_t next = 0;
  while (next < kTexts || engine->free_slots() < engine->slots()) {
    if (next < kTexts && engine->free_slots() > 0 && random() % 3 > 0) {
      const auto slot = engine->begin(request_of(*model, next));
      ASSERT_TRUE(slot) << slot.error().text();
      numbers[*slot] = next++;
    }
    const std::size_t paused = random() % 3;
    engine->pause(paused, true);
    engine->step([&](std::size_t slot, TextChunk part) { written[numbers[slot]].take(std::move(part)); });
    engine->pause(paused, false);
  }
  for (std::uint32_t i = 0; i < kTexts; ++i) {
    const TextRequest request = request_of(*model, i);
    GenerateOptions options{.sampler = request.sampler, .most_tokens = request.most_tokens, .context = 128};
    options.stops = request.stops;
    options.ignores_ends = request.ignores_ends;
    const auto prompt = model->tokenizer->decode(request.prompt, true);
    const auto expected = generate(*model, prompt, options, [](std::string_view) { return Status(); });
    ASSERT_TRUE(expected) << expected.error().text();
    ASSERT_EQ(expected->prompt, request.prompt);
    EXPECT_EQ(written[i].text, expected->text) << i;
    EXPECT_EQ(written[i].ids, expected->ids) << i;
    const char* const ends[] = {"none", "end", "stop", "length", "failed"};
    EXPECT_EQ(ends[static_cast<int>(written[i].end)], expected->end) << i;
    EXPECT_EQ(written[i].stop.empty(), written[i].end != TextChunk::End::stop) << i;
    if (!written[i].stop.empty()) {
      EXPECT_TRUE(written[i].stop == "." || written[i].stop == " the") << i;
    }
    EXPECT_EQ(written[i].times.written, expected->ids.size()) << i;
  }
}

TEST(TextEngine, GoesOnFromWhatASlotHasTaken) {
  if (shared_data("stories260K").empty()) GTEST_SKIP() << "no ../shared/data";
  const auto model = stories();
  ASSERT_TRUE(model) << model.error().text();
  auto engine = TextEngine::make(*model, {.slots = 2, .context = 256});
  ASSERT_TRUE(engine) << engine.error().text();
  TextRequest first = request_of(*model, 1);
  first.sampler.temperature = 0;
  first.stops.clear();
  first.most_tokens = 10;
  const Written begun = alone(*engine, first);
  TextRequest second = first;
  second.prompt.insert(second.prompt.end(), begun.ids.begin(), begun.ids.end());
  second.prompt.push_back(300);
  const Written reused = alone(*engine, second);
  EXPECT_EQ(reused.times.cached, first.prompt.size() + begun.ids.size() - 1);
  second.reuses = false;
  const Written anew = alone(*engine, second);
  EXPECT_EQ(anew.times.cached, 0u);
  EXPECT_EQ(anew.ids, reused.ids);
  engine->forget();
  second.reuses = true;
  EXPECT_EQ(alone(*engine, second).times.cached, 0u);
}

/// A request of `tokens` tokens that shares the first `same` with others of no number.
TextRequest long_request(std::size_t tokens, std::size_t same, text::TokenId number) {
  TextRequest request;
  for (std::size_t i = 0; i < tokens; ++i)
    request.prompt.push_back(static_cast<text::TokenId>(3 + (i * 37 + (i < same ? 0 : number * 11)) % 500));
  request.sampler.temperature = 0;
  request.ignores_ends = true;
  request.most_tokens = 4;
  return request;
}

TEST(TextEngine, SharesBeginningsBetweenSlots) {
  if (shared_data("stories260K").empty()) GTEST_SKIP() << "no ../shared/data";
  const auto model = stories();
  ASSERT_TRUE(model) << model.error().text();
  auto engine = TextEngine::make(*model, {.slots = 3, .context = 256}),
       plain = TextEngine::make(*model, {.slots = 1, .context = 256, .prefix_cache = 0});
  ASSERT_TRUE(engine && plain);
  EXPECT_EQ(alone(*engine, long_request(200, 150, 1)).times.cached, 0u);
  const std::uint64_t block = engine->cache_use().bytes / 3;  // 64, 128 and 192 tokens
  EXPECT_EQ(block, std::uint64_t{5} * 4 * 64 * (8 + 16) * sizeof(float));
  EXPECT_EQ(plain->cache_use().bytes, 0u);
  // The first slot is busy with the same beginning; the others have nothing of it but by the cache.
  ASSERT_TRUE(engine->begin(long_request(200, 150, 1)));
  Written written;
  const auto slot = engine->begin(long_request(180, 150, 2));
  ASSERT_TRUE(slot);
  while (engine->step([&](std::size_t at, TextChunk part) {
    if (at == *slot) written.take(std::move(part));
  })) {
  }
  EXPECT_EQ(written.times.cached, 128u);
  TextRequest request = long_request(180, 150, 2);
  request.reuses = false;
  EXPECT_EQ(written.ids, alone(*plain, request).ids);
  engine->forget();
  EXPECT_EQ(engine->cache_use().bytes, 0u);
  EXPECT_EQ(alone(*engine, long_request(180, 150, 2)).times.cached, 0u);
  // Of another tenant, or where it is not wanted, nothing is taken, and nothing is left.
  request = long_request(192, 150, 2);
  request.tenant = "another";
  EXPECT_EQ(alone(*engine, request).times.cached, 0u);
  EXPECT_EQ(alone(*engine, request).times.cached, 191u);  // the last one's logits are wanted
  const std::uint64_t before = engine->cache_use().bytes;
  request = long_request(200, 0, 3);
  request.reuses = false;
  EXPECT_EQ(alone(*engine, request).times.cached, 0u);
  EXPECT_EQ(engine->cache_use().bytes, before);
  request.reuses = true;
  EXPECT_EQ(alone(*engine, request).times.cached, 0u);
}

TEST(TextEngine, GoesBackToWhereAPromptDiffers) {
  if (shared_data("stories260K").empty()) GTEST_SKIP() << "no ../shared/data";
  const auto model = stories();
  ASSERT_TRUE(model) << model.error().text();
  auto engine = TextEngine::make(*model, {.slots = 1, .context = 256, .prefix_cache = 0});
  ASSERT_TRUE(engine) << engine.error().text();
  for (const std::size_t same : {150u, 77u, 3u}) {
    alone(*engine, long_request(200, 199, 1));
    const Written again = alone(*engine, long_request(180, same, 2));
    EXPECT_EQ(again.times.cached, same);
    TextRequest request = long_request(180, same, 2);
    request.reuses = false;
    EXPECT_EQ(again.ids, alone(*engine, request).ids) << same;
  }
  // The same prompt once more: all but its last token.
  alone(*engine, long_request(100, 0, 3));
  EXPECT_EQ(alone(*engine, long_request(100, 0, 3)).times.cached, 99u);
}

TEST(TextEngine, RefusesCachesAndDraftsThatCannotBe) {
  if (shared_data("stories260K").empty()) GTEST_SKIP() << "no ../shared/data";
  auto model = stories();
  const auto other = load_language_model(storage::real_file_system(), shared_data("language/tinystories-656k"));
  ASSERT_TRUE(model && other);
  const auto refused = [&](const TextEngine::Options& options) {
    const auto made = TextEngine::make(*model, options);
    EXPECT_FALSE(made);
    return made ? Error(Errc::internal, "") : made.error();
  };
  const Error small = refused({.slots = 1, .context = 64, .prefix_cache = 1000});
  EXPECT_EQ(small.code(), Errc::out_of_range);
  EXPECT_NE(small.text().find("a prefix cache of 1000 bytes has no room"), std::string::npos) << small.text();
  EXPECT_EQ(refused({.slots = 1, .context = 64, .drafts = {.model = &*other}}).code(), Errc::shape_mismatch);
  EXPECT_EQ(refused({.slots = 1, .drafts = {.looks_up = true, .most = 0}}).code(), Errc::invalid_argument);
  EXPECT_EQ(refused({.slots = 1, .drafts = {.looks_up = true, .most = 32}}).code(), Errc::invalid_argument);
  EXPECT_EQ(refused({.slots = 1, .block = 0}).code(), Errc::invalid_argument);
  // A model that cannot be rolled back writes without both.
  const auto spec = mesh::read_network(R"({"weft": 2, "name": "recurrent", "seed": 3,
    "grid": {"z": 1, "y": 1, "x": 3, "layers": 1}, "inputs": {"tokens": [1]}, "layers": [
      {"at": [0,0,0,0], "type": "embedding", "out": 8, "vocabulary": 512, "from": ["tokens"]},
      {"at": [0,0,1,0], "type": "gru", "out": 8, "stateful": true},
      {"at": [0,0,2,0], "type": "dense", "out": 512}], "outputs": {"logits": [0,0,2,0]}})",
                                       "test");
  ASSERT_TRUE(spec) << spec.error().text();
  auto mesh = mesh::Mesh::build(*spec);
  ASSERT_TRUE(mesh) << mesh.error().text();
  model->mesh = std::make_unique<mesh::Mesh>(*std::move(mesh));
  EXPECT_EQ(refused({.slots = 1, .context = 64, .prefix_cache = 1 << 20}).code(), Errc::unsupported);
  EXPECT_EQ(refused({.slots = 1, .context = 64, .drafts = {.looks_up = true}}).code(), Errc::unsupported);
  auto engine = TextEngine::make(*model, {.slots = 1, .context = 64});
  ASSERT_TRUE(engine) << engine.error().text();
  TextRequest request = long_request(20, 0, 1);
  request.wants_state = true;
  const Written written = alone(*engine, request);
  request.prompt.insert(request.prompt.end(), written.ids.begin(), written.ids.end());
  request.prompt.push_back(9);
  const Written more = alone(*engine, request);
  EXPECT_EQ(more.times.cached, 23u);  // it goes on from all that the slot has taken
  request.reuses = false;
  const Written anew = alone(*engine, request);
  EXPECT_EQ(anew.ids, more.ids);
  EXPECT_EQ(anew.times.cached, 0u);
  request.reuses = true;
  request.prompt[3] += 1;
  EXPECT_EQ(alone(*engine, request).times.cached, 0u);
}

TEST(TextEngine, WaitsForMemoryAndRefusesLessThanAContext) {
  if (shared_data("stories260K").empty()) GTEST_SKIP() << "no ../shared/data";
  const auto model = stories();
  ASSERT_TRUE(model) << model.error().text();
  const std::uint64_t token = 5 * 4 * (8 + 16) * sizeof(float);
  const auto refused = TextEngine::make(*model, {.slots = 4, .context = 200, .state_memory = 199 * token});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Errc::out_of_range);
  EXPECT_NE(refused.error().text().find("199 tokens"), std::string::npos) << refused.error().text();
  auto engine = TextEngine::make(*model, {.slots = 4, .context = 200, .prefix_cache = 0, .state_memory = 200 * token});
  ASSERT_TRUE(engine) << engine.error().text();
  TextRequest request = long_request(90, 0, 1);
  request.most_tokens = 20;
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(engine->begin(request));
  std::vector<Written> written(4);
  const auto step = [&] {
    return engine->step([&](std::size_t slot, TextChunk part) { written[slot].take(std::move(part)); });
  };
  ASSERT_TRUE(step());
  EXPECT_FALSE(engine->slot(0).is_parked);  // 110 tokens of 200
  for (std::size_t slot = 1; slot < 4; ++slot) EXPECT_TRUE(engine->slot(slot).is_parked);
  // One that is paused keeps its memory; a more urgent one takes it.
  engine->pause(0, true);
  EXPECT_FALSE(step());
  EXPECT_FALSE(engine->slot(0).is_parked);
  engine->pause(0, false);
  engine->drop(3);
  TextRequest urgent = request;
  urgent.priority = -1;
  ASSERT_EQ(*engine->begin(urgent), 3u);
  ASSERT_TRUE(step());
  EXPECT_TRUE(engine->slot(0).is_parked);
  EXPECT_FALSE(engine->slot(3).is_parked);
  EXPECT_EQ(engine->parked(), 1u);
  while (step()) {
  }
  for (const Written& each : written) {
    EXPECT_EQ(each.end, TextChunk::End::length);
    EXPECT_EQ(each.ids, written[0].ids);
  }
  // Tokens of free slots go before a text waits.
  EXPECT_EQ(alone(*engine, long_request(190, 0, 2)).times.written, 4u);
}

TEST(TextEngine, GuessesTokensOfTextsThatRepeat) {
  if (shared_data("stories260K").empty()) GTEST_SKIP() << "no ../shared/data";
  const auto model = stories();
  ASSERT_TRUE(model) << model.error().text();
  TextRequest request;
  request.prompt = *model->tokenizer->encode("Once upon a time");
  request.sampler.temperature = 0;
  request.ignores_ends = true;
  request.most_tokens = 100;
  auto plain = TextEngine::make(*model, {.slots = 1, .context = 128});
  ASSERT_TRUE(plain) << plain.error().text();
  const Written wanted = alone(*plain, request);
  EXPECT_EQ(wanted.times.guessed, 0u);
  // The model as its own draft is always right.
  for (const bool looks_up : {false, true}) {
    TextEngine::Options options{.slots = 1, .context = 128};
    options.drafts = {.looks_up = looks_up, .model = looks_up ? nullptr : &*model, .most = 7};
    auto engine = TextEngine::make(*model, options);
    ASSERT_TRUE(engine) << engine.error().text();
    const Written guessed = alone(*engine, request);
    EXPECT_EQ(guessed.ids, wanted.ids);
    EXPECT_EQ(guessed.text, wanted.text);
    EXPECT_EQ(guessed.times.written, 100u);
    if (!looks_up) {
      EXPECT_GT(guessed.times.guessed, 70u);
      EXPECT_EQ(guessed.times.guessed_right, guessed.times.guessed);
    }
  }
}

TEST(TextEngine, TellsLogarithmsOfProbabilities) {
  if (shared_data("stories260K").empty()) GTEST_SKIP() << "no ../shared/data";
  const auto model = stories();
  ASSERT_TRUE(model) << model.error().text();
  auto engine = TextEngine::make(*model, {.slots = 1, .context = 128});
  ASSERT_TRUE(engine) << engine.error().text();
  TextRequest request = request_of(*model, 3);
  request.stops.clear();
  request.ignores_ends = true;
  request.most_tokens = 6;
  request.scores = request.scores_prompt = true;
  request.likeliest = 3;
  const Written written = alone(*engine, request);
  std::vector<text::TokenId> all = request.prompt;
  all.insert(all.end(), written.ids.begin(), written.ids.end());
  ASSERT_EQ(written.scores.size(), all.size());
  EXPECT_FALSE(written.scores[0].logprob.has_value());
  auto decoding = Decoding::begin(*model->mesh, 128);
  ASSERT_TRUE(decoding);
  for (std::size_t i = 1; i < all.size(); ++i) {
    const auto logits = decoding->accept(std::span(&all[i - 1], 1));
    ASSERT_TRUE(logits);
    double total = 0;
    for (const float logit : *logits) total += std::exp(static_cast<double>(logit));
    const auto expected = [&](text::TokenId id) { return static_cast<double>((*logits)[id]) - std::log(total); };
    const TokenScore& score = written.scores[i];
    EXPECT_EQ(score.id, all[i]);
    EXPECT_NEAR(*score.logprob, expected(all[i]), 1e-5);
    ASSERT_EQ(score.likeliest.size(), 3u);
    const auto largest = std::max_element(logits->begin(), logits->end()) - logits->begin();
    EXPECT_EQ(score.likeliest[0].id, static_cast<text::TokenId>(largest));
    EXPECT_GE(score.likeliest[0].logprob, score.likeliest[2].logprob);
    EXPECT_NEAR(score.likeliest[2].logprob, expected(score.likeliest[2].id), 1e-5);
  }
  // Scores change nothing.
  request.scores = request.scores_prompt = false;
  EXPECT_EQ(alone(*engine, request).ids, written.ids);
}

TEST(TextEngine, GivesWhatTheLogitsAreMadeOf) {
  if (shared_data("stories260K").empty()) GTEST_SKIP() << "no ../shared/data";
  const auto model = stories();
  ASSERT_TRUE(model) << model.error().text();
  auto engine = TextEngine::make(*model, {.slots = 1, .context = 128});
  ASSERT_TRUE(engine) << engine.error().text();
  TextRequest request = request_of(*model, 16);
  request.most_tokens = 0;
  request.wants_features = true;
  const Written written = alone(*engine, request);
  EXPECT_EQ(written.end, TextChunk::End::length);
  EXPECT_TRUE(written.ids.empty());
  ASSERT_EQ(written.features.size(), engine->features());
  const auto files = formats::load_safetensors_folder(storage::real_file_system(), shared_data("stories260K/derived"));
  ASSERT_TRUE(files) << files.error().text();
  const char* const name = files->tensors->contains("lm_head.weight") ? "lm_head.weight" : "model.embed_tokens.weight";
  const auto head = files->tensors->find(name);
  ASSERT_TRUE(head) << head.error().text();
  ASSERT_EQ(head->type, "float32");
  const auto* const rows = reinterpret_cast<const float*>(head->bytes.data());
  auto decoding = Decoding::begin(*model->mesh, 128);
  const auto logits = decoding->accept(request.prompt);
  ASSERT_TRUE(logits);
  for (std::size_t row = 0; row < logits->size(); ++row) {
    double sum = 0;
    for (std::size_t i = 0; i < written.features.size(); ++i)
      sum += static_cast<double>(rows[row * written.features.size() + i]) * static_cast<double>(written.features[i]);
    EXPECT_NEAR((*logits)[row], sum, 1e-4) << row;
  }
}

TEST(TextEngine, ScoresAPromptInWhicheverSlotsItIsRead) {
  if (shared_data("stories260K").empty()) GTEST_SKIP() << "no ../shared/data";
  const auto model = stories();
  ASSERT_TRUE(model) << model.error().text();
  auto engine = TextEngine::make(*model, {.slots = 2, .context = 256});
  ASSERT_TRUE(engine) << engine.error().text();
  TextRequest request = long_request(150, 0, 5);
  request.scores = request.scores_prompt = true;
  const Written wanted = alone(*engine, request);
  ASSERT_EQ(wanted.scores.size(), 154u);
  Written written;
  auto slot = engine->begin(request);
  ASSERT_TRUE(slot);
  for (std::size_t steps = 0; engine->step([&](std::size_t, TextChunk part) { written.take(std::move(part)); });
       ++steps) {
    if (steps % 2 != 0 || !engine->slot(*slot).is_busy) continue;
    auto suspended = engine->suspend(*slot);
    if (steps % 4 == 0) alone(*engine, long_request(90, 0, 6));
    slot = engine->resume(std::move(suspended));
  }
  EXPECT_EQ(written.ids, wanted.ids);
  ASSERT_EQ(written.scores.size(), wanted.scores.size());
  for (std::size_t i = 1; i < wanted.scores.size(); ++i) EXPECT_EQ(written.scores[i].logprob, wanted.scores[i].logprob);
}

TEST(TextEngine, RefusesWhatDoesNotFit) {
  if (shared_data("stories260K").empty()) GTEST_SKIP() << "no ../shared/data";
  const auto model = stories();
  ASSERT_TRUE(model) << model.error().text();
  EXPECT_EQ(TextEngine::make(*model, {.slots = 0}).error().code(), Errc::invalid_argument);
  EXPECT_EQ(TextEngine::make(*model, {.slots = 1, .context = 1 << 20}).error().code(), Errc::full);
  auto engine = TextEngine::make(*model, {.slots = 1, .context = 4});
  ASSERT_TRUE(engine) << engine.error().text();
  TextRequest request;
  EXPECT_EQ(engine->check(request).error().code(), Errc::invalid_argument);
  request.prompt = {1, 2, 3, 4};
  EXPECT_EQ(engine->check(request).error().code(), Errc::full);
  request.most_tokens = 0;
  EXPECT_TRUE(engine->check(request));
  request.prompt = {1, 99999};
  EXPECT_EQ(engine->check(request).error().code(), Errc::out_of_range);
  request.prompt = {1, 2};
  request.sampler.logit_bias = {{512, 1.0f}};
  EXPECT_EQ(engine->check(request).error().code(), Errc::out_of_range);
  request.sampler.logit_bias.clear();
  request.most_tokens = 100;
  request.ignores_ends = true;
  ASSERT_TRUE(engine->begin(request));
  EXPECT_EQ(engine->begin(request).error().code(), Errc::full);
  EXPECT_TRUE(engine->slot(0).is_busy);
  engine->drop(0);
  EXPECT_EQ(engine->free_slots(), 1u);
  const Written written = alone(*engine, request);
  EXPECT_EQ(written.end, TextChunk::End::length);
  EXPECT_EQ(written.ids.size(), 3u);  // the last one needs no room
}

}  // namespace
}  // namespace weft::models::text_engine_test
