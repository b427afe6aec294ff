// SPDX-License-Identifier: Apache-2.0
// The native routes, as clients see them.

#include "agent/agent_access.hpp"
#include "server/values.hpp"

#include "mesh/mesh.hpp"
#include "mesh/mesh_access.hpp"
#include "mesh/runtime/command.hpp"
#include "mesh/weights/weight_store.hpp"

#include <gtest/gtest.h>

#include "tests/server/serving.hpp"
#include "tests/support/temporary_directory.hpp"
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

namespace {

using namespace weft;
using namespace weft::testing;
using storage::TemporaryDirectory;

const std::string kMesh = "/api/v1/meshes/a";
constexpr const char* kSample = R"({"samples":[{"inputs":{"x":[1,0,0.5,-1]},"targets":{"y":2}}]})";

std::string creation(const std::string& name, const std::string& more = "") {
  return R"({"name":")" + name + R"(","network":)" + small_network_json() + more + "}";
}

TEST(Native, MakesTellsAndForgetsMeshes) {
  Serving serving;
  const Reply made = serving.ask("POST", "/api/v1/meshes", creation("a"));
  ASSERT_EQ(made.status, 201) << made.body;
  EXPECT_EQ(made.headers.at("location"), kMesh);
  EXPECT_EQ(serving.ask("POST", "/api/v1/meshes", creation("a")).status, 409);
  EXPECT_EQ(serving.ask("POST", "/api/v1/meshes", creation("../a")).status, 400);
  EXPECT_EQ(serving.ask("POST", "/api/v1/meshes", R"({"name":"b","network":{"weft":2}})").status, 422);
  EXPECT_EQ(serving.ask("POST", "/api/v1/meshes", R"({"name":"b","file":"x.entity"})").status, 400);
  EXPECT_EQ(serving.ask("POST", "/api/v1/meshes", creation("b", R"(,"data_directory":true)")).status, 422)
      << "no --state";
  const Json list = serving.ask("GET", "/api/v1/meshes").json();
  ASSERT_EQ(list["meshes"].size(), 1u);
  EXPECT_EQ(list["meshes"][0]["name"].text(), "a");
  const Json mesh = serving.ask("GET", kMesh).json();
  EXPECT_EQ(mesh["inputs"][0]["width"].get<int>(), 4);
  EXPECT_EQ(mesh["outputs"][0]["name"].text(), "y");
  EXPECT_EQ(serving.ask("GET", kMesh + "/network").json()["name"].text(), "small");
  EXPECT_EQ(serving.ask("DELETE", kMesh).status, 204);
  EXPECT_EQ(serving.ask("GET", kMesh).status, 404);
  EXPECT_EQ(serving.ask("DELETE", kMesh).status, 404);
  EXPECT_EQ(serving.ask("POST", "/api/v1/meshes", creation("a")).status, 201) << "the name is free again";
}

TEST(Native, TicksAsTheMeshDoes) {
  Serving serving;
  serving.make("a", false);
  auto mesh = mesh::Mesh::build(small_network(false)).value();
  ASSERT_TRUE(mesh.set_input("x", std::vector<float>{1, 2, 3, 0.1f}));
  ASSERT_TRUE(mesh.tick(2));
  const Reply reply = serving.ask("POST", kMesh + "/tick", R"({"n":2,"inputs":{"x":[1,2,3,0.1]}})");
  ASSERT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(reply.headers.at("x-weft-tick"), "2");
  const auto values = reply.json()["outputs"]["y"];
  const auto output = mesh.output("y").value();
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(static_cast<float>(values[i].get<double>()), output[i]);
  EXPECT_EQ(serving.ask("GET", kMesh + "/hash").json()["hash"].text(), to_string(mesh.state_hash()));
  const Json every = serving.ask("POST", kMesh + "/tick", R"({"n":6,"every":2})").json();
  EXPECT_EQ(every["outputs"]["y"].size(), 3u);
  EXPECT_EQ(every["tick"].get<int>(), 8);
}

TEST(Native, AMeshThatLearnsIsMovedByItsRuleAlone) {
  Serving serving;
  ASSERT_EQ(serving.ask("POST", "/api/v1/meshes", creation("a")).status, 201);
  EXPECT_EQ(serving.ask("POST", kMesh + "/tick", "{}").status, 400);
  ASSERT_EQ(serving.ask("POST", "/api/v1/meshes", creation("b", R"(,"learns":false)")).status, 201);
  EXPECT_EQ(serving.ask("POST", "/api/v1/meshes/b/tick", "{}").status, 200);
}

TEST(Native, RefusesWhatDoesNotFit) {
  Serving serving;
  serving.make("a", false);
  const std::vector<std::pair<std::string, int>> wrong{{R"({"inputs":{"x":[1,2,3]}})", 422},
                                                       {R"({"inputs":{"z":[1]}})", 422},
                                                       {R"({"inputs":{"x":[1,2,3,1e99]}})", 422},
                                                       {R"({"inputs":{"x":["a"]}})", 400},
                                                       {R"({"inputs":{"x":[]}})", 422},
                                                       {R"({"inputs":{}})", 400},
                                                       {R"({"inputs":{"x":[1,2,3,4]},"outputs":["no"]})", 422},
                                                       {R"({"inputs":{"x":[1,2,3,4]},"more":1})", 422},
                                                       {R"({"inputs":{"x":[1,2,3,4]},"inputs":{}})", 400},
                                                       {"{", 400},
                                                       {"[]", 400},
                                                       {std::string(65, '[') + std::string(65, ']'), 400},
                                                       {std::string(200, '['), 400},
                                                       {"", 400}};
  for (const auto& [body, status] : wrong) {
    const Reply reply = serving.ask("POST", kMesh + "/forward", body);
    EXPECT_EQ(reply.status, status) << body << " " << reply.body;
    EXPECT_TRUE(reply.json()["error"]["message"].is_string());
  }
  EXPECT_EQ(serving.ask("POST", kMesh + "/learn", kSample).status, 501) << "it has no learner";
  EXPECT_EQ(serving.ask("POST", kMesh + "/checkpoint").status, 501) << "it has no data directory";
  EXPECT_EQ(serving.ask("POST", kMesh + "/tick", R"({"session":"no"})").status, 404);
  EXPECT_EQ(serving.ask("POST", kMesh + "/tick", R"({"n":1000001})").status, 422);
  EXPECT_EQ(serving.ask("POST", "/api/v1/meshes/none/tick", "{}").status, 404);
  EXPECT_EQ(serving.ask("GET", kMesh).json()["ticks"].get<int>(), 0) << "nothing of it ticked";
}

TEST(Native, TakesAndGivesRawNumbers) {
  Serving serving;
  serving.make("a", false);
  const std::vector<float> x{1, 2, 3, 4, 5, 6, 7, 8};
  const Reply raw = serving.ask(
      "POST", kMesh + "/forward", server::raw_of(x),
      {{"Content-Type", "application/octet-stream"}, {"X-Weft-Shape", "2,4"}, {"Accept", "application/octet-stream"}});
  ASSERT_EQ(raw.status, 200) << raw.body;
  EXPECT_EQ(raw.headers.at("x-weft-shape"), "2,3");
  const auto values = server::read_raw(raw.body).value();
  const Json json = serving.ask("POST", kMesh + "/forward", R"({"inputs":{"x":[[1,2,3,4],[5,6,7,8]]}})").json();
  for (std::size_t i = 0; i < 6; ++i)
    EXPECT_EQ(static_cast<float>(json["outputs"]["y"][i / 3][i % 3].get<double>()), values[i]);
  EXPECT_EQ(serving.ask("POST", kMesh + "/forward", "abc", {{"Content-Type", "application/octet-stream"}}).status, 400);
}

TEST(Native, AnswersAreTheSameBitsUnderLoadAsAlone) {
  constexpr std::size_t kRequests = 10'000, kThreads = 8;
  Serving serving;
  serving.make("a", false);
  const mesh::Mesh mesh = mesh::Mesh::build(small_network(false)).value();
  std::mt19937 random(3);
  std::uniform_real_distribution<float> value(-3, 3);
  std::vector<std::vector<float>> x(kRequests), y(kRequests);
  for (std::size_t i = 0; i < kRequests; ++i) {
    const std::size_t rows = 1 + i % 3;
    x[i].resize(rows * 4), y[i].resize(rows * 3);
    for (float& each : x[i]) each = value(random);
    const mesh::RunInput in{"x", x[i]};
    const mesh::RunOutput out{"y", y[i]};
    ASSERT_TRUE(mesh.forward({&in, 1}, rows, {&out, 1}));
  }
  std::atomic<std::size_t> next{0}, wrong{0};
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kThreads; ++t)
    threads.emplace_back([&] {
      Client client(serving.address());
      for (std::size_t i = next++; i < kRequests; i = next++) {
        const std::size_t at = i * 7919 % kRequests;  // another order
        const Reply reply =
            client.ask("POST", kMesh + "/forward", server::raw_of(x[at]),
                       {{"Content-Type", "application/octet-stream"}, {"Accept", "application/octet-stream"}});
        wrong += reply.status != 200 || reply.body != server::raw_of(y[at]);
      }
    });
  for (std::thread& each : threads) each.join();
  EXPECT_EQ(wrong, 0u);
  const auto& counters = serving.service().meshes().find("a").value()->counters();
  EXPECT_LT(counters.forward_batches, kRequests) << "none of them were computed together";
}

