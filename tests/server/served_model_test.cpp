// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include "tests/server/stories.hpp"
#include <functional>
#include <thread>

namespace {

using namespace weft;
using namespace weft::testing;

bool becomes(const std::function<bool()>& condition) {
  for (int i = 0; i < 10000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return false;
}

std::string http(const std::string& path, const Json& request, const std::string& id = "one") {
  const std::string body = request.dump();
  return "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nx-request-id: " + id +
         "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

const Json kShort{{"prompt", "The cat"}, {"max_tokens", 5}, {"temperature", 0}};
/// More than is written before a client can go.
const Json kLong{{"prompt", Json::array({Json("The cat"), Json("One day"), Json("Once upon a time")})},
                 {"max_tokens", 110},
                 {"n", 16},
                 {"logprobs", 20},
                 {"ignore_eos", true}};

TEST(ServedModel, FreesTheSlotsOfClientsThatGo) {
  if (!has_stories()) GTEST_SKIP() << "no ../shared/data";
  Stories stories;
  const Json before = stories.complete(kShort)["choices"];
  for (const bool streams : {true, false}) {
    Json request = kLong;
    request["stream"] = streams;
    Client client(stories.serving().address());
    client.send(http("/v1/completions", request));
    ASSERT_TRUE(becomes([&] { return stories.model().statistics()->busy == 3; }));
    client.abort();
    EXPECT_TRUE(becomes([&] { return stories.model().statistics()->busy == 0; }));
  }
  const auto& counters = stories.model().counters();
  EXPECT_EQ(counters.cancelled_prompt + counters.cancelled_decode, 2u);
  EXPECT_EQ(stories.complete(kShort)["choices"], before);
}

TEST(ServedModel, DropsThoseThatGoWhileTheyWaitAndNoOthers) {
  if (!has_stories()) GTEST_SKIP() << "no ../shared/data";
  Stories stories;
  stories.model().pause();
  Client first(stories.serving().address()), second(stories.serving().address());
  first.send(http("/v1/completions", kShort));
  ASSERT_TRUE(becomes([&] { return stories.model().waiting() == 1; }));
  second.send(http("/v1/completions", kShort));
  ASSERT_TRUE(becomes([&] { return stories.model().waiting() == 2; }));
  second.abort();
  EXPECT_TRUE(becomes([&] { return stories.model().waiting() == 1; }));
  EXPECT_EQ(stories.model().counters().cancelled_queued, 1u);
  EXPECT_EQ(stories.serving().ask("GET", "/health").status, 200);
  stories.model().resume();
  const auto reply = first.read();
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->status, 200);
}

TEST(ServedModel, RefusesWhatDoesNotFitTheQueue) {
  if (!has_stories()) GTEST_SKIP() << "no ../shared/data";
  auto options = Stories::usual();
  options.queue = 2;
  Stories stories(options);
  stories.model().pause();
  std::vector<std::unique_ptr<Client>> clients;
  for (std::size_t i = 0; i < 2; ++i) {
    clients.push_back(std::make_unique<Client>(stories.serving().address()));
    clients.back()->send(http("/v1/completions", kShort));
    ASSERT_TRUE(becomes([&] { return stories.model().waiting() == i + 1; }));
  }
  const Reply refused = stories.serving().ask("POST", "/v1/completions", kShort.dump());
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(refused.json()["error"]["type"].text(), "rate_limit_error");
  EXPECT_EQ(refused.headers.count("retry-after"), 1u);
  EXPECT_EQ(refused.headers.count("retry-after-ms"), 1u);
  stories.model().resume();
  for (const auto& each : clients) EXPECT_EQ(each->read()->status, 200);
  EXPECT_EQ(stories.model().counters().rejected, 1u);
}

TEST(ServedModel, EndsRequestsByTheirIds) {
  if (!has_stories()) GTEST_SKIP() << "no ../shared/data";
  Stories stories;
  const Serving& serving = stories.serving();
  EXPECT_EQ(serving.ask("POST", "/pause_generation", R"({"mode":"in_place"})").json()["status"].text(), "ok");
  Client first(serving.address()), second(serving.address());
  first.send(http("/v1/completions", kShort, "first"));
  second.send(http("/v1/completions", kShort, "second"));
  ASSERT_TRUE(becomes([&] { return stories.model().waiting() == 2; }));
  EXPECT_EQ(serving.ask("POST", "/abort_request", R"({"rid":"first"})").status, 200);
  const auto ended = first.read();
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->status, 503);
  EXPECT_EQ(ended->headers.at("x-should-retry"), "false");
  EXPECT_EQ(serving.ask("POST", "/continue_generation", "{}").status, 200);
  EXPECT_EQ(second.read()->status, 200);
  EXPECT_EQ(serving.ask("POST", "/abort_request", "{}").status, 400);
  EXPECT_EQ(serving.ask("POST", "/pause_generation", R"({"mode":"later"})").status, 400);
  EXPECT_EQ(serving.ask("POST", "/flush_cache", "{}").json()["success"], Json(true));
  EXPECT_EQ(serving.ask("GET", "/get_model_info").json()["model_path"].text(), "derived");
  EXPECT_EQ(serving.ask("POST", "/update_weights_from_disk", "{}").status, 501);
}

TEST(ServedModel, WaitsForSlowReadersAlone) {
  if (!has_stories()) GTEST_SKIP() << "no ../shared/data";
  Stories stories;
  const Json whole = stories.complete(kLong);
  Json request = kLong;
  request["seed"] = 3;
  const std::string expected = stories.complete(request)["choices"][40]["text"];
  request["stream"] = true;
  Client slow(stories.serving().address());
  slow.send(http("/v1/completions", request));
  ASSERT_TRUE(becomes([&] { return stories.model().statistics()->busy == 3; }));
  EXPECT_EQ(stories.serving().ask("GET", "/slots").status, 200);
  auto reply = slow.read();
  ASSERT_TRUE(reply);
  reply->body = slow.read_chunks().value_or("");
  const Streamed all = streamed(*std::move(reply));
  EXPECT_TRUE(all.is_done);
  EXPECT_EQ(all.text(40), expected);
}

TEST(ServedModel, GivesSlotsToMoreUrgentRequests) {
  if (!has_stories()) GTEST_SKIP() << "no ../shared/data";
  Stories plain;
  Json urgent = kShort, patient = kLong;
  const Json wanted = plain.complete(urgent)["choices"];
  patient["seed"] = 5;
  const Json all = plain.complete(patient)["choices"];
  patient["priority"] = 7;
  const Reply refused = plain.serving().ask("POST", "/v1/completions", patient.dump());
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(refused.json()["error"]["param"].text(), "priority");
  patient["priority"] = 1.5;
  EXPECT_EQ(plain.serving().ask("POST", "/v1/completions", patient.dump()).status, 400);

  auto options = Stories::usual();
  options.by_priority = true;
  Stories stories(options);
  patient["priority"] = 7;
  urgent["priority"] = -2;
  Client client(stories.serving().address());
  client.send(http("/v1/completions", patient));
  ASSERT_TRUE(becomes([&] { return stories.model().statistics()->busy == 3; }));
  std::size_t answers = 0;
  while (stories.model().counters().suspended == 0 && stories.model().statistics()->busy > 0 && answers < 1000) {
    EXPECT_EQ(stories.complete(urgent)["choices"], wanted);
    ++answers;
  }
  EXPECT_GT(stories.model().counters().suspended, 0u) << "after " << answers << " urgent requests";
  const auto reply = client.read();
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->status, 200);
  EXPECT_EQ(reply->json()["choices"], all);
  // One of the same priority waits for its turn, and one that was suspended ends with its client.
  Client gone(stories.serving().address());
  gone.send(http("/v1/completions", patient));
  ASSERT_TRUE(becomes([&] { return stories.model().statistics()->busy == 3; }));
  const auto before = stories.model().counters().suspended.load();
  Client other(stories.serving().address());
  Json same = urgent;
  same["priority"] = 7;
  other.send(http("/v1/completions", same));
  gone.abort();
  EXPECT_EQ(other.read()->json()["choices"], wanted);
  EXPECT_EQ(stories.model().counters().suspended, before);
  EXPECT_TRUE(becomes([&] { return stories.model().statistics()->busy == 0; }));
}

