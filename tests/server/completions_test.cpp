// SPDX-License-Identifier: Apache-2.0

#include "models/language_model.hpp"

#include "storage/file_system.hpp"

#include <gtest/gtest.h>

#include "tests/server/stories.hpp"
#include <algorithm>
#include <atomic>
#include <map>
#include <random>
#include <thread>

namespace {

using namespace weft;
using namespace weft::testing;

TEST(Completions, ListsModelsAndMeshes) {
  if (!has_stories()) GTEST_SKIP() << "no ../shared/data";
  Stories stories;
  stories.serving().make("net");
  const Json list = stories.serving().ask("GET", "/v1/models").json();
  EXPECT_EQ(list["object"].text(), "list");
  ASSERT_EQ(list["data"].size(), 2u);
  EXPECT_EQ(list["data"][0]["id"].text(), "stories");
  EXPECT_EQ(list["data"][0]["object"].text(), "model");
  EXPECT_EQ(list["data"][0]["meta"]["n_vocab"], 512);
  EXPECT_EQ(list["data"][0]["meta"]["n_embd"], 64);
  EXPECT_EQ(list["data"][0]["meta"]["n_ctx"], 128);
  EXPECT_EQ(list["data"][1]["id"].text(), "net");
  EXPECT_EQ(stories.serving().ask("GET", "/v1/models/stories").json(), list["data"][0]);
  EXPECT_EQ(stories.serving().ask("GET", "/v1/models/net").status, 200);
  const Reply missing = stories.serving().ask("GET", "/v1/models/a%2Fb");
  EXPECT_EQ(missing.status, 404);
  EXPECT_EQ(missing.json()["error"]["code"].text(), "model_not_found");
}

TEST(Completions, AreWhatGenerateWrites) {
  if (!has_stories()) GTEST_SKIP() << "no ../shared/data";
  Stories stories;
  const auto model = models::load_language_model(storage::real_file_system(), shared_data("stories260K/derived"));
  ASSERT_TRUE(model) << model.error().text();
  for (const double temperature : {0.0, 1.0}) {
    models::GenerateOptions options;
    options.sampler.temperature = temperature;
    options.sampler.top_k = 0, options.sampler.top_p = 1, options.sampler.min_p = 0;
    options.sampler.seed = 77;
    options.most_tokens = 30;
    const auto expected = models::generate(*model, "Once upon a time", options, [](auto) { return Status(); });
    ASSERT_TRUE(expected);
    const Json answer = stories.complete({{"prompt", "Once upon a time"},
                                          {"temperature", temperature},
                                          {"seed", 77},
                                          {"max_tokens", 30},
                                          {"user", "an unknown key is passed over"},
                                          {"stop", nullptr}});
    EXPECT_EQ(answer["object"].text(), "text_completion");
    EXPECT_EQ(answer["model"].text(), "stories");
    EXPECT_TRUE(answer["id"].text().starts_with("cmpl-"));
    ASSERT_EQ(answer["choices"].size(), 1u);
    EXPECT_EQ(answer["choices"][0]["text"].text(), expected->text);
    EXPECT_EQ(answer["choices"][0]["finish_reason"].text(), "length");
    EXPECT_TRUE(answer["choices"][0]["logprobs"].is_null());
    EXPECT_EQ(answer["usage"]["prompt_tokens"], expected->prompt.size());
    EXPECT_EQ(answer["usage"]["completion_tokens"], 30);
    EXPECT_EQ(answer["usage"]["total_tokens"], expected->prompt.size() + 30);
  }
}

TEST(Completions, TakePromptsOfEveryKind) {
  if (!has_stories()) GTEST_SKIP() << "no ../shared/data";
  Stories stories;
  const auto ids = *stories.model().tokenizer().encode("The cat");
  const Json text = stories.complete({{"prompt", "The cat"}, {"temperature", 0}});
  const Json tokens = stories.complete({{"prompt", ids}, {"temperature", 0}});
  const Json both = stories.complete(
      {{"prompt", Json::array({Json("The cat"), Json("One day")})}, {"temperature", 0}, {"n", 2}, {"echo", true}});
  const std::string written = text["choices"][0]["text"];
  EXPECT_EQ(tokens["choices"][0]["text"].text(), written);
  ASSERT_EQ(both["choices"].size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(both["choices"][i]["index"], i);
  EXPECT_EQ(both["choices"][0]["text"].text(), "The cat" + written);
  EXPECT_EQ(both["choices"][1]["text"].text(), "The cat" + written);
  EXPECT_TRUE(both["choices"][2]["text"].text().starts_with("One day"));
  EXPECT_EQ(both["usage"]["completion_tokens"], 64);
  const Json lists = stories.complete({{"prompt", Json::array({Json(ids), Json(ids)})}, {"temperature", 0}});
  EXPECT_EQ(lists["choices"][1]["text"].text(), written);
}

TEST(Completions, EndAtStopStrings) {
  if (!has_stories()) GTEST_SKIP() << "no ../shared/data";
  Stories stories;
  const Json request{{"prompt", "Once upon a time"}, {"temperature", 0}, {"max_tokens", 60}};
  const std::string whole = stories.complete(request)["choices"][0]["text"];
  const std::size_t at = whole.find(" the");
  ASSERT_NE(at, std::string::npos);
  Json stopped = request;
  stopped["stop"] = Json::array({Json("never there"), Json(" the")});
  const Json answer = stories.complete(stopped);
  EXPECT_EQ(answer["choices"][0]["text"].text(), whole.substr(0, at));
  EXPECT_EQ(answer["choices"][0]["finish_reason"].text(), "stop");
  stopped["stream"] = true;
  EXPECT_EQ(stories.stream("/v1/completions", stopped).text(), whole.substr(0, at));
}

TEST(Completions, TellLogprobs) {
  if (!has_stories()) GTEST_SKIP() << "no ../shared/data";
  Stories stories;
  const Json answer =
      stories.complete({{"prompt", "The cat"}, {"temperature", 0}, {"max_tokens", 5}, {"logprobs", 2}, {"echo", true}});
  const Json& choice = answer["choices"][0];
  const std::size_t prompt = answer["usage"]["prompt_tokens"].get<std::size_t>();
  const Json& lists = choice["logprobs"];
  ASSERT_EQ(lists["tokens"].size(), prompt + 5);
  ASSERT_EQ(lists["text_offset"].size(), prompt + 5);
  EXPECT_TRUE(lists["token_logprobs"][0].is_null());
  for (std::size_t i = prompt; i < prompt + 5; ++i) {
    const double logprob = lists["token_logprobs"][i];
    EXPECT_LE(logprob, 0);
    EXPECT_EQ(lists["top_logprobs"][i].size(), 2u);
    // Greedy: the token is the likeliest one.
    EXPECT_EQ(lists["top_logprobs"][i][lists["tokens"][i].text()], logprob);
  }
  // Only the prompt is scored: nothing is written.
  const Json scored = stories.complete({{"prompt", "The cat"}, {"max_tokens", 0}, {"logprobs", 0}, {"echo", true}});
  EXPECT_EQ(scored["choices"][0]["text"].text(), "The cat");
  ASSERT_EQ(scored["choices"][0]["logprobs"]["token_logprobs"].size(), prompt);
  EXPECT_EQ(scored["choices"][0]["logprobs"]["token_logprobs"][1], lists["token_logprobs"][1]);
  // The best of three has the highest mean of the three.
  const Json request{{"prompt", "The cat"}, {"max_tokens", 6}, {"logprobs", 0}, {"seed", 4}, {"n", 3}};
  const auto mean_of = [](const Json& of) {
    double sum = 0;
    for (const Json& each : of["logprobs"]["token_logprobs"]) sum += each.get<double>();
    return sum / static_cast<double>(of["logprobs"]["token_logprobs"].size());
  };
  const Json three = stories.complete(request);
  double best = -1e9;
  for (const Json& each : three["choices"]) best = std::max(best, mean_of(each));
  Json one = request;
  one["n"] = 1, one["best_of"] = 3;
  const Json chosen = stories.complete(one);
  ASSERT_EQ(chosen["choices"].size(), 1u);
  EXPECT_EQ(mean_of(chosen["choices"][0]), best);
}

/// Greedy ids, where a token that was written costs `presence` once and `frequency` each time.
std::vector<text::TokenId> penalized(const models::LanguageModel& model, std::vector<text::TokenId> ids,
                                     std::size_t count, float presence, float frequency) {
  auto decoding = models::Decoding::begin(*model.mesh, 128);
  std::vector<text::TokenId> written;
  std::map<text::TokenId, int> counts;
  std::span<const text::TokenId> now = ids;
  while (written.size() < count) {
    const auto logits = decoding->accept(now);
    std::vector<float> changed(logits->begin(), logits->end());
    for (const auto& [id, times] : counts) changed[id] -= presence + frequency * static_cast<float>(times);
    const auto next = static_cast<text::TokenId>(std::max_element(changed.begin(), changed.end()) - changed.begin());
    written.push_back(next);
    ++counts[next];
    now = std::span(&written.back(), 1);
  }
  return written;
}

TEST(Completions, FollowPenaltiesAndBiases) {
  if (!has_stories()) GTEST_SKIP() << "no ../shared/data";
  Stories stories;
  const auto& model = stories.model().model();
  const auto ids = *model.tokenizer->encode("The cat");
  const auto text_of = [&](std::vector<text::TokenId> written) {
    std::vector<text::TokenId> all = ids;
    all.insert(all.end(), written.begin(), written.end());
    return model.tokenizer->decode(all, true).substr(model.tokenizer->decode(ids, true).size());
  };
  const Json request{{"prompt", "The cat"}, {"temperature", 0}, {"max_tokens", 30}, {"ignore_eos", true}};
  const auto ask = [&](const Json& more) {
    Json all = request;
    all.update(more);
    return stories.complete(all)["choices"][0]["text"].text();
  };
  EXPECT_EQ(ask({{"presence_penalty", 1.5}}), text_of(penalized(model, ids, 30, 1.5f, 0)));
  EXPECT_EQ(ask({{"frequency_penalty", 2}}), text_of(penalized(model, ids, 30, 0, 2)));
  EXPECT_EQ(ask({{"frequency_penalty", 0.5}, {"presence_penalty", -1}}), text_of(penalized(model, ids, 30, -1, 0.5f)));
  EXPECT_EQ(ask({{"logit_bias", {{"300", 100}}}}), text_of(std::vector<text::TokenId>(30, 300)));
  const auto free = penalized(model, ids, 30, 0, 0);
  Json banned = Json::object();
  banned[std::to_string(free[0])] = -100;
  const std::string other = ask({{"logit_bias", banned}});
  EXPECT_NE(other, text_of(free));
  const Json llama =
      stories.ask("/completion", {{"prompt", "The cat"},
                                  {"temperature", 0},
                                  {"n_predict", 30},
                                  {"ignore_eos", true},
                                  {"logit_bias", Json::array({Json::array({Json(free[0]), Json(false)})})}});
  EXPECT_EQ(llama["content"].text(), other);
}

TEST(Completions, StreamWhatTheyWouldAnswer) {
  if (!has_stories()) GTEST_SKIP() << "no ../shared/data";
  Stories stories;
  Json request{{"prompt", "Lily"}, {"seed", 9}, {"max_tokens", 40}, {"n", 2}, {"logprobs", 1}, {"cache_prompt", false}};
  const Json whole = stories.complete(request);
  request["stream"] = true;
  request["stream_options"] = {{"include_usage", true}};
  const Streamed streamed = stories.stream("/v1/completions", request);
  EXPECT_EQ(streamed.reply.headers.at("content-type"), "text/event-stream; charset=utf-8");
  EXPECT_EQ(streamed.reply.headers.count("content-length"), 0u);
  ASSERT_GE(streamed.events.size(), 4u);
  EXPECT_TRUE(streamed.is_done);
  EXPECT_EQ(streamed.text(0), whole["choices"][0]["text"].text());
  EXPECT_EQ(streamed.text(1), whole["choices"][1]["text"].text());
  EXPECT_NE(streamed.text(0), streamed.text(1));
  const Json& last = streamed.events.back();
  EXPECT_TRUE(last["choices"].is_array() && last["choices"].empty());
  EXPECT_EQ(last["usage"], whole["usage"]);
  std::size_t tokens = 0, offset = 0;
  for (const Json& each : streamed.events) {
    EXPECT_EQ(each["id"], last["id"]);
    if (each["choices"].empty()) continue;
    EXPECT_TRUE(each["usage"].is_null());
    if (each["choices"][0]["index"] != 0u) continue;
    const Json& lists = each["choices"][0]["logprobs"];
    for (std::size_t i = 0; i < lists["tokens"].size(); ++i, ++tokens) {
      EXPECT_EQ(lists["token_logprobs"][i], whole["choices"][0]["logprobs"]["token_logprobs"][tokens]);
      EXPECT_EQ(lists["text_offset"][i], offset);
      offset += lists["tokens"][i].text().size();
    }
  }
  EXPECT_EQ(tokens, 40u);
}

/// Another request for each number.
Json request_of(std::uint32_t number) {
  std::mt19937 random(number);
  static const char* const kBegins[] = {"Once upon a time", "The cat", "Lily and Tom went to the park and", "One day"};
  Json request{{"prompt", kBegins[random() % 4]},
               {"temperature", random() % 3 == 0 ? 0.0 : 1.0},
               {"seed", random()},
               {"max_tokens", 1 + random() % 50},
               {"n", 1 + random() % 2},
               {"logprobs", 1}};
  if (random() % 3 == 0) request["stop"] = Json::array({Json("."), Json(" the")});
  return request;
}

TEST(Completions, AreTheSameUnderLoad) {
  if (!has_stories()) GTEST_SKIP() << "no ../shared/data";
  Stories stories;
  constexpr std::uint32_t kRequests = 24;
  std::vector<Json> alone;
  for (std::uint32_t i = 0; i < kRequests; ++i) alone.push_back(stories.complete(request_of(i)));
  std::vector<Json> together(kRequests);
  std::atomic<std::uint32_t> next{0};
  std::atomic<bool> ends{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (std::uint32_t mine = next++; mine < kRequests; mine = next++)
        together[mine] = stories.complete(request_of(mine));
    });
  // Others that come and go, some without waiting for their answers.
  std::thread others([&] {
    for (std::uint32_t number = 1000; !ends; ++number) {
      Client client(stories.serving().address());
      const std::string body = request_of(number).dump();
      client.send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(body.size()) +
                  "\r\n\r\n" + body);
      if (number % 2) (void)client.read();
    }
  });
  for (std::thread& each : threads) each.join();
  ends = true;
  others.join();
  for (std::uint32_t i = 0; i < kRequests; ++i) EXPECT_EQ(together[i]["choices"], alone[i]["choices"]) << i;
}