TEST(Native, LearnsAsALearnerDoes) {
  Serving serving;
  serving.make("a");
  double first = 0, last = 0;
  for (int i = 0; i < 50; ++i) {
    const Reply reply = serving.ask("POST", kMesh + "/learn", kSample);
    ASSERT_EQ(reply.status, 200) << reply.body;
    const double loss = reply.json()["losses"][0].get<double>();
    (i == 0 ? first : last) = loss;
  }
  EXPECT_LT(last, first / 2);
  auto mesh = mesh::Mesh::build(small_network()).value();
  auto learner = learning::Learner::build(mesh, learning::read_learning(small_network().learning).value()).value();
  const std::vector<float> x{1, 0, 0.5f, -1};
  const std::vector<std::uint32_t> label{2};
  for (int i = 0; i < 50; ++i) {
    const mesh::RunInput in{"x", x};
    learning::Target target;
    target.output = "y", target.labels = label;
    ASSERT_TRUE(learner->learn({&in, 1}, {&target, 1}, 1));
    learner->clear_scores();
  }
  EXPECT_EQ(serving.ask("GET", kMesh + "/hash").json()["hash"].text(), to_string(mesh.state_hash()));
}

TEST(Native, TeachesWhatItObserved) {
  Serving serving;
  serving.make("a", true, "meet");
  const Json seen = serving.ask("POST", kMesh + "/observe", R"({"inputs":{"x":[1,0,0.5,-1]}})").json();
  EXPECT_EQ(seen["ticket"].get<int>(), 0);
  EXPECT_EQ(seen["answer"]["y"].size(), 3u);
  EXPECT_EQ(serving.ask("GET", kMesh + "/answer?ticket=0").json()["answer"], seen["answer"]);
  const Reply taught = serving.ask("POST", kMesh + "/teach", R"({"ticket":0,"targets":{"y":1}})");
  EXPECT_EQ(taught.status, 200) << taught.body;
  EXPECT_EQ(taught.json()["losses"].size(), 1u);
  EXPECT_GE(serving.ask("POST", kMesh + "/teach", R"({"ticket":0,"targets":{"y":1}})").status, 400);
  EXPECT_EQ(serving.ask("POST", kMesh + "/observe", R"({"inputs":{"x":[1,0,0.5,-1]}})").json()["ticket"].get<int>(), 1);
  EXPECT_EQ(serving.ask("POST", kMesh + "/forgo", R"({"ticket":1})").status, 200);
}

