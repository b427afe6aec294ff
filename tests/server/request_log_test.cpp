// SPDX-License-Identifier: Apache-2.0
// Digests and state hashes of texts, the request log, deadlines.

#include "server/request_log.hpp"

#include "models/text_replay.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/server/stories.hpp"
#include "tests/support/temporary_directory.hpp"
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

namespace weft::server::request_log_test {
namespace {

using namespace weft::testing;

const Json kShort{{"prompt", "The cat"}, {"max_tokens", 5}, {"temperature", 0}};

std::vector<models::TextRecord> records_of(const std::string& path) {
  std::vector<models::TextRecord> all;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    auto record = models::read_text_record(line, path);
    EXPECT_TRUE(record) << record.error().text();
    if (record) all.push_back(*std::move(record));
  }
  return all;
}

TEST(RequestLog, HasEachTextAndItsRequestToBeWrittenAgain) {
  if (!has_stories()) GTEST_SKIP() << "no ../shared/data";
  storage::TemporaryDirectory directory;
  const std::string path = directory.path() + "/texts.jsonl";
  auto log = server::RequestLog::open(path, "test");
  ASSERT_TRUE(log) << log.error().text();
  auto options = Stories::usual();
  options.log = *log;
  Stories stories(options);
  const Json plain = stories.complete({{"prompt", "Once upon a time"}, {"max_tokens", 9}, {"n", 3}, {"logprobs", 2}});
  stories.stream("/v1/completions", {{"prompt", "One day"}, {"max_tokens", 200}, {"stop", "."}, {"stream", true}});
  stories.ask("/completion", {{"prompt", "The cat"}, {"n_predict", 7}, {"grammar", "root ::= [a-z ]+"}});
  stories.ask("/v1/embeddings", {{"input", "The cat"}});  // writes no text
  std::vector<models::TextRecord> records = records_of(path);
  ASSERT_EQ(records.size(), 5u);
  EXPECT_EQ((*log)->lines(), 5u);
  std::set<std::uint64_t> seeds;
  for (const auto& each : records) {
    EXPECT_EQ(each.model, "stories");
    EXPECT_EQ(each.digest, stories.model().description().digest);
    EXPECT_TRUE(each.state);
    seeds.insert(each.request.sampler.seed);
  }
  EXPECT_EQ(seeds.size(), 5u);  // those that were drawn are there
  const auto made = models::replay_texts(stories.model().model(), records, {.slots = 2});
  ASSERT_TRUE(made) << made.error().text();
  for (const auto& each : made->differences) ADD_FAILURE() << each.record << ": " << each.what;
  struct stat found {};
  ASSERT_EQ(::stat(path.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0600u);

  std::filesystem::rename(path, path + ".1");
  (*log)->reopen();
  stories.complete(kShort);
  EXPECT_EQ(records_of(path).size(), 1u);
  EXPECT_EQ(records_of(path + ".1").size(), 5u);
  const std::string metrics = stories.serving().ask("GET", "/metrics").body;
  EXPECT_NE(metrics.find("weft_request_log_lines_total 6"), std::string::npos);
  EXPECT_FALSE(server::RequestLog::open(directory.path() + "/no/such", "test"));
}

TEST(RequestLog, AnswersWhereItCannotWrite) {
  if (!has_stories()) GTEST_SKIP() << "no ../shared/data";
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  storage::TemporaryDirectory directory;
  const std::string path = directory.path() + "/full";
  std::filesystem::create_symlink("/dev/full", path);
  auto log = server::RequestLog::open(path, "test");
  if (!log) GTEST_SKIP() << log.error().text();
  auto options = Stories::usual();
  options.log = *log;
  Stories stories(options);
  const Json choices = stories.complete(kShort)["choices"];
  EXPECT_EQ(choices[0]["finish_reason"].text(), "length");
  EXPECT_EQ((*log)->failures(), 1u);
  EXPECT_EQ((*log)->lines(), 0u);
}

TEST(Digests, AreToldByPropertiesAndFingerprints) {
  if (!has_stories()) GTEST_SKIP() << "no ../shared/data";
  Stories stories;
  const Json told = stories.serving().ask("GET", "/props").json()["weft"];
  const auto& digest = stories.model().description().digest;
  EXPECT_EQ(told["model_digest"].text(), to_string(digest.weights));
  EXPECT_EQ(told["options_digest"].text(), to_string(digest.options));
  const std::string fingerprint = stories.complete(kShort)["system_fingerprint"];
  EXPECT_EQ(fingerprint.size(), std::string("weft-test-wv1-").size() + 16);
  EXPECT_TRUE(fingerprint.starts_with("weft-test-wv1-")) << fingerprint;
}

TEST(StateHash, IsToldOfEachTextThatAsksForIt) {
  if (!has_stories()) GTEST_SKIP() << "no ../shared/data";
  Stories stories;
  EXPECT_FALSE(stories.complete(kShort)["choices"][0].contains("state_hash"));
  Json request = kShort;
  request["return_state_hash"] = true;
  const std::string hash = stories.complete(request)["choices"][0]["state_hash"];
  EXPECT_EQ(hash.size(), 32u);
  request["seed"] = 3;  // a greedy text is the same with any
  EXPECT_EQ(stories.complete(request)["choices"][0]["state_hash"].text(), hash);
  request["stream"] = true;
  const Streamed streamed = stories.stream("/v1/completions", request);
  EXPECT_EQ(streamed.events.back()["choices"][0]["state_hash"].text(), hash);
  EXPECT_FALSE(streamed.events.front()["choices"][0].contains("state_hash"));
  const Json llama = stories.ask(
      "/completion", {{"prompt", "The cat"}, {"n_predict", 5}, {"temperature", 0}, {"return_state_hash", true}});
  EXPECT_EQ(llama["state_hash"].text(), hash);
  request["max_tokens"] = 6;
  EXPECT_NE(stories.complete(kShort), Json());
  request["stream"] = false;
  EXPECT_NE(stories.complete(request)["choices"][0]["state_hash"].text(), hash);
}

TEST(Deadline, EndsARequestThatWaitsOrWrites) {
  if (!has_stories()) GTEST_SKIP() << "no ../shared/data";
  Stories stories;
  Json request = kShort;
  request["timeout"] = 0.05;
  stories.model().pause();
  const Reply waiting = stories.serving().ask("POST", "/v1/completions", request.dump());
  EXPECT_EQ(waiting.status, 504);
  EXPECT_EQ(waiting.json()["error"]["code"].text(), "deadline_exceeded");
  EXPECT_NE(waiting.json()["error"]["message"].text().find("was not begun"), std::string::npos);
  stories.model().resume();
  // 64 texts of 110 tokens with logprobs take longer than a tenth of a second on any machine, three at a time.
  Json slow{{"prompt", "The cat"}, {"max_tokens", 110}, {"n", 16},           {"best_of", 64},
            {"logprobs", 20},      {"timeout", 0.1},    {"ignore_eos", true}};
  const Reply writing = stories.serving().ask("POST", "/v1/completions", slow.dump());
  EXPECT_EQ(writing.status, 504);
  EXPECT_NE(writing.json()["error"]["message"].text().find("was not whole"), std::string::npos);
  EXPECT_EQ(stories.model().counters().timed_out, 2u);
  request["timeout"] = 3600;
  const Json in_time = stories.complete(request)["choices"];
  EXPECT_EQ(in_time, stories.complete(kShort)["choices"]);
  for (const Json& wrong : {Json(0), Json(-1), Json("soon"), Json(1e9)}) {
    request["timeout"] = wrong;
    const Reply refused = stories.serving().ask("POST", "/v1/completions", request.dump());
    EXPECT_EQ(refused.status, 400);
    EXPECT_EQ(refused.json()["error"]["param"].text(), "timeout");
  }
}

TEST(Deadline, TheNearestOfOnePriorityComesFirst) {
  if (!has_stories()) GTEST_SKIP() << "no ../shared/data";
  auto options = Stories::usual();
  options.by_priority = true;
  options.engine.slots = 1;
  storage::TemporaryDirectory directory;
  const std::string path = directory.path() + "/texts.jsonl";
  options.log = *server::RequestLog::open(path, "test");
  Stories stories(options);
  stories.model().pause();
  std::vector<std::thread> clients;
  const auto send = [&](int tokens, const Json& timeout, int priority) {
    const std::size_t before = stories.model().waiting();
    Json request = kShort;
    request["max_tokens"] = tokens;
    request["ignore_eos"] = true;
    if (!timeout.is_null()) request["timeout"] = timeout;
    request["priority"] = priority;
    clients.emplace_back([&stories, request] { stories.complete(request); });
    while (stories.model().waiting() == before) std::this_thread::yield();
  };
  send(1, {}, 0);
  send(2, 3000, 0);
  send(3, 2000, 0);
  send(4, 1000, 1);
  stories.model().resume();
  for (std::thread& each : clients) each.join();
  std::vector<std::size_t> order;
  for (const auto& each : records_of(path)) order.push_back(each.ids.size());
  EXPECT_EQ(order, (std::vector<std::size_t>{3, 2, 1, 4}));
}

}  // namespace
}  // namespace weft::server::request_log_test
