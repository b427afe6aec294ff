// SPDX-License-Identifier: Apache-2.0
// HTTP's corners, by sockets.

#include <gtest/gtest.h>

#include "tests/server/serving.hpp"
#include "tests/support/temporary_directory.hpp"
#include <atomic>
#include <thread>

namespace {

using namespace weft;
using namespace weft::testing;
using std::chrono::milliseconds;
using storage::TemporaryDirectory;

const std::string kHealth = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";

TEST(Http, AnswersByteByByte) {
  Serving serving;
  Client client(serving.address());
  for (const char each : kHealth) client.send({&each, 1});
  EXPECT_EQ(client.read()->status, 200);
}

TEST(Http, AnswersPipelinedRequestsInOrder) {
  Serving serving;
  Client client(serving.address());
  client.send(kHealth + "GET /none HTTP/1.1\r\nHost: localhost\r\n\r\n" + kHealth);
  EXPECT_EQ(client.read()->status, 200);
  EXPECT_EQ(client.read()->status, 404);
  EXPECT_EQ(client.read()->status, 200);
}

TEST(Http, EachAnswerSaysWhoAndWhat) {
  Serving serving;
  const Reply reply = serving.ask("GET", "/health", {}, {{"x-request-id", "abc-1"}});
  EXPECT_EQ(reply.headers.at("x-request-id"), "abc-1");
  EXPECT_EQ(reply.headers.at("server"), "weft/test");
  EXPECT_EQ(reply.headers.at("x-content-type-options"), "nosniff");
  EXPECT_EQ(reply.headers.at("cache-control"), "no-store");
  EXPECT_TRUE(
      serving.ask("GET", "/health", {}, {{"x-request-id", "a b\"<"}}).headers.at("x-request-id").starts_with("req-"));
}

TEST(Http, RefusesWhatProxiesReadOtherwise) {
  Serving serving;
  const std::string post = "POST /api/v1/meshes HTTP/1.1\r\nHost: localhost\r\n";
  for (const std::string& request :
       {post + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        post + "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
        post + "Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcd", post + "Transfer-Encoding: gzip\r\n\r\n",
        post + "Content-Length: -1\r\n\r\n", post + "Content-Length: 4 4\r\n\r\nabcd",
        std::string("GET /health HTTP/1.1\r\nHost: localhost\r\nHost: b\r\n\r\n"),
        std::string("GET /health HTTP/1.1\r\n\r\n"), std::string("GET /health HTTP/1.1\nHost: localhost\r\n\r\n\r\n"),
        std::string("GET /health HTTP/1.1\r\nHost: localhost\r\nX: a\r\n b\r\n\r\n"),
        std::string("GET /health HTTP/1.1\r\nHost : localhost\r\n\r\n"),
        std::string("GET health HTTP/1.1\r\nHost: localhost\r\n\r\n"), std::string("G@T / HTTP/1.1\r\nHost: a\r\n\r\n"),
        std::string("\x16\x03\x01\x02\r\n\r\n", 8)}) {
    Client client(serving.address());
    client.send(request);
    const auto reply = client.read();
    ASSERT_TRUE(reply) << request;
    EXPECT_EQ(reply->status, 400) << request;
    EXPECT_TRUE(reply->json()["error"]["message"].is_string());
    EXPECT_TRUE(client.is_closed()) << request;
  }
  Client old(serving.address());
  old.send("GET /health HTTP/2.0\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(old.read()->status, 505);
}

TEST(Http, RefusesLargeHeadsAndBodies) {
  server::Service::Options options;
  options.max_body = 1000;
  Serving serving(std::move(options));
  Client head(serving.address());
  head.send("GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + std::string(20'000, 'a'));
  EXPECT_EQ(head.read()->status, 431);
  EXPECT_TRUE(head.is_closed());
  Client told(serving.address());
  told.send("POST /api/v1/meshes HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1001\r\n\r\n");
  EXPECT_EQ(told.read()->status, 413) << "at once, before any byte of the body";
  Client chunked(serving.address());
  chunked.send("POST /api/v1/meshes HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (int i = 0; i < 11; ++i) chunked.send("64\r\n" + std::string(100, 'a') + "\r\n");
  EXPECT_EQ(chunked.read()->status, 413);
  EXPECT_TRUE(chunked.is_closed());
}

TEST(Http, ReadsChunkedBodies) {
  Serving serving;
  Client client(serving.address());
  const std::string body = R"({"name":"a","network":)" + small_network_json() + "}";
  client.send("POST /api/v1/meshes HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (const char each : body) client.send("1;x=y\r\n" + std::string(1, each) + "\r\n");
  client.send("0\r\nTrailer: x\r\n\r\n" + kHealth);
  EXPECT_EQ(client.read()->status, 201);
  EXPECT_EQ(client.read()->status, 200);
}

TEST(Http, TellsMethodsAndHeads) {
  Serving serving;
  const Reply reply = serving.ask("DELETE", "/health");
  EXPECT_EQ(reply.status, 405);
  EXPECT_EQ(reply.headers.at("allow"), "GET, HEAD");
  Client client(serving.address());
  const Reply head = client.ask("HEAD", "/health");
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.headers.at("content-length"), "15");
  EXPECT_EQ(client.ask("GET", "/health").body, R"({"status":"ok"})");
  EXPECT_EQ(serving.ask("GET", "/health/").status, 404);
  EXPECT_EQ(serving.ask("GET", "/api/v1/meshes/%2e%2e").status, 404);
  EXPECT_EQ(serving.ask("GET", "/api/v1/meshes/%zz").status, 404);
}

TEST(Http, ContinuesWhereAsked) {
  Serving serving;
  Client client(serving.address());
  const std::string body = R"({"name":"a","network":)" + small_network_json() + "}";
  client.send("POST /api/v1/meshes HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: " +
              std::to_string(body.size()) + "\r\n\r\n");
  EXPECT_EQ(client.read()->status, 100);
  client.send(body);
  EXPECT_EQ(client.read()->status, 201);
  Client refused(serving.address());
  refused.send("POST /none HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
  EXPECT_EQ(refused.read()->status, 404);
  EXPECT_TRUE(refused.is_closed());
}

TEST(Http, EndsSlowAndSilentClients) {
  server::HttpServer::Options http;
  http.limits.head = milliseconds(100);
  http.limits.body = milliseconds(100);
  http.limits.keep_alive = milliseconds(300);
  Serving serving({}, std::move(http));
  Client head(serving.address()), body(serving.address()), silent(serving.address());
  head.send("GET /health HTTP/1.1\r\nHo");
  body.send("POST /api/v1/meshes HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n{");
  EXPECT_EQ(head.read()->status, 408);
  EXPECT_TRUE(head.is_closed());
  EXPECT_EQ(body.read()->status, 408);
  EXPECT_TRUE(silent.is_closed());
  EXPECT_EQ(serving.ask("GET", "/health").status, 200);
}

TEST(Http, LimitsConnections) {
  server::HttpServer::Options http;
  http.limits.per_address = 3;
  Serving serving({}, std::move(http));
  {
    Client a(serving.address()), b(serving.address()), c(serving.address());
    EXPECT_EQ(c.ask("GET", "/health").status, 200);
    Client d(serving.address());
    EXPECT_TRUE(d.is_closed());
  }
  for (int i = 0; i < 100; ++i) {  // the three are gone in a moment
    Client again(serving.address());
    again.send(kHealth);
    if (again.read(milliseconds(200))) return;
  }
  FAIL() << "no connection was given back";
}

TEST(Http, ServesUnixSockets) {
  const TemporaryDirectory folder;
  server::HttpServer::Options http;
  http.listen = {"unix:" + folder.path() + "/s"};
  Serving serving({}, std::move(http));
  EXPECT_EQ(serving.address(), "unix:" + folder.path() + "/s");
  EXPECT_EQ(serving.ask("GET", "/health").status, 200);
  server::HttpServer::Options taken;
  taken.listen = {"unix:" + folder.path() + "/s"};
  auto other = server::Service::make({}).value();
  EXPECT_EQ(other->listen(std::move(taken)).error().code(), Errc::storage);
}

TEST(Http, SpeaksHttp10) {
  Serving serving;
  Client client(serving.address());
  client.send("GET /health HTTP/1.0\r\n\r\n");
  EXPECT_EQ(client.read()->status, 200);
  EXPECT_TRUE(client.is_closed());
}

TEST(Http, ManyConnectionsLeaveNoDescriptor) {
  Serving serving;
  for (int i = 0; i < 500; ++i) {
    Client client(serving.address());
    if (i % 3 == 0) client.send("GET /he");
    if (i % 3 == 1) {
      EXPECT_EQ(client.ask("GET", "/health").status, 200);
    }
    if (i % 5 == 0) client.abort();
  }
  std::string metrics;
  for (int i = 0; i < 100; ++i) {
    metrics = serving.ask("GET", "/metrics").body;
    if (metrics.find("weft_http_connections 1\n") != std::string::npos) return;
    std::this_thread::sleep_for(milliseconds(20));
  }
  FAIL() << metrics;
}

}  // namespace