TEST(Native, ExecutesARepeatedRequestOnce) {
  Serving serving;
  serving.make("a", false);
  const std::vector<server::HttpHeader> key{{"Idempotency-Key", "k1"}};
  const Reply first = serving.ask("POST", kMesh + "/tick", R"({"n":3})", key);
  const Reply again = serving.ask("POST", kMesh + "/tick", R"({"n":3})", key);
  EXPECT_EQ(again.body, first.body);
  EXPECT_EQ(again.headers.at("x-weft-tick"), "3");
  EXPECT_EQ(serving.ask("POST", kMesh + "/tick", R"({"n":4})", key).status, 422);
  EXPECT_EQ(serving.ask("POST", kMesh + "/tick", R"({"n":3})").json()["tick"].get<int>(), 6);
}

TEST(Native, KeepsSessionsApart) {
  Serving serving;
  serving.make("a", false);
  EXPECT_EQ(serving.ask("POST", kMesh + "/sessions", R"({"name":"s"})").json()["lane"].get<int>(), 1);
  EXPECT_EQ(serving.ask("POST", kMesh + "/sessions", R"({"name":"s"})").status, 409);
  const auto tick = [&](const char* session) {
    return serving
        .ask("POST", kMesh + "/tick", std::string(R"({"n":2,"inputs":{"x":[1,2,3,4]},"session":")") + session + "\"}")
        .json()["outputs"]["y"];
  };
  const Json of_s = tick("s");
  const Reply file = serving.ask("GET", kMesh + "/sessions/s/state");
  ASSERT_EQ(file.status, 200);
  EXPECT_EQ(
      serving.ask("PUT", kMesh + "/sessions/t/state", file.body, {{"Content-Type", "application/octet-stream"}}).status,
      201);
  EXPECT_EQ(serving.ask("POST", kMesh + "/tick", R"({"n":0,"session":"t"})").json()["outputs"]["y"], of_s);
  EXPECT_EQ(serving.ask("POST", kMesh + "/sessions", R"({"name":"u","from":"clone:s"})").status, 201);
  EXPECT_EQ(serving.ask("POST", kMesh + "/tick", R"({"n":0,"session":"u"})").json()["outputs"]["y"], of_s);
  EXPECT_EQ(serving.ask("POST", kMesh + "/sessions/s/reset").status, 200);
  EXPECT_EQ(serving.ask("DELETE", kMesh + "/sessions/s").status, 200);
  EXPECT_EQ(serving.ask("DELETE", kMesh + "/sessions/s").status, 404);
  EXPECT_EQ(serving.ask("POST", kMesh + "/tick", R"({"n":0,"session":"t"})").json()["outputs"]["y"], of_s);
}

