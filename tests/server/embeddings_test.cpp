// SPDX-License-Identifier: Apache-2.0

#include "server/values.hpp"

#include "core/base64.hpp"

#include <gtest/gtest.h>

#include "tests/server/stories.hpp"
#include <cmath>

namespace {

using namespace weft;
using namespace weft::testing;

std::vector<float> floats(const Json& list) { return list.get<std::vector<float>>(); }

double length_of(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * static_cast<double>(value);
  return std::sqrt(sum);
}

TEST(Embeddings, AreOfLengthOneInTheOrderOfTheInputs) {
  if (!has_stories()) GTEST_SKIP() << "no ../shared/data";
  Stories stories;
  const Json two = stories.ask("/v1/embeddings", {{"input", Json::array({Json("The cat"), Json("One day")})}});
  EXPECT_EQ(two["object"].text(), "list");
  ASSERT_EQ(two["data"].size(), 2u);
  EXPECT_EQ(two["usage"]["prompt_tokens"], two["usage"]["total_tokens"]);
  for (std::size_t i = 0; i < 2; ++i) {
    const Json one = stories.ask("/v1/embeddings", {{"input", i == 0 ? "The cat" : "One day"}});
    EXPECT_EQ(two["data"][i]["index"], i);
    EXPECT_EQ(two["data"][i]["embedding"], one["data"][0]["embedding"]);
    const auto values = floats(one["data"][0]["embedding"]);
    EXPECT_EQ(values.size(), 64u);
    EXPECT_NEAR(length_of(values), 1, 1e-6);
    const Json coded =
        stories.ask("/v1/embeddings", {{"input", i == 0 ? "The cat" : "One day"}, {"encoding_format", "base64"}});
    EXPECT_EQ(coded["data"][0]["embedding"].text(), base64(server::raw_of(values)));
  }
  const Json llama = stories.ask("/embedding", {{"content", "The cat"}});
  ASSERT_EQ(llama.size(), 1u);
  EXPECT_EQ(llama[0]["embedding"][0], two["data"][0]["embedding"]);
}

TEST(Embeddings, AreMadeByMeshesToo) {
  Serving serving;
  serving.make("net");
  const auto ask = [&](Json request) {
    request["model"] = "net";
    return serving.ask("POST", "/v1/embeddings", request.dump());
  };
  const Json rows = Json::array({Json(std::vector<float>{1, 0, 0, 0}), Json(std::vector<float>{0, 1, -1, 0.5f})});
  const Reply reply = ask({{"input_vectors", rows}});
  ASSERT_EQ(reply.status, 200) << reply.body;
  const Json forward = serving.ask("POST", "/api/v1/meshes/net/forward", Json{{"inputs", {{"x", rows}}}}.dump()).json();
  for (std::size_t i = 0; i < 2; ++i) {
    const auto expected = floats(forward["outputs"]["y"][i]), found = floats(reply.json()["data"][i]["embedding"]);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t k = 0; k < found.size(); ++k)
      EXPECT_NEAR(found[k], static_cast<double>(expected[k]) / length_of(expected), 1e-6);
  }
  EXPECT_EQ(ask({{"input", "text"}}).status, 501);
  EXPECT_EQ(ask({{"input_vectors", Json::array({Json(std::vector<float>{1, 2})})}}).status, 400);
}

TEST(Embeddings, RefuseWhatCannotBe) {
  if (!has_stories()) GTEST_SKIP() << "no ../shared/data";
  Stories stories;
  const auto status = [&](const Json& request) {
    return stories.serving().ask("POST", "/v1/embeddings", request.dump()).status;
  };
  EXPECT_EQ(status(Json::object()), 400);
  EXPECT_EQ(status({{"input", ""}, {"encoding_format", "hex"}}), 400);
  EXPECT_EQ(status({{"input", Json::array()}}), 400);
  EXPECT_EQ(status({{"input", "cat"}, {"dimensions", 8}}), 400);
  EXPECT_EQ(status({{"input", "cat"}, {"dimensions", 64}}), 200);
  std::string far;
  for (int i = 0; i < 200; ++i) far += " cat";
  EXPECT_EQ(status({{"input", far}}), 400);
}

}  // namespace
