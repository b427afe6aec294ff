// SPDX-License-Identifier: Apache-2.0

#include "models/draft.hpp"

#include "models/language_model.hpp"

#include "tests/models/imported.hpp"
#include <vector>

namespace weft::models::draft_test {
namespace {

using Ids = std::vector<text::TokenId>;

TEST(RepeatedAfter, GivesWhatFollowedTheLongestRun) {
  EXPECT_EQ(repeated_after(Ids{1, 2, 3, 4, 9, 2, 3}, 3), (Ids{4, 9, 2}));
  EXPECT_EQ(repeated_after(Ids{1, 2, 3, 4, 9, 2, 3}, 1), (Ids{4}));
  // The longer run, not the nearer one.
  EXPECT_EQ(repeated_after(Ids{1, 2, 3, 4, 7, 2, 3, 5, 1, 2, 3}, 2), (Ids{4, 7}));
  // Of equal ones the last.
  EXPECT_EQ(repeated_after(Ids{2, 3, 4, 7, 2, 3, 5, 9, 2, 3}, 2), (Ids{5, 9}));
  // Tokens up to the last one come again and again.
  EXPECT_EQ(repeated_after(Ids{8, 5, 6, 7, 5, 6, 7}, 5), (Ids{5, 6, 7, 5, 6}));
  EXPECT_EQ(repeated_after(Ids{4, 4, 4}, 4), (Ids{4, 4, 4, 4}));
}

TEST(RepeatedAfter, GivesNothingWhereNoTwoTokensCameBefore) {
  EXPECT_TRUE(repeated_after(Ids{}, 4).empty());
  EXPECT_TRUE(repeated_after(Ids{1}, 4).empty());
  EXPECT_TRUE(repeated_after(Ids{1, 1}, 4).empty());
  EXPECT_TRUE(repeated_after(Ids{1, 2, 3, 1}, 4).empty());
  EXPECT_TRUE(repeated_after(Ids{1, 2, 1, 2}, 0).empty());
}

TEST(DraftOptions, TakesGuessesThatFillAPass) {
  const std::size_t wanted[] = {0, 1, 1, 3, 3, 3, 3, 7};
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(DraftOptions::in_pass(i), wanted[i]) << i;
  EXPECT_EQ(DraftOptions::in_pass(DraftOptions::kMost), 31u);
}

TEST(DraftLength, GrowsWithRightGuessesAndPausesAfterWrongOnes) {
  DraftLength length(10);
  EXPECT_EQ(length.next(), 3u);
  length.tell(3, 3);
  EXPECT_EQ(length.next(), 7u);
  length.tell(7, 7);
  EXPECT_EQ(length.next(), 10u);
  length.tell(10, 3);
  EXPECT_EQ(length.next(), 4u);
  length.tell(1, 1);  // no more were found
  EXPECT_EQ(length.next(), 4u);
  length.tell(3, 0);
  EXPECT_EQ(length.next(), 1u);
  length.tell(1, 0);
  EXPECT_EQ(length.next(), 0u);
  EXPECT_EQ(length.next(), 0u);
  EXPECT_EQ(length.next(), 1u);
  length.tell(1, 1);
  EXPECT_EQ(length.next(), 3u);
  for (int i = 0; i < 40; ++i) length.tell(1, 0);
  int waits = 0;
  while (length.next() == 0) ++waits;
  EXPECT_EQ(waits, 30);
  EXPECT_EQ(DraftLength(2).next(), 2u);
}

Result<LanguageModel> model_of(const std::string& folder) {
  return load_language_model(storage::real_file_system(), shared_data(folder));
}

TEST(DraftModel, GuessesWhatTheSameModelWrites) {
  if (shared_data("stories260K").empty()) GTEST_SKIP() << "no ../shared/data";
  const auto model = model_of("stories260K/derived");
  ASSERT_TRUE(model) << model.error().text();
  auto draft = DraftModel::make(*model, *model, 2, 64, 0);
  ASSERT_TRUE(draft) << draft.error().text();
  for (const auto& [temperature, mirostat] : {std::pair(0.0, 0), std::pair(0.9, 0), std::pair(0.9, 2)}) {
    SamplerOptions options{.temperature = temperature, .repetition_penalty = 1.1, .seed = 7};
    options.steps.mirostat = mirostat;  // its cut goes with the text
    options.steps.mirostat_tau = 2;
    Sampler sampler(options);
    auto decoding = Decoding::begin(*model->mesh, 64);
    ASSERT_TRUE(decoding);
    Ids all = *model->tokenizer->encode("Once upon a time");
    const std::size_t prompt = all.size();
    auto logits = decoding->accept(all);
    for (int i = 0; i < 12; ++i) {
      ASSERT_TRUE(logits);
      const Sampler before = sampler;
      const auto id = sampler.pick(*logits, {all, prompt});
      ASSERT_TRUE(id);
      // In another slot each other time, and in the same one after other tokens.
      const Ids guesses = draft->guess(static_cast<std::size_t>(i % 2), {all, prompt}, before, 3);
      ASSERT_EQ(guesses.size(), 3u);
      EXPECT_EQ(guesses[0], *id) << i << ", temperature " << temperature;
      all.push_back(*id);
      logits = decoding->accept({&*id, 1});
    }
  }
  // Its context ends sooner or later.
  const Ids full(64, 5), over(65, 5);
  const Sampler usual{SamplerOptions()};
  EXPECT_EQ(draft->guess(0, {full, 64}, usual, 3).size(), 1u);
  EXPECT_TRUE(draft->guess(0, {over, 65}, usual, 3).empty());
  EXPECT_EQ(draft->guess(0, {std::span(full).first(10), 10}, usual, 3).size(), 3u);
}

TEST(DraftModel, IsRefusedWithAnotherVocabulary) {
  if (shared_data("stories260K").empty()) GTEST_SKIP() << "no ../shared/data";
  const auto model = model_of("stories260K/derived"), other = model_of("language/tinystories-656k");
  ASSERT_TRUE(model && other);
  const auto draft = DraftModel::make(*other, *model, 1, 64, 0);
  ASSERT_FALSE(draft);
  EXPECT_EQ(draft.error().code(), Errc::shape_mismatch);
  EXPECT_NE(draft.error().text().find("another vocabulary"), std::string::npos) << draft.error().text();
}

}  // namespace
}  // namespace weft::models::draft_test