TEST(Native, SwapsWeightsAndGoesBack) {
  const TemporaryDirectory folder;
  server::Service::Options options;
  options.model_directory = folder.path();
  options.allows_weights = true;
  Serving serving(std::move(options));
  serving.make("a", false);
  const auto forward = [&] {
    return serving.ask("POST", kMesh + "/forward", R"({"inputs":{"x":[1,2,3,4]}})").json()["outputs"];
  };
  const Json before = forward();
  auto other = small_network(false);
  other.seed = 8;
  ASSERT_EQ(serving.ask("POST", "/api/v1/meshes", creation("b")).status, 201);
  ASSERT_TRUE(serving.service().meshes().create("c", other, {}));
  const std::string file = serving.ask("GET", "/api/v1/meshes/c/entity").body;
  const std::vector<server::HttpHeader> type{{"Content-Type", "application/octet-stream"}};
  EXPECT_EQ(serving.ask("POST", kMesh + "/weights", file.substr(0, file.size() - 1), type).status / 100, 4);
  EXPECT_EQ(forward(), before) << "a torn file changes nothing";
  const Reply swapped = serving.ask("POST", kMesh + "/weights", file, type);
  ASSERT_EQ(swapped.status, 200) << swapped.body;
  EXPECT_EQ(swapped.headers.at("x-weft-weight-version"), "2");
  const Json after = serving.ask("POST", "/api/v1/meshes/c/forward", R"({"inputs":{"x":[1,2,3,4]}})").json()["outputs"];
  EXPECT_EQ(forward(), after);
  EXPECT_EQ(serving.ask("POST", kMesh + "/weights/rollback", "{}", {{"If-Match", "\"9\""}}).status, 412);
  EXPECT_EQ(serving.ask("POST", kMesh + "/weights/rollback", "{}").json()["version"].get<int>(), 3);
  EXPECT_EQ(forward(), before);
  EXPECT_EQ(serving.ask("POST", kMesh + "/weights/rollback", R"({"to":77})").status, 404);
  EXPECT_EQ(serving.ask("POST", kMesh + "/weights", R"({"file":"../x"})").status, 400);
  for (const auto& left : std::filesystem::directory_iterator(folder.path()))
    ADD_FAILURE() << left.path() << " was left behind";
}

