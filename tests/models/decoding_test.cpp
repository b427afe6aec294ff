// SPDX-License-Identifier: Apache-2.0

#include "models/decoding.hpp"

#include "models/language_model.hpp"

#include "text/token_stream.hpp"

#include "tests/models/imported.hpp"
#include <bit>
#include <cstdint>
#include <cstdlib>

namespace weft::models::decoding_test {
namespace {

/// A model of the shared data, or nothing where they are not.
Result<LanguageModel> load(const std::string& shared) {
  return load_language_model(storage::real_file_system(), shared_data(shared));
}
std::vector<text::TokenId> ids_of(const Json& json) { return json.get<std::vector<text::TokenId>>(); }
Json json_of(const std::string& path) {
  const auto bytes = storage::real_file_system().read(path, std::size_t{1} << 26);
  return *parse_json(as_text(*bytes), path);
}

/// The ids that follow `prompt` where the largest logit is always taken.
std::vector<text::TokenId> greedy(const mesh::Mesh& mesh, std::vector<text::TokenId> ids, std::size_t length) {
  auto decoding = Decoding::begin(mesh, length);
  EXPECT_TRUE(decoding) << decoding.error().text();
  Sampler sampler({.temperature = 0});
  auto logits = decoding->accept(ids);
  while (ids.size() < length && logits) {
    ids.push_back(*sampler.pick(*logits, ids.size()));
    if (ids.size() < length) logits = decoding->accept(std::span(&ids.back(), 1));
  }
  EXPECT_TRUE(logits) << logits.error().text();
  return ids;
}

TEST(Decoding, WritesTheTextsOfABinary64Reference) {
  if (shared_data("stories260K").empty()) GTEST_SKIP() << "no ../shared/data";
  for (const std::string folder : {"stories260K/derived", "stories260K/derived/stories260K-f32.gguf"}) {
    const auto model = load(folder);
    ASSERT_TRUE(model) << model.error().text();
    const Json golden = json_of(shared_data("stories260K/derived/golden_greedy.json"));
    const auto ids = ids_of(golden["ids"]);
    EXPECT_EQ(greedy(*model->mesh, {ids[0]}, ids.size()), ids) << folder;
  }
  const auto model = load("language/tinystories-656k");
  ASSERT_TRUE(model) << model.error().text();
  const Json golden = json_of(shared_data("language/tinystories-656k-golden_greedy.json"));
  const auto ids = ids_of(golden["ids"]);
  EXPECT_EQ(greedy(*model->mesh, ids_of(golden["prompt_ids"]), ids.size()), ids);
}

TEST(Decoding, GivesTheBitsOfAllTokensAtOnce) {
  if (shared_data("language/families").empty()) GTEST_SKIP() << "no ../shared/data";
  for (const char* family : {"llama", "llama-yarn", "qwen2", "qwen3", "gemma", "gemma2", "phi3", "gpt2", "bitnet"}) {
    const std::string folder = shared_data("language/families/" + std::string(family));
    const Golden golden = read_golden(folder + "/golden.json");
    const std::size_t tokens = golden.ids.size(), vocabulary = golden.logits[0].size();
    const auto mesh = imported_mesh(folder, {.tokens = tokens});
    ASSERT_TRUE(mesh) << mesh.error().text();
    const std::vector<float> all = logits_of(*mesh, golden.ids, vocabulary);
    const std::vector<text::TokenId> ids(golden.ids.begin(), golden.ids.end());
    // As blocks of 12 and of one, and 5 in front of 7.
    for (const std::vector<std::size_t>& cut : std::vector<std::vector<std::size_t>>{{12}, {5, 7}, {1, 1, 3, 7}}) {
      auto decoding = Decoding::begin(*mesh, 12);
      ASSERT_TRUE(decoding) << decoding.error().text();
      for (const std::size_t count : cut) {
        const std::size_t at = decoding->position();
        const auto logits = decoding->accept(std::span(ids).subspan(at, count));
        ASSERT_TRUE(logits) << logits.error().text();
        for (std::size_t v = 0; v < vocabulary; ++v)
          ASSERT_EQ(std::bit_cast<std::uint32_t>((*logits)[v]),
                    std::bit_cast<std::uint32_t>(all[(at + count - 1) * vocabulary + v]))
              << family << ", logit " << v << " after token " << at + count - 1;
      }
    }
  }
}

TEST(Decoding, RefusesWhatDoesNotFit) {
  if (shared_data("stories260K").empty()) GTEST_SKIP() << "no ../shared/data";
  const auto model = load("stories260K/derived");
  ASSERT_TRUE(model) << model.error().text();
  auto decoding = Decoding::begin(*model->mesh, 4);
  ASSERT_TRUE(decoding) << decoding.error().text();
  const std::vector<text::TokenId> five{1, 2, 3, 4, 5}, foreign{512};
  EXPECT_NE(decoding->accept(five).error().text().find("5 more are above the context of 4"), std::string::npos);
  EXPECT_NE(decoding->accept(foreign).error().text().find("token 512, the model has 512"), std::string::npos);
  EXPECT_EQ(decoding->position(), 0u);
  const auto nothing = [](std::string_view) { return Status(); };
  GenerateOptions options;
  options.context = 600;
  EXPECT_NE(generate(*model, "Once", options, nothing).error().text().find("600 tokens is above the 512"),
            std::string::npos);
  options.context = 3;
  EXPECT_NE(generate(*model, "Once upon a time", options, nothing).error().text().find("nothing can be written"),
            std::string::npos);
}

TEST(Generate, WritesTheSameTextFromOneSeed) {
  if (shared_data("stories260K").empty()) GTEST_SKIP() << "no ../shared/data";
  const auto model = load("stories260K/derived");
  ASSERT_TRUE(model) << model.error().text();
  GenerateOptions options;
  options.most_tokens = 60;
  std::string streamed;
  const auto take = [&](std::string_view text) {
    streamed += text;
    return Status();
  };
  const auto first = generate(*model, "Once upon a time", options, take);
  ASSERT_TRUE(first) << first.error().text();
  EXPECT_EQ(streamed, first->text);
  EXPECT_EQ(first->ids.size(), 60u);
  const auto again = generate(*model, "Once upon a time", options, take);
  EXPECT_EQ(again->ids, first->ids);
  options.sampler.seed = 1;
  EXPECT_NE(generate(*model, "Once upon a time", options, take)->ids, first->ids);
}

TEST(Generate, EndsBeforeAStopString) {
  if (shared_data("stories260K").empty()) GTEST_SKIP() << "no ../shared/data";
  const auto model = load("stories260K/derived");
  ASSERT_TRUE(model) << model.error().text();
  GenerateOptions options;
  options.sampler.temperature = 0;
  options.stops = {"never", "the park"};
  std::string streamed;
  const auto made = generate(*model, "Once upon a time", options, [&](std::string_view text) {
    streamed += text;
    return Status();
  });
  ASSERT_TRUE(made) << made.error().text();
  EXPECT_EQ(made->end, "stop");
  EXPECT_EQ(made->text, ", there was a little girl named Lily. She loved to play outside in ");
  EXPECT_EQ(streamed, made->text);
}

}  // namespace
}  // namespace weft::models::decoding_test
