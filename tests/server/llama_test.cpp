// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include "tests/server/stories.hpp"

namespace {

using namespace weft;
using namespace weft::testing;

TEST(Llama, TellsPropertiesAndSlots) {
  if (!has_stories()) GTEST_SKIP() << "no ../shared/data";
  Stories stories;
  const Json properties = stories.serving().ask("GET", "/props").json();
  EXPECT_EQ(properties["total_slots"], 3);
  EXPECT_EQ(properties["model_path"].text(), "derived");
  EXPECT_EQ(properties["default_generation_settings"]["n_ctx"], 128);
  EXPECT_EQ(properties["default_generation_settings"]["params"]["top_k"], 40);
  EXPECT_EQ(properties["modalities"]["vision"], Json(false));
  EXPECT_TRUE(properties["build_info"].text().starts_with("weft-"));
  const Json slots = stories.serving().ask("GET", "/slots?fail_on_no_slot=1").json();
  ASSERT_EQ(slots.size(), 3u);
  EXPECT_EQ(slots[2]["id"], 2);
  EXPECT_EQ(slots[2]["is_processing"], Json(false));
  EXPECT_EQ(stories.serving().ask("GET", "/props?model=%zz").status, 400);
  EXPECT_EQ(stories.serving().ask("POST", "/props", "{}").status, 501);
  EXPECT_EQ(stories.serving().ask("POST", "/slots/0?action=save", R"({"filename":"a"})").status, 501);
  EXPECT_EQ(Serving().ask("GET", "/props").status, 404);
}

TEST(Llama, MakesTokensAndBack) {
  if (!has_stories()) GTEST_SKIP() << "no ../shared/data";
  Stories stories;
  const std::string text = "The cat said \xC3\xA9\xE2\x82\xAC!";
  const auto ids = *stories.model().tokenizer().encode(text, {.add_special = false});
  EXPECT_EQ(stories.ask("/tokenize", {{"content", text}})["tokens"], Json(ids));
  const Json whole = stories.ask("/tokenize", {{"content", text}, {"add_special", true}})["tokens"];
  EXPECT_EQ(whole.size(), ids.size() + 1);
  const Json pieces = stories.ask("/tokenize", {{"content", text}, {"with_pieces", true}})["tokens"];
  std::string joined;
  for (const Json& each : pieces) {
    if (each["piece"].is_string())
      joined += each["piece"].text();
    else
      for (const Json& byte : each["piece"]) joined += static_cast<char>(byte.get<int>());
  }
  EXPECT_EQ(joined, " " + text);  // its tokenizer puts a space before a text
  EXPECT_EQ(stories.ask("/detokenize", {{"tokens", ids}})["content"].text(), text);
}

TEST(Llama, CompletesAsTheOtherRouteDoes) {
  if (!has_stories()) GTEST_SKIP() << "no ../shared/data";
  Stories stories;
  const Json expected = stories.complete({{"prompt", "The cat"}, {"temperature", 0}, {"max_tokens", 12}});
  Json request{{"prompt", "The cat"}, {"temperature", 0}, {"n_predict", 12}, {"return_tokens", true}, {"n_probs", 2}};
  const Json whole = stories.ask("/completion", request);
  EXPECT_EQ(whole["content"], expected["choices"][0]["text"]);
  EXPECT_EQ(whole["tokens"].size(), 12u);
  EXPECT_EQ(whole["stop_type"].text(), "limit");
  EXPECT_EQ(whole["tokens_evaluated"], expected["usage"]["prompt_tokens"]);
  EXPECT_EQ(whole["tokens_predicted"], 12);
  EXPECT_EQ(whole["timings"]["predicted_n"], 12);
  ASSERT_EQ(whole["completion_probabilities"].size(), 12u);
  EXPECT_EQ(whole["completion_probabilities"][3]["id"], whole["tokens"][3]);
  EXPECT_EQ(whole["completion_probabilities"][3]["top_logprobs"].size(), 2u);
  request["stream"] = true;
  const Streamed streamed = stories.stream("/completion", request);
  EXPECT_FALSE(streamed.is_done);  // it has no [DONE]
  std::string text;
  for (const Json& each : streamed.events) {
    text += each["content"].text();
    EXPECT_EQ(each["stop"], Json(&each == &streamed.events.back()));
  }
  EXPECT_EQ(Json(text), whole["content"]);
  const Json stopped = stories.ask("/completion", {{"prompt", "The cat"}, {"temperature", 0}, {"stop", {Json(" ")}}});
  EXPECT_EQ(stopped["stop_type"].text(), "word");
  EXPECT_EQ(stopped["stopping_word"].text(), " ");
  // Without a bound it ends with a text or the context.
  const Json all = stories.ask("/completion", {{"prompt", "The cat"}, {"n_predict", -1}, {"seed", -1}});
  EXPECT_GT(all["tokens_predicted"].get<int>(), 0);
  EXPECT_EQ(stories.serving().ask("POST", "/completion", R"({"prompt":"a","grammar":"root ::= x"})").status, 400);
}

}  // namespace