TEST(Native, SwapsWeightsByTheNameOfSglang) {
  const TemporaryDirectory folder;
  server::Service::Options options;
  options.allows_weights = true;
  options.model_directory = folder.path();
  Serving serving(std::move(options));
  serving.make("a");
  const std::string file = serving.ask("GET", kMesh + "/entity").body;
  std::ofstream(folder.path() + "/first.entity", std::ios::binary) << file;
  std::ofstream(folder.path() + "/broken.entity", std::ios::binary) << file.substr(0, file.size() / 2);
  const auto forward = [&] {
    return serving.ask("POST", kMesh + "/forward", R"({"inputs":{"x":[1,2,3,4]}})").json()["outputs"].dump();
  };
  const std::string before = forward();
  ASSERT_EQ(
      serving.ask("POST", kMesh + "/learn", R"({"samples":[{"inputs":{"x":[1,0,1,0]},"targets":{"y":1}}]})").status,
      200);
  ASSERT_NE(forward(), before);
  const auto update = [&](const std::string& body) { return serving.ask("POST", "/update_weights_from_disk", body); };
  for (const char* wrong :
       {R"({"model_path":"broken.entity"})", R"({"model_path":"none.entity"})", R"({"model_path":"../first.entity"})",
        R"({"model_path":"/etc/passwd"})", "{}", R"({"model_path":"first.entity","model":"z"})"}) {
    const Reply refused = update(wrong);
    EXPECT_EQ(refused.status, 400) << wrong;
    EXPECT_FALSE(refused.json()["success"].get<bool>());
    EXPECT_NE(forward(), before);
  }
  const Reply done = update(R"({"model_path":"first.entity","weight_version":"v7","flush_cache":true})");
  ASSERT_EQ(done.status, 200) << done.body;
  EXPECT_TRUE(done.json()["success"].get<bool>());
  EXPECT_EQ(done.json()["num_paused_requests"].get<int>(), 0);
  EXPECT_EQ(forward(), before);
  const auto versions = [&] { return serving.ask("GET", kMesh + "/weights").json()["weights"]; };
  while (versions().size() < 2) std::this_thread::yield();  // until it is published
  EXPECT_EQ(versions()[1]["label"].text(), "v7");
  ASSERT_EQ(serving.ask("POST", kMesh + "/weights/rollback").status, 200);
  EXPECT_NE(forward(), before);
  EXPECT_EQ(Serving().ask("POST", "/update_weights_from_disk", R"({"model_path":"first.entity"})").status, 403);
}

