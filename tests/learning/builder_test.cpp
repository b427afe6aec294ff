// SPDX-License-Identifier: Apache-2.0

#include "learning/options.hpp"
#include "learning/stream_options.hpp"

#include "mesh/network/network.hpp"
#include "mesh/network/network_json.hpp"

#include <gtest/gtest.h>

namespace weft::learning::builder_test {
namespace {

TEST(NetworkBuilder, StatesLearningAndStreamInTypedForm) {
  const LearningOptions learning{.rule = Rule::dfa, .schedule = Schedule::pipelined, .optimizer = {.lr = 0.125f}};
  const StreamOptions stream{.csv = "x.csv", .held_out = 0.25, .stratified = true, .window = 50};
  mesh::NetworkBuilder network("typed", {});
  network.input("x", 4).dense({0, 0, 0, 0}, 3).output("y", {0, 0, 0, 0}).learning(learning).stream(stream);
  const auto file = mesh::write_network(network.spec());
  ASSERT_TRUE(file) << file.error().text();
  const auto read = mesh::read_network(*file, "typed.json");
  ASSERT_TRUE(read) << read.error().text();
  const auto own = read_learning(read->learning);
  ASSERT_TRUE(own) << own.error().text();
  EXPECT_EQ(*own, learning);
  const auto samples = read_stream(read->stream);
  ASSERT_TRUE(samples) << samples.error().text();
  EXPECT_EQ(write_stream(*samples), write_stream(stream));
  EXPECT_EQ(samples->held_out, 0.25);
  EXPECT_TRUE(samples->stratified);
}

}  // namespace
}  // namespace weft::learning::builder_test
