// SPDX-License-Identifier: Apache-2.0

#include "server/access.hpp"

#include <gtest/gtest.h>

#include "tests/server/serving.hpp"
#include "tests/support/temporary_directory.hpp"
#include <fstream>

namespace {

using namespace weft;
using namespace weft::testing;
using storage::TemporaryDirectory;

server::Service::Options with_keys() {
  server::Service::Options options;
  options.access.keys = {"first-key", "second-key"};
  return options;
}

TEST(Access, WantsAKeyForAllButProbes) {
  Serving serving(with_keys());
  EXPECT_EQ(serving.ask("GET", "/health").status, 200);
  EXPECT_EQ(serving.ask("GET", "/livez").status, 200);
  const Reply none = serving.ask("GET", "/api/v1");
  EXPECT_EQ(none.status, 401);
  EXPECT_EQ(none.headers.at("www-authenticate"), "Bearer");
  EXPECT_EQ(none.json()["error"]["code"].text(), "invalid_api_key");
  EXPECT_EQ(serving.ask("GET", "/none").status, 401) << "what there is, is told to those with a key";
  EXPECT_EQ(serving.ask("GET", "/metrics").status, 401);
  EXPECT_EQ(serving.ask("GET", "/api/v1", {}, {{"Authorization", "Bearer second-key"}}).status, 200);
  EXPECT_EQ(serving.ask("GET", "/api/v1", {}, {{"X-Api-Key", "first-key"}}).status, 200);
  for (const char* wrong : {"first-ke", "first-keyy", "", "First-key"})
    EXPECT_EQ(serving.ask("GET", "/api/v1", {}, {{"Authorization", std::string("Bearer ") + wrong}}).status, 401);
}

TEST(Access, ReadsItsFileOfKeysAnew) {
  const TemporaryDirectory folder;
  const std::string path = folder.path() + "/keys";
  std::ofstream(path) << "# a comment\nold-key\n";
  auto access = server::Access::make({{}, path, {}, {}, true}).value();
  server::HttpRequest request;
  request.peer = "unix";
  request.headers = {{"x-api-key", "old-key"}};
  EXPECT_FALSE(access->refusal(request, false));
  std::ofstream(path) << "new-key\n";
  ASSERT_TRUE(access->reload());
  EXPECT_TRUE(access->refusal(request, false));
  std::ofstream(path) << "\n";
  EXPECT_FALSE(access->reload());
  request.headers = {{"x-api-key", "new-key"}};
  EXPECT_FALSE(access->refusal(request, false)) << "the keys stay as they were";
}

TEST(Access, ComparesWhole) {
  EXPECT_TRUE(server::equal_in_constant_time("abc", "abc"));
  EXPECT_FALSE(server::equal_in_constant_time("abc", "abd"));
  EXPECT_FALSE(server::equal_in_constant_time("abc", "ab"));
  EXPECT_FALSE(server::equal_in_constant_time(std::string(300, 'a'), std::string(300, 'a')));
}

TEST(Access, RefusesOtherHosts) {
  server::Service::Options options;
  options.access.hosts = {"mesh.example"};
  Serving serving(std::move(options));
  for (const char* host : {"localhost", "127.0.0.1:8080", "[::1]:80", "LocalHost", "mesh.example:1"}) {
    Client client(serving.address());
    client.send(std::string("GET /health HTTP/1.1\r\nHost: ") + host + "\r\n\r\n");
    EXPECT_EQ(client.read()->status, 200) << host;
  }
  for (const char* host : {"evil.example", "localhost.evil.example", "127.0.0.1.evil.example", ""}) {
    Client client(serving.address());
    client.send(std::string("GET /health HTTP/1.1\r\nHost: ") + host + "\r\n\r\n");
    EXPECT_EQ(client.read()->status, 403) << host;
  }
}

TEST(Access, RefusesWhatPagesMaySendWithoutAsking) {
  Serving serving;
  for (const char* type : {"text/plain", "text/plain; charset=utf-8", "application/x-www-form-urlencoded",
                           "multipart/form-data; boundary=a"})
    EXPECT_EQ(serving.ask("POST", "/api/v1/meshes", "{}", {{"Content-Type", type}}).status, 415) << type;
  EXPECT_EQ(serving.ask("POST", "/api/v1/meshes", "{}", {{"Content-Encoding", "gzip"}}).status, 415);
}

TEST(Access, AllowsNamedOriginsAlone) {
  server::Service::Options options;
  options.access.origins = {"https://page.example"};
  Serving serving(std::move(options));
  const auto ask = [&](const char* method, const char* origin, const char* wanted) {
    return serving.ask(method, "/api/v1", {},
                       {{"Origin", origin}, {"Access-Control-Request-Headers", wanted}, {"Content-Length", "0"}});
  };
  const Reply fine = ask("OPTIONS", "https://page.example", "Authorization, X-Stainless-Os");
  EXPECT_EQ(fine.status, 204);
  EXPECT_EQ(fine.headers.at("access-control-allow-origin"), "https://page.example");
  EXPECT_EQ(fine.headers.at("access-control-allow-headers"), "Authorization, X-Stainless-Os");
  EXPECT_FALSE(ask("OPTIONS", "https://page.example", "x-other").headers.contains("access-control-allow-headers"));
  EXPECT_EQ(ask("OPTIONS", "https://evil.example", "").status, 403);
  EXPECT_FALSE(ask("GET", "https://evil.example", "").headers.contains("access-control-allow-origin"));
  EXPECT_FALSE(server::Access::make({{"key"}, "", {"*"}, {}, true}));
}

}  // namespace