TEST(Native, NoCheckpointOfItselfFallsIntoASwapOfWeights) {
  const TemporaryDirectory folder;
  agent::Agent::Options of;
  of.checkpoint_bytes = 1;  // after each record
  of.learns = false;
  of.background = false;
  const auto agent = agent::Agent::open(folder.path() + "/a", small_network(false), std::move(of)).value();
  ASSERT_TRUE(agent->tick(1).has_value());
  const auto written = agent->statistics().checkpoint.written;
  EXPECT_GT(written, 1u);
  agent::AgentAccess::hold_checkpoints(*agent, true);
  ASSERT_TRUE(agent->note("weft.serve.swap", "").has_value());
  ASSERT_TRUE(agent->tick(1).has_value());
  EXPECT_EQ(agent->statistics().checkpoint.written, written);
  agent::AgentAccess::hold_checkpoints(*agent, false);
  ASSERT_TRUE(agent->tick(1).has_value());
  EXPECT_GT(agent->statistics().checkpoint.written, written);
}

TEST(Native, ChangesWeightsOnlyWhereAllowed) {
  Serving serving;
  serving.make("a", false);
  EXPECT_EQ(serving.ask("POST", kMesh + "/weights/rollback", "{}").status, 403);
}

TEST(Native, ExecutesCommands) {
  Serving serving;
  serving.make("a", false);
  const Reply morphed = serving.ask("POST", kMesh + "/control", R"({"command":"morph","dtype":"int8"})");
  ASSERT_EQ(morphed.status, 200) << morphed.body;
  EXPECT_EQ(morphed.json()["layers"].get<int>(), 2);
  EXPECT_EQ(serving.ask("GET", kMesh + "/network").json()["layers"][0]["dtype"].text(), "int8");
  EXPECT_EQ(serving.ask("POST", kMesh + "/control", R"({"command":"disable","cell":[0,0,7]})").status, 422);
  EXPECT_EQ(serving.ask("POST", kMesh + "/control", R"({"command":"freeze"})").status, 501);
}

TEST(Native, RunsByItself) {
  Serving serving;
  serving.make("a", false);
  EXPECT_EQ(serving.ask("POST", kMesh + "/run", R"({"mode":"free","until_tick":1000})").status, 202);
  for (int i = 0; i < 500 && serving.ask("GET", kMesh).json()["ticks"].get<int>() < 1000; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(serving.ask("GET", kMesh).json()["ticks"].get<int>(), 1000);
  EXPECT_EQ(serving.ask("POST", kMesh + "/run", R"({"mode":"walk"})").status, 422);
}

TEST(Native, RefusesWhatTheQueueCannotHold) {
  server::Service::Options options;
  options.meshes.serving.queue = 2;
  Serving serving(std::move(options));
  serving.make("a", false);
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 8; ++i) {
    clients.push_back(std::make_unique<Client>(serving.address()));
    clients.back()->send("POST " + kMesh +
                         "/tick HTTP/1.1\r\nHost: localhost\r\nContent-Length: 13\r\n\r\n{\"n\":1000000}");
  }
  int refused = 0, done = 0;
  EXPECT_EQ(serving.ask("GET", "/health").status, 200) << "while the mesh works";
  for (auto& each : clients) {
    const auto reply = each->read(std::chrono::seconds(60));
    ASSERT_TRUE(reply);
    refused += reply->status == 429;
    done += reply->status == 200;
    if (reply->status == 429) {
      EXPECT_EQ(reply->headers.at("retry-after"), "1");
    }
  }
  EXPECT_EQ(refused + done, 8);
  EXPECT_GE(refused, 1);
}

TEST(Native, DropsRequestsOfClientsThatWent) {
  Serving serving;
  serving.make("a", false);
  const std::string long_one =
      "POST " + kMesh + "/tick HTTP/1.1\r\nHost: localhost\r\nContent-Length: 13\r\n\r\n{\"n\":1000000}";
  Client running(serving.address());
  running.send(long_one);
  {
    Client gone(serving.address()), half(serving.address());
    gone.send(long_one);
    half.send(long_one);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    half.finish();
    EXPECT_TRUE(half.is_closed(std::chrono::seconds(2)));
  }
  running.finish();
  EXPECT_TRUE(running.is_closed(std::chrono::seconds(2)));
  const auto begin = std::chrono::steady_clock::now();
  const Reply next = serving.ask("POST", kMesh + "/tick", "{}");
  EXPECT_EQ(next.status, 200);
  EXPECT_LT(next.json()["tick"].get<std::uint64_t>(), 1'000'001u) << "the running one was cut short";
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
}

