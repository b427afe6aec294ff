// SPDX-License-Identifier: Apache-2.0
// planetbridging's HTTP host: routes, the order of checks, many requests at once.

#include "core/json.hpp"

#include <gtest/gtest.h>

#include "tests/server/serving.hpp"
#include "tests/support/source_path.hpp"
#include "tests/support/temporary_directory.hpp"
#include <atomic>
#include <filesystem>
#include <thread>

namespace weft::server::bridge_test {
namespace {

using storage::TemporaryDirectory;
using testing::Client;
using testing::Reply;
using testing::Serving;

const std::string kRoute = "/api/v1/loom/stream";
const std::string kRmsnorm =
    R"({"planet":"jax","model_id":"q","dim":3,"seq_len":2,"layers":[{"dim":3,"weights":[1,0.5,-2]}]})";

Service::Options options_below(const TemporaryDirectory& folder) {
  Service::Options options;
  options.bridge_root = folder.path();
  options.max_body = 1000;  // of other routes
  return options;
}

TEST(BridgeHost, ChecksInTheOrderOfTheClient) {
  TemporaryDirectory folder;
  Serving serving(options_below(folder));
  const std::string names = R"("planet":"jax","model_id":"q")";
  struct Case {
    std::string body;
    int status;
    std::string part;
  };
  for (const Case& c :
       {Case{"", 400, "body"}, Case{"{", 400, "body:1:"}, Case{"[]", 400, "expected an object"},
        Case{R"({"planet":NaN})", 400, "body:1:"}, Case{"{}", 400, "planet and model_id required"},
        Case{R"({"planet":"jax"})", 400, "planet and model_id required"},
        Case{"{" + names + "}", 400, "layers required"}, Case{"{" + names + R"(,"layers":[]})", 400, "layers required"},
        Case{R"({"planet":"..","model_id":"q","layers":[{}]})", 400, "planet is '..'"},
        Case{"{" + names + R"(,"layers":[{}],"fixture_version":"none"})", 500, "fixture: "},
        Case{"{" + names + R"(,"layers":[{}]})", 400, "seq_len"},
        Case{"{" + names + R"(,"dim":3,"seq_len":2,"layers":[{"dim":3,"weights":[1]}]})", 400,
             "layer 0: weights has 1 numbers, expected 3"}}) {
    const Reply reply = serving.ask("POST", kRoute + "/rmsnorm", c.body);
    EXPECT_EQ(reply.status, c.status) << c.body;
    EXPECT_NE(reply.body.find(c.part), std::string::npos) << c.body << ": " << reply.body;
  }
  EXPECT_FALSE(std::filesystem::exists(folder.path() + "/python/rmsnorm/models"));
  EXPECT_EQ(serving.ask("GET", kRoute).status, 405);
  EXPECT_EQ(serving.ask("GET", kRoute).headers.at("allow"), "POST");
  EXPECT_EQ(serving.ask("POST", kRoute + "/no", kRmsnorm).status, 404);
  EXPECT_EQ(serving.ask("GET", "/api/v1/compare/no").status, 404);
  EXPECT_EQ(serving.ask("GET", "/health").body, R"({"status":"ok"})");
  Client large(serving.address());
  large.send("POST " + kRoute + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 67108865\r\n\r\n");
  EXPECT_EQ(large.read()->status, 413);
}

TEST(BridgeHost, IsNotThereUnlessItIsAskedFor) {
  Serving serving;
  EXPECT_EQ(serving.ask("POST", kRoute, "{}").status, 404);
  EXPECT_EQ(serving.ask("GET", "/api/v1/reports").status, 404);
}

TEST(BridgeHost, ComparesWithWhatTheFrameworkGave) {
  TemporaryDirectory folder;
  Serving serving(options_below(folder));
  EXPECT_EQ(serving.ask("GET", "/api/v1/reports").body, "[]");
  const std::string dense =
      R"({"planet":"jax","model_id":"d","layers":[{"input_dim":1,"output_dim":1,"weights":[2]}]})";
  for (const char* const path : {"/api/v1/loom/stream", "/api/v1/loom/import", "/api/v1/loom/stream/dense"}) {
    const Reply reply = serving.ask("POST", path, dense);
    ASSERT_EQ(reply.status, 200) << reply.body;
    EXPECT_EQ(reply.json()["entity_path"].text(), folder.path() + "/python/dense/models/jax/d/d.stream.entity");
    EXPECT_FALSE(reply.json().contains("max_abs_diff"));
  }
  const Reply saved = serving.ask("POST", "/api/v1/report", R"({"planet":"jax","model_id":"d","outputs":[[1]]})");
  EXPECT_EQ(saved.status, 201);
  EXPECT_TRUE(std::filesystem::exists(saved.json()["saved"].text()));
  EXPECT_EQ(serving.ask("POST", "/api/v1/report", R"({"planet":"jax"})").status, 400);
  EXPECT_EQ(serving.ask("POST", "/api/v1/report", R"({"outputs":[[NaN]]})").status, 400);
  const Json reports = serving.ask("GET", "/api/v1/reports").json();
  ASSERT_EQ(reports.size(), 2u);
  EXPECT_EQ(reports[0]["stage"].text(), "loom");
  EXPECT_EQ(reports[0]["input_dim"], 1);
  EXPECT_EQ(reports[1]["stage"].text(), "native");
  const Json compared = serving.ask("GET", "/api/v1/compare").json();
  EXPECT_EQ(compared["report_count"], 2);
  // Without samples there are no rows to compare.
  EXPECT_TRUE(compared["models"][0]["pipelines"][0]["compare"][0].contains("pending"));
  EXPECT_EQ(serving.ask("GET", "/api/v1/compare/dense").json(), compared);
  EXPECT_EQ(serving.ask("GET", "/api/v1/compare.txt?bedrock=dense").body,
            "d jax native/native -> loom/entity pending\n");
  EXPECT_EQ(serving.ask("GET", "/api/v1/loom/catalog").json()["fixture"]["seed"], 42);
}

TEST(BridgeHost, MeasuresTheDistanceOfItsRows) {
  TemporaryDirectory folder;
  Serving serving(options_below(folder));
  const std::string fixtures = folder.path() + "/python/dense/fixtures";
  std::filesystem::create_directories(fixtures);
  // x_test [3, 4]: eighths, counted from 0.
  std::filesystem::copy_file(source_path("tests/data/formats/deflated.npz"), fixtures + "/f.npz");
  const std::string dense = R"({"planet":"jax","model_id":"d","fixture_version":"f",)"
                            R"("layers":[{"input_dim":1,"output_dim":1,"weights":[2]}]})";
  EXPECT_EQ(
      serving.ask("POST", "/api/v1/report", R"({"engine":"jax","model_id":"d","outputs":[[0],[1],[2.5]]})").status,
      201);
  const Json answer = serving.ask("POST", kRoute, dense).json();
  EXPECT_EQ(answer["outputs"], (Json{Json::array({0}), Json::array({1}), Json::array({2})})) << answer.dump();
  EXPECT_EQ(answer["max_abs_diff"], 0.5);
  EXPECT_EQ(answer["mean_abs_diff"], 0.5 / 3);
  EXPECT_EQ(answer["exact_match"], Json(false));
  const Json compared = serving.ask("GET", "/api/v1/compare").json();
  EXPECT_EQ(compared["models"][0]["pipelines"][0]["compare"][0]["max_abs_diff"], 0.5);
}

TEST(BridgeHost, TakesBodiesInPartsAndManyAtOnce) {
  TemporaryDirectory folder;
  Serving serving(options_below(folder));
  Client chunked(serving.address());
  chunked.send("POST " + kRoute + "/rmsnorm HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n" +
               "Expect: 100-continue\r\n\r\n");
  EXPECT_NE(chunked.read_until("\r\n\r\n").find("100"), std::string::npos);
  chunked.send("a\r\n" + kRmsnorm.substr(0, 10) + "\r\n");
  char size[16];
  std::snprintf(size, sizeof size, "%zx", kRmsnorm.size() - 10);
  chunked.send(size + ("\r\n" + kRmsnorm.substr(10)) + "\r\n0\r\n\r\n");
  const auto reply = chunked.read();
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->status, 200) << reply->body;
  std::atomic<int> good{0};
  std::vector<std::thread> clients;
  for (int i = 0; i < 40; ++i)
    clients.emplace_back([&] { good += serving.ask("POST", kRoute + "/rmsnorm", kRmsnorm).status == 200; });
  for (std::thread& each : clients) each.join();
  EXPECT_EQ(good.load(), 40);
}

TEST(BridgeHost, WantsTheKeyOfAServerThatHasOne) {
  TemporaryDirectory folder;
  Service::Options options = options_below(folder);
  options.access.keys = {"the-key"};
  Serving serving(std::move(options));
  EXPECT_EQ(serving.ask("POST", kRoute + "/rmsnorm", kRmsnorm).status, 401);
  EXPECT_EQ(serving.ask("POST", kRoute + "/rmsnorm", kRmsnorm, {{"X-Api-Key", "the-key"}}).status, 200);
}

}  // namespace
}  // namespace weft::server::bridge_test
