// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include "tests/server/stories.hpp"
#include <chrono>
#include <cstddef>
#include <future>
#include <string>

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

// A text of megabytes takes a second to become tokens: short ones are answered meanwhile.
TEST(Llama, LargeTextsHoldNoOthers) {
  if (!has_stories()) GTEST_SKIP() << "no ../shared/data";
  Stories stories;
  const auto short_ids = *stories.model().tokenizer().encode("a cat", {.add_special = false});
  std::string large;
  while (large.size() < std::size_t{6} << 20) large += "Once upon a time there was a cat. ";
  auto answer = std::async(std::launch::async, [&] { return stories.ask("/tokenize", {{"content", large}}); });
  int answered = 0;
  while (answer.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    EXPECT_EQ(stories.ask("/tokenize", {{"content", "a cat"}})["tokens"], Json(short_ids));
    ++answered;
  }
  EXPECT_GT(answer.get()["tokens"].size(), std::size_t{1} << 20);
  EXPECT_GT(answered, 5);
}

// Settings that an answer tells, sent back, draw the same text: -1 is all earlier tokens, and all candidates.
TEST(Llama, SettingsGoBackAsTheyCame) {
  if (!has_stories()) GTEST_SKIP() << "no ../shared/data";
  Stories stories;
  Json request{{"prompt", "Once upon"}, {"n_predict", 40}, {"seed", 3}, {"temperature", 1}, {"repeat_penalty", 5}};
  request["repeat_last_n"] = request["top_k"] = -1;
  const Json first = stories.ask("/completion", request);
  Json again = first["generation_settings"];
  EXPECT_EQ(again["repeat_last_n"], Json(-1));
  EXPECT_EQ(again["top_k"], Json(0)) << "all";
  again["prompt"] = "Once upon";
  EXPECT_EQ(stories.ask("/completion", again)["content"], first["content"]);
  request["repeat_last_n"] = 0;
  EXPECT_NE(stories.ask("/completion", request)["content"], first["content"]) << "0 is none";
  request["preset"] = "";
  EXPECT_EQ(stories.serving().ask("POST", "/completion", request.dump()).status, 400);
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

TEST(Llama, TakesItsSamplersOnEachRoute) {
  if (!has_stories()) GTEST_SKIP() << "no ../shared/data";
  Stories stories;
  const Json settings{{"dynatemp_range", 0.5},
                      {"dynatemp_exponent", 1.5},
                      {"top_n_sigma", 2.5},
                      {"xtc_probability", 0.25},
                      {"xtc_threshold", 0.125},
                      {"mirostat", 2},
                      {"mirostat_tau", 2.5},
                      {"mirostat_eta", 0.25},
                      {"dry_multiplier", 0.5},
                      {"dry_base", 1.25},
                      {"dry_allowed_length", 3},
                      {"dry_penalty_last_n", 64},
                      {"dry_sequence_breakers", Json::array({"\n", "said"})},
                      {"samplers", Json::array({"dry", "top_k", "temperature"})}};
  Json request{{"prompt", "The cat"}, {"n_predict", 60}, {"max_tokens", 60}, {"seed", 5}};
  const Json plain = stories.ask("/completion", request);
  for (const char* const key : {"temperature", "min_p", "top_p", "top_k"})  // as the other route has them
    request[key] = plain["generation_settings"][key];
  for (const auto& [key, value] : settings.members()) request[key] = value;
  const Json told = stories.ask("/completion", request);
  for (const auto& [key, value] : settings.members()) EXPECT_EQ(told["generation_settings"][key], value) << key;
  EXPECT_NE(told["content"].text(), plain["content"].text());
  EXPECT_EQ(stories.complete(request)["choices"][0]["text"].text(), told["content"].text());
  request["samplers"] = "dkt";
  EXPECT_EQ(stories.ask("/completion", request)["content"].text(), told["content"].text()) << "llama.cpp's letters";
  const auto refused = [&](const char* key, const char* value) {
    const Reply reply = stories.serving().ask(
        "POST", "/completion", std::string(R"({"prompt":"a","n_predict":1,")") + key + "\":" + value + "}");
    EXPECT_EQ(reply.status, 400) << reply.body;
    return reply.json()["error"]["param"] == Json(key) ? reply.json()["error"]["message"].text() : "another param";
  };
  EXPECT_EQ(refused("mirostat", "3"), "mirostat: found 3, expected a finite number from 0 to 2");
  EXPECT_EQ(refused("mirostat", "1.5"), "mirostat: found 1.5, expected a whole number");
  EXPECT_EQ(refused("xtc_probability", "1e99"), "xtc_probability: found 1e+99, expected a finite number from 0 to 1");
  EXPECT_EQ(refused("dry_base", "0.5"), "dry_base: found 0.5, expected a finite number from 1 to 100");
  EXPECT_NE(refused("samplers", R"(["top_k","adaptive_p"])").find("\"adaptive_p\" is none of penalties;dry"),
            std::string::npos);
  EXPECT_NE(refused("samplers", R"("kk")").find("\"k\" is there twice"), std::string::npos);
  EXPECT_NE(refused("preset", R"("vllm")").find("preset: \"vllm\" is none of llama.cpp, hf"), std::string::npos);
  std::string many = "[";
  for (int i = 0; i < 10000; ++i) many += "\"a\",";
  EXPECT_EQ(refused("dry_sequence_breakers", (many + "\"a\"]").c_str()),
            "dry_sequence_breakers: found an array of 10001, expected an array of 0 to 128");
}

TEST(Llama, DrawsAsThePresetSays) {
  if (!has_stories()) GTEST_SKIP() << "no ../shared/data";
  const Json request{{"prompt", "The cat"}, {"n_predict", 60}, {"max_tokens", 60}, {"seed", 5}};
  const auto with = [&](const char* key, const Json& value) {
    Json own = request;
    own[key] = value;
    return own;
  };
  Stories stories;
  const std::string greedy = stories.ask("/completion", with("temperature", 0))["content"].text();
  const std::string drawn = stories.ask("/completion", request)["content"].text();
  ASSERT_NE(drawn, greedy);
  // The model's file has no do_sample, which is false there.
  EXPECT_EQ(stories.ask("/completion", with("preset", "hf"))["content"].text(), greedy);
  EXPECT_EQ(stories.complete(with("preset", "hf"))["choices"][0]["text"].text(), greedy);
  EXPECT_NE(stories.complete(request)["choices"][0]["text"].text(), greedy);
  EXPECT_EQ(stories.complete(with("preset", "llama.cpp"))["choices"][0]["text"].text(), drawn);
  auto options = Stories::usual();
  options.preset = "hf";
  Stories preset(options);
  EXPECT_EQ(preset.complete(request)["choices"][0]["text"].text(), greedy);
  EXPECT_EQ(preset.ask("/completion", with("preset", "llama.cpp"))["content"].text(), drawn);
  EXPECT_EQ(preset.serving().ask("GET", "/props").json()["default_generation_settings"]["params"]["temperature"], 0);
}

}  // namespace