TEST(Native, GoesOnFromItsDataDirectory) {
  const TemporaryDirectory folder;
  server::Service::Options options;
  options.meshes.state = folder.path();
  options.meshes.mesh.threads = 1;
  std::string hash;
  {
    Serving serving(options);
    serving.make("a");
    ASSERT_EQ(serving.ask("POST", kMesh + "/learn", kSample).status, 200);
    ASSERT_EQ(serving.ask("POST", kMesh + "/sessions", R"({"name":"extra"})").status, 201);
    EXPECT_EQ(serving.ask("POST", kMesh + "/mark", R"({"note":"here"})").status, 201);
    EXPECT_EQ(serving.ask("POST", kMesh + "/checkpoint").status, 201);
    hash = serving.ask("GET", kMesh + "/hash").json()["hash"].text();
  }
  Serving serving(options);
  ASSERT_EQ(serving.service().meshes().resume_all().value(), 1u);
  EXPECT_EQ(serving.ask("GET", kMesh + "/hash").json()["hash"].text(), hash);
  EXPECT_EQ(serving.ask("GET", kMesh + "/sessions").json()["sessions"][1]["session"].text(), "extra");
  EXPECT_EQ(serving.ask("DELETE", kMesh + "?discard=1").status, 204);
  EXPECT_FALSE(std::filesystem::exists(folder.path() + "/a"));
}

TEST(Native, AnswersAfterAKillAsIfThereHadBeenNone) {
  const TemporaryDirectory kept, whole;
  const auto options = [](const TemporaryDirectory& folder) {
    server::Service::Options of;
    of.meshes.state = folder.path();
    return of;
  };
  const auto sample = [](int i) {
    return R"({"samples":[{"inputs":{"x":[)" + std::to_string(i % 7) + R"(,0,0.5,-1]},"targets":{"y":)" +
           std::to_string(i % 3) + R"(}}],"wait":"durable"})";
  };
  Serving uninterrupted(options(whole));
  uninterrupted.make("a");
  std::optional<Serving> serving;
  for (int i = 0; i < 40; ++i) {
    if (i % 10 == 0) {
      serving.reset();
      serving.emplace(options(kept));
      if (i == 0) serving->make("a");
      ASSERT_TRUE(serving->service().meshes().resume_all().has_value() || i == 0);
    }
    // A checkpoint holds what was scored before it, and the journal what came after.
    if (i == 15 || i == 25) {
      ASSERT_EQ(serving->ask("POST", kMesh + "/checkpoint").status, 201);
    }
    const Reply got = serving->ask("POST", kMesh + "/learn", sample(i));
    EXPECT_EQ(got.body, uninterrupted.ask("POST", kMesh + "/learn", sample(i)).body) << i;
  }
}

TEST(Native, NamesOfSessionsOutliveAKillAndTheRecordsOfTheSessionsAlone) {
  const TemporaryDirectory folder;
  const auto options = [&] {
    server::Service::Options of;
    of.meshes.state = folder.path();
    return of;
  };
  {
    Serving serving(options());
    serving.make("a", false);
    for (const char* name : {"s", "t", "u"})
      ASSERT_EQ(serving.ask("POST", kMesh + "/sessions", std::string(R"({"name":")") + name + "\"}").status, 201);
    ASSERT_EQ(serving.ask("DELETE", kMesh + "/sessions/s").status, 200);
    ASSERT_EQ(serving.ask("POST", kMesh + "/mark").status, 201);  // waits for the device
  }
  Serving serving(options());
  ASSERT_TRUE(serving.service().meshes().resume_all().has_value());
  const std::vector<std::string> names = serving.service().meshes().find("a").value()->statistics()->sessions;
  EXPECT_EQ(names, (std::vector<std::string>{"0", "t", "u"}));
  for (const char* name : {"0", "t", "u"}) {
    const Reply ticked = serving.ask("POST", kMesh + "/tick", std::string(R"({"n":1,"session":")") + name + "\"}");
    EXPECT_EQ(ticked.status, 200) << name << " " << ticked.body;
  }
}