TEST(ServedModel, KeepsBeginningsForTheSameKeyAndSaltAlone) {
  if (!has_stories()) GTEST_SKIP() << "no ../shared/data";
  auto options = Stories::usual();
  options.isolates_keys = true;
  Stories stories(options);
  std::string prompt = "Once upon a time there was a little girl";
  for (int i = 0; i < 4; ++i) prompt += " and she said yes";
  const auto cached = [&](const std::string& key, const std::string& salt) {
    Json request{{"prompt", prompt}, {"max_tokens", 2}, {"temperature", 0}};
    if (!salt.empty()) request["cache_salt"] = salt;
    const Reply reply =
        stories.serving().ask("POST", "/v1/completions", request.dump(), {{"Authorization", "Bearer " + key}});
    EXPECT_EQ(reply.status, 200) << reply.body;
    return reply.json()["usage"]["prompt_tokens_details"]["cached_tokens"].get<std::size_t>();
  };
  EXPECT_EQ(cached("one", ""), 0u);
  EXPECT_GT(cached("one", ""), 20u);
  EXPECT_EQ(cached("two", ""), 0u);
  EXPECT_GT(cached("two", ""), 20u);
  EXPECT_EQ(cached("one", "salt"), 0u);
  EXPECT_GT(cached("one", "salt"), 20u);
}