TEST(Completions, RefuseWhatCannotBe) {
  if (!has_stories()) GTEST_SKIP() << "no ../shared/data";
  Stories stories;
  stories.serving().make("net");
  const auto refused = [&](Json request, int status, const std::string& param) {
    if (!request.contains("prompt")) request["prompt"] = "The cat";
    const Reply reply = stories.serving().ask("POST", "/v1/completions", request.dump());
    EXPECT_EQ(reply.status, status) << reply.body;
    const Json error = reply.json()["error"];
    EXPECT_EQ(error["param"], param.empty() ? Json() : Json(param)) << reply.body;
    return error;
  };
  EXPECT_EQ(refused({{"temperature", 3}}, 400, "temperature")["type"].text(), "invalid_request_error");
  refused({{"max_tokens", "many"}}, 400, "max_tokens");
  refused({{"max_tokens", 0}}, 400, "max_tokens");
  refused({{"n", 17}}, 400, "n");
  refused({{"n", 2}, {"best_of", 1}}, 400, "best_of");
  refused({{"best_of", 2}, {"stream", true}}, 400, "best_of");
  refused({{"suffix", "end"}}, 501, "suffix");
  refused({{"presence_penalty", 3}}, 400, "presence_penalty");
  refused({{"logit_bias", {{"512", 1}}}}, 400, "logit_bias.512");
  refused({{"logit_bias", {{"cat", 1}}}}, 400, "logit_bias");
  refused({{"stop", Json::array({Json(1)})}}, 400, "stop[0]");
  refused({{"prompt", 7}}, 400, "prompt");
  refused({{"prompt", Json::array()}}, 400, "prompt");
  refused({{"prompt", Json::array({Json(100000)})}}, 400, "");
  EXPECT_EQ(refused({{"model", "net"}}, 501, "model")["type"].text(), "not_supported_error");
  std::string far;
  for (int i = 0; i < 200; ++i) far += " cat";
  const Json beyond = refused({{"prompt", far}}, 400, "");
  EXPECT_EQ(beyond["code"].text(), "context_length_exceeded");
  EXPECT_EQ(beyond["n_ctx"], 128);
  EXPECT_GT(beyond["n_prompt_tokens"].get<int>(), 128);
  EXPECT_EQ(stories.serving().ask("POST", "/v1/completions", "{").status, 400);
  EXPECT_EQ(stories.serving().ask("POST", "/v1/completions", "[]").status, 400);
  EXPECT_EQ(stories.serving().ask("GET", "/v1/completions").status, 405);
  // One model answers for every name; of several each must be named.
  EXPECT_EQ(stories.complete({{"prompt", "The"}, {"model", "gpt-4"}})["model"].text(), "stories");
  ASSERT_TRUE(stories.load("second"));
  EXPECT_EQ(refused({{"model", "gpt-4"}}, 404, "model")["code"].text(), "model_not_found");
  refused(Json::object(), 400, "model");
  EXPECT_FALSE(stories.load("second"));
}

}  // namespace
