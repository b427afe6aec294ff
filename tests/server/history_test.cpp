// SPDX-License-Identifier: Apache-2.0
// Journal, checkpoints, replays and jobs, as clients see them.

#include "server/job_table.hpp"

#include <gtest/gtest.h>

#include "tests/server/serving.hpp"
#include "tests/support/temporary_directory.hpp"
#include <chrono>
#include <thread>

namespace weft::history_test {
namespace {

using namespace weft::testing;
using storage::TemporaryDirectory;

const std::string kMesh = "/api/v1/meshes/a";
constexpr const char* kSample = R"({"samples":[{"inputs":{"x":[1,0,0.5,-1]},"targets":{"y":2}}],"wait":"durable"})";

server::Service::Options kept_in(const TemporaryDirectory& folder) {
  server::Service::Options options;
  options.meshes.state = folder.path();
  return options;
}

/// Asks until the job has ended.
Json ended(const Serving& serving, const std::string& path) {
  while (true) {
    const Json job = serving.ask("GET", path).json();
    const std::string state = job["state"].text();
    if (state != "queued" && state != "running") return job;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

TEST(History, TellsTheJournalAPageAtATime) {
  const TemporaryDirectory folder;
  Serving serving(kept_in(folder));
  serving.make("a");
  for (int i = 0; i < 5; ++i) ASSERT_EQ(serving.ask("POST", kMesh + "/learn", kSample).status, 200);
  ASSERT_EQ(serving.ask("POST", kMesh + "/mark", R"({"note":"noon"})").status, 201);
  const Json first = serving.ask("GET", kMesh + "/journal?limit=3").json();
  ASSERT_EQ(first["records"].size(), 3u);
  EXPECT_EQ(first["records"][0]["kind"].text(), "learn");
  EXPECT_EQ(first["records"][0]["count"].get<int>(), 1);
  const Json rest = serving.ask("GET", kMesh + "/journal?from=" + std::to_string(first["next"].get<int>())).json();
  ASSERT_EQ(rest["records"].size(), 4u);
  EXPECT_TRUE(rest["next"].is_null());
  EXPECT_EQ(rest["records"][2]["kind"].text(), "annotation");
  EXPECT_EQ(rest["records"][2]["topic"].text(), "note");
  EXPECT_EQ(rest["records"][3]["kind"].text(), "marker");
  EXPECT_EQ(rest["records"][3]["tick"].get<int>(), serving.ask("GET", kMesh + "/hash").json()["tick"].get<int>());
  EXPECT_EQ(serving.ask("GET", kMesh + "/journal").body.find("0.5"), std::string::npos) << "no values";
  EXPECT_EQ(serving.ask("GET", kMesh + "/journal?limit=1001").status, 422);
  EXPECT_EQ(serving.ask("GET", kMesh + "/journal?of=1").status, 422);
}

TEST(History, RestoresACheckpointAsAnotherMesh) {
  const TemporaryDirectory folder;
  Serving serving(kept_in(folder));
  serving.make("a");
  ASSERT_EQ(serving.ask("POST", kMesh + "/learn", kSample).status, 200);
  const Json taken = serving.ask("POST", kMesh + "/checkpoint").json();
  const std::string then = serving.ask("GET", kMesh + "/hash").json()["hash"].text();
  ASSERT_EQ(serving.ask("POST", kMesh + "/learn", kSample).status, 200);
  const std::string now = serving.ask("GET", kMesh + "/hash").json()["hash"].text();
  ASSERT_NE(now, then);
  const Json list = serving.ask("GET", kMesh + "/checkpoints").json()["checkpoints"];
  ASSERT_EQ(list.size(), 2u) << "the first one, of the mesh as it was made, too";
  EXPECT_EQ(list[1]["hash"].text(), then);
  const std::string tick = std::to_string(taken["tick"].get<int>());
  const Reply made = serving.ask("POST", kMesh + "/checkpoints/" + tick + "/restore", R"({"as":"b"})");
  ASSERT_EQ(made.status, 201) << made.body;
  EXPECT_EQ(made.headers.at("location"), "/api/v1/meshes/b");
  EXPECT_EQ(serving.ask("GET", "/api/v1/meshes/b/hash").json()["hash"].text(), then);
  EXPECT_EQ(serving.ask("GET", kMesh + "/hash").json()["hash"].text(), now) << "it goes on as it was";
  ASSERT_EQ(serving.ask("POST", "/api/v1/meshes/b/learn", kSample).status, 200);
  EXPECT_EQ(serving.ask("GET", "/api/v1/meshes/b/hash").json()["hash"].text(), now) << "the same again, to the bit";
  EXPECT_EQ(serving.ask("POST", kMesh + "/checkpoints/" + tick + "/restore", R"({"as":"b"})").status, 409);
  EXPECT_EQ(serving.ask("POST", kMesh + "/checkpoints/12345/restore", R"({"as":"c"})").status, 404);
  EXPECT_EQ(serving.ask("POST", kMesh + "/checkpoints/x/restore", R"({"as":"c"})").status, 422);
  EXPECT_EQ(serving.ask("POST", kMesh + "/checkpoints/" + tick + "/restore", R"({"as":"../c"})").status, 400);
}

TEST(History, ReplaysAsAJob) {
  const TemporaryDirectory folder;
  Serving serving(kept_in(folder));
  serving.make("a");
  for (int i = 0; i < 5; ++i) ASSERT_EQ(serving.ask("POST", kMesh + "/learn", kSample).status, 200);
  ASSERT_EQ(serving.ask("POST", kMesh + "/mark").status, 201);
  const Json now = serving.ask("GET", kMesh + "/hash").json();
  const Reply accepted = serving.ask("POST", kMesh + "/replay");
  ASSERT_EQ(accepted.status, 202) << accepted.body;
  const std::string path = accepted.headers.at("location");
  const Json job = ended(serving, path);
  ASSERT_EQ(job["state"].text(), "done") << job.dump();
  EXPECT_EQ(job["op"].text(), "replay");
  EXPECT_EQ(job["result"]["hash"].text(), now["hash"].text());
  EXPECT_EQ(job["result"]["tick"].get<int>(), now["tick"].get<int>());
  EXPECT_EQ(job["result"]["compared"].get<int>(), 1);
  EXPECT_EQ(serving.ask("GET", "/api/v1/jobs").json()["jobs"].size(), 1u);
  const Json half = ended(serving, serving.ask("POST", kMesh + "/replay", R"({"until":2})").headers.at("location"));
  EXPECT_EQ(half["result"]["tick"].get<int>(), 2) << half.dump();
  const Json other =
      ended(serving,
            serving.ask("POST", kMesh + "/replay", R"({"set":["learning.optimizer.lr=0.2"]})").headers.at("location"));
  ASSERT_EQ(other["state"].text(), "done") << other.dump();
  EXPECT_NE(other["result"]["hash"].text(), now["hash"].text());
  const Json wrong =
      ended(serving, serving.ask("POST", kMesh + "/replay", R"({"set":["no.such=1"]})").headers.at("location"));
  EXPECT_EQ(wrong["state"].text(), "failed");
  EXPECT_EQ(wrong["error"]["code"].text(), "invalid_argument");
  EXPECT_EQ(serving.ask("DELETE", path).status, 204);
  EXPECT_EQ(serving.ask("GET", path).status, 404);
  EXPECT_EQ(serving.ask("DELETE", path).status, 404);
}

TEST(History, NeedsADataDirectory) {
  Serving serving;
  serving.make("a");
  for (const char* path : {"/journal", "/checkpoints"}) EXPECT_EQ(serving.ask("GET", kMesh + path).status, 501) << path;
  EXPECT_EQ(serving.ask("POST", kMesh + "/replay").status, 501);
  EXPECT_EQ(serving.ask("POST", kMesh + "/checkpoints/0/restore", R"({"as":"b"})").status, 501);
}

TEST(History, MakesAMeshAsAJobWhereAsked) {
  Serving serving;
  const Reply accepted = serving.ask("POST", "/api/v1/meshes", R"({"name":"a","network":)" + small_network_json() + "}",
                                     {{"Prefer", "respond-async"}});
  ASSERT_EQ(accepted.status, 202) << accepted.body;
  const Json job = ended(serving, accepted.headers.at("location"));
  EXPECT_EQ(job["state"].text(), "done");
  EXPECT_EQ(job["result"]["name"].text(), "a");
  EXPECT_EQ(serving.ask("GET", kMesh).status, 200);
}

TEST(Jobs, AreCancelledBeforeAndWhileTheyWork) {
  server::JobTable jobs;
  std::atomic<bool> begun{false};
  const auto first = jobs.submit("wait", "a", [&](server::JobTable::Progress& progress) -> Result<Json> {
    progress.tell("begun");
    begun = true;
    while (!progress.is_cancelled()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return fail(Errc::interrupted, "cancelled");
  });
  bool is_run = false;
  const auto second = jobs.submit("never", "a", [&](server::JobTable::Progress&) -> Result<Json> {
    is_run = true;
    return Json::object();
  });
  ASSERT_TRUE(first.has_value() && second.has_value());
  while (!begun) std::this_thread::yield();
  EXPECT_EQ(jobs.describe(*first)->dump().find("running") == std::string::npos, false);
  EXPECT_TRUE(jobs.cancel(*second).has_value());
  EXPECT_TRUE(jobs.cancel(*first).has_value());
  const auto state_of = [&](const std::string& id) { return (*jobs.describe(id))["state"].text(); };
  while (state_of(*second) == "queued") std::this_thread::yield();
  EXPECT_EQ(state_of(*first), "cancelled");
  EXPECT_EQ(state_of(*second), "cancelled");
  EXPECT_FALSE(is_run);
  EXPECT_FALSE(jobs.cancel("17").has_value());
}

}  // namespace
}  // namespace weft::history_test