TEST(ServedModel, TellsHowManyGuessesWereRight) {
  if (!has_stories()) GTEST_SKIP() << "no ../shared/data";
  const Json request{{"prompt", "Once upon a time"}, {"max_tokens", 60}, {"temperature", 0}, {"ignore_eos", true}};
  Stories plain;
  const Json wanted = plain.complete(request);
  EXPECT_FALSE(wanted["timings"].contains("draft_n"));
  server::ModelTable::Options options;
  options.serving = Stories::usual();
  options.serving.engine.drafts.most = 6;
  options.draft = shared_data("stories260K/derived");
  Stories stories(std::move(options));
  const Json answer = stories.complete(request);
  EXPECT_EQ(answer["choices"], wanted["choices"]);
  EXPECT_GT(answer["timings"]["draft_n"].get<std::size_t>(), 30u);
  EXPECT_EQ(answer["timings"]["draft_n"], answer["timings"]["draft_n_accepted"]);
  const std::string metrics = stories.serving().ask("GET", "/metrics").body;
  EXPECT_NE(metrics.find("\nweft_draft_tokens_accepted_total{mesh=\"stories\"} " + answer["timings"]["draft_n"].dump() +
                         "\n"),
            std::string::npos)
      << metrics;
}

TEST(ServedModel, TellsAStreamThatTheServerStops) {
  if (!has_stories()) GTEST_SKIP() << "no ../shared/data";
  Stories stories;
  Json request = kLong;
  request["stream"] = true;
  Client client(stories.serving().address());
  client.send(http("/v1/completions", request));
  ASSERT_TRUE(becomes([&] { return stories.model().statistics()->busy == 3; }));
  std::thread stops([&] { EXPECT_TRUE(stories.serving().service().stop(std::chrono::milliseconds(0))); });
  const std::string all = client.read_until("The server is stopping");
  EXPECT_NE(all.find("data: {\"error\":"), std::string::npos);
  EXPECT_EQ(all.find("[DONE]"), std::string::npos);
  stops.join();
}

TEST(ServedModel, CountsForMetrics) {
  if (!has_stories()) GTEST_SKIP() << "no ../shared/data";
  Stories stories;
  const Json answer = stories.complete(kShort);
  const std::string text = stories.serving().ask("GET", "/metrics").body;
  const auto has = [&](const std::string& line) {
    EXPECT_NE(text.find("\n" + line + "\n"), std::string::npos) << line << "\n" << text;
  };
  const std::string model = "{mesh=\"stories\"}";
  has("weft_generated_tokens_total" + model + " 5");
  has("weft_prompt_tokens_total" + model + " " + answer["usage"]["prompt_tokens"].dump());
  has("weft_slots" + model + " 3");
  has("weft_queue_requests_total" + model + " 1");
  has("weft_time_to_first_token_seconds_count" + model + " 1");
  has("weft_inter_token_seconds_count" + model + " 4");
  has("weft_inter_token_seconds_bucket{mesh=\"stories\",le=\"+Inf\"} 4");
  has("weft_preemptions_total" + model + " 0");
  has("weft_prefix_cache_bytes" + model + " 0");
  has("weft_draft_tokens_total" + model + " 0");
  has("weft_requests_cancelled_total{mesh=\"stories\",stage=\"queued\"} 0");
}

}  // namespace
