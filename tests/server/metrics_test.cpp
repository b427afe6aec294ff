// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include "tests/server/serving.hpp"
#include "tests/support/temporary_directory.hpp"
#include <cstdlib>
#include <fstream>

namespace {

using namespace weft;
using namespace weft::testing;
using storage::TemporaryDirectory;

std::string some_metrics() {
  Serving serving;
  serving.make("a");
  serving.make("b", false);
  EXPECT_EQ(serving.ask("POST", "/api/v1/meshes/a/forward", R"({"inputs":{"x":[1,2,3,4]}})").status, 200);
  EXPECT_EQ(serving.ask("POST", "/api/v1/meshes/b/tick", R"({"n":3})").status, 200);
  EXPECT_EQ(serving.ask("GET", "/none/of/these").status, 404);
  const Reply reply = serving.ask("GET", "/metrics");
  EXPECT_EQ(reply.headers.at("content-type"), "text/plain; version=0.0.4; charset=utf-8");
  return reply.body;
}

TEST(Metrics, CountWhatWasDone) {
  const std::string text = some_metrics();
  for (const char* line :
       {"weft_ticks_total{mesh=\"a\"} 0\n", "weft_forward_rows_total{mesh=\"a\"} 1\n",
        "weft_build_info{version=\"test\"} 1\n",
        "weft_http_requests_total{route=\"/api/v1/meshes/{mesh}/forward\",status=\"200\"} 1\n",
        "weft_tick_seconds_count{mesh=\"b\"} 3\n", "weft_mesh_halted{mesh=\"b\"} 0\n",
        "weft_http_requests_total{route=\"none\",status=\"404\"} 1\n", "weft_cells{mesh=\"b\",status=\"running\"} 2\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  EXPECT_EQ(text.find("/none/of/these"), std::string::npos) << "no path of a client is a label";
  EXPECT_EQ(text.back(), '\n');
}

TEST(Metrics, PassPrometheusOwnCheck) {
  if (std::system("command -v promtool > /dev/null 2>&1") != 0) GTEST_SKIP() << "no promtool here (package prometheus)";
  const TemporaryDirectory folder;
  std::ofstream(folder.path() + "/m") << some_metrics();
  EXPECT_EQ(std::system(("promtool check metrics < " + folder.path() + "/m").c_str()), 0);
}

}  // namespace