/// The state of a server in an agent that this test opens by itself.
class KeptState final : public agent::StateExtension {
 public:
  Status begin(agent::ReplayableMesh&) override { return {}; }
  std::string save() const override { return text_; }
  Status load(std::string_view json) override {
    text_ = json;
    return {};
  }
  Status replayed(const agent::Record&) override { return {}; }

 private:
  std::string text_;
};

TEST(Native, AKillWithinASwapOfWeightsLeavesTheOldOnes) {
  const TemporaryDirectory folder;
  const auto options = [&] {
    server::Service::Options of;
    of.meshes.state = folder.path();
    return of;
  };
  const auto forward = [](const Serving& serving) {
    return serving.ask("POST", kMesh + "/forward", R"({"inputs":{"x":[1,2,3,4]}})").json()["outputs"].dump();
  };
  std::string before;
  {
    Serving serving(options());
    serving.make("a", false);
    before = forward(serving);
  }
  {
    KeptState state;
    agent::Agent::Options of;
    of.extension = &state;
    const auto agent = agent::Agent::open(folder.path() + "/a", std::move(of)).value();
    const auto& weights = mesh::MeshAccess::weights(agent->mesh());
    const auto parameter = weights.parameters()[0];
    ASSERT_TRUE(agent->note("weft.serve.swap", "").has_value());
    auto command = mesh::make_command(mesh::CommandKind::set_weights);
    command->parameter = parameter.index;
    command->values.assign(weights.read(parameter).size(), 0.5f);
    ASSERT_TRUE(agent->post({0, 0, 0, 0}, command, true).has_value());
    ASSERT_TRUE(agent->acknowledge().has_value());
  }
  for (int i = 0; i < 2; ++i) {
    Serving serving(options());
    ASSERT_TRUE(serving.service().meshes().resume_all().has_value());
    EXPECT_EQ(forward(serving), before);
    ASSERT_EQ(serving.ask("POST", kMesh + "/mark").status, 201);
  }
}

TEST(Native, StreamsEvents) {
  const TemporaryDirectory folder;
  server::Service::Options options;
  options.meshes.state = folder.path();
  Serving serving(options);
  serving.make("a");
  Client reader(serving.address());
  reader.send("GET " + kMesh + "/events?every=0.1 HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_NE(reader.read_until("event: statistics").find("text/event-stream"), std::string::npos);
  EXPECT_EQ(serving.ask("POST", kMesh + "/checkpoint").status, 201) << "there is one of tick 0";
  ASSERT_EQ(serving.ask("POST", kMesh + "/learn", kSample).status, 200);
  ASSERT_EQ(serving.ask("POST", kMesh + "/checkpoint").status, 201);
  EXPECT_NE(reader.read_until("event: checkpoint").find("event: checkpoint"), std::string::npos);
  EXPECT_EQ(serving.ask("GET", kMesh + "/events?topics=gossip").status, 422);
  ASSERT_TRUE(serving.service().stop(std::chrono::seconds(5)));
  EXPECT_NE(reader.read_until("0\r\n\r\n").find("event: bye"), std::string::npos);
}

TEST(Native, EndsInOrder) {
  Serving serving;
  serving.make("a", false);
  Client kept(serving.address());
  EXPECT_EQ(kept.ask("GET", "/health").status, 200);
  ASSERT_TRUE(serving.service().stop(std::chrono::seconds(5)));
  EXPECT_TRUE(kept.is_closed()) << "it was idle";
}

}  // namespace
