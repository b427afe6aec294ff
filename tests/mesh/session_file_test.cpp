// SPDX-License-Identifier: Apache-2.0

#include "mesh/persistence/session_file.hpp"

#include "mesh/mesh_access.hpp"
#include "mesh/network/graph.hpp"
#include "mesh/persistence/entity_model.hpp"
#include "mesh/persistence/snapshot.hpp"
#include "mesh/runtime/step_rule.hpp"
#include "mesh/weights/weight_store.hpp"

#include "core/json.hpp"

#include "fault_scenarios.hpp"
#include <functional>

namespace weft::mesh::session_file_test {
namespace {

using formats::EntityFile;
using namespace testing_support;

EntityFile file_of(const Mesh& mesh, std::size_t session) {
  return must(formats::decode_entity(must(detach_session(mesh, session)), "session"));
}

/// Outputs of session `session` when it continues from tick `age`.
std::vector<std::uint32_t> outputs_of_run(Mesh& mesh, std::size_t session, std::uint64_t age, std::uint64_t ticks) {
  std::vector<std::uint32_t> said;
  for (std::uint64_t t = age; t < age + ticks; ++t) {
    if (t % 2 == 0) must(mesh.set_input("a", noise(7, 10 * t), session));
    must(mesh.set_input("b", noise(5, 77 + t), session));
    must(mesh.tick());
    for (const char* const output : {"left", "right"})
      for (const std::uint32_t word : bits(must(mesh.output(output, session)))) said.push_back(word);
  }
  return said;
}

/// Noise that a session draws, gates, and feedback.
NetworkSpec moody_network(std::uint64_t seed = 4) {
  return NetworkBuilder("moody", GridShape{1, 1, 4, 1})
      .input("a", 7)
      .input("b", 5)
      .layer({0, 0, 0, 0}, "lstm", 16)
      .from({"a", "b", Coord{0, 0, 3, 0}})
      .layer({0, 0, 1, 0}, "softmax")
      .option("kind", std::string("gumbel"))
      .dense({0, 0, 2, 0}, 6, kernels::Activation::tanh)
      .dtype(Dtype::int8)
      .dense({0, 0, 3, 0}, 6)
      .output("left", {0, 0, 2, 0})
      .output("right", {0, 0, 3, 0})
      .seed(seed)
      .spec();
}

TEST(SessionFile, GoesOnElsewhereToTheSameBits) {
  for (const NetworkSpec& spec : {mixed_network().spec(), moody_network()}) {
    Mesh here = must(Mesh::build(spec, {.threads = 1, .sessions = 3}));
    outputs_of_run(here, 1, 0, 9);
    const EntityFile file = file_of(here, 1);
    SessionSnapshot saved;
    must(here.take_session_snapshot(1, saved));
    const auto stays = outputs_of_run(here, 1, 9, 15);
    // Another name, more threads, other sessions, and it stands at another tick.
    NetworkSpec other = spec;
    other.name = "elsewhere";
    Mesh there = must(Mesh::build(other, {.threads = 2, .sessions = 2, .grain_bytes = 0}));
    outputs_of_run(there, 0, 100, 4);
    const std::size_t session = must(attach_session(there, file));
    EXPECT_EQ(session, 2u);
    EXPECT_EQ(outputs_of_run(there, session, 9, 15), stays) << spec.name;
    // In memory too, and a second time beside itself.
    must(there.restore_session_snapshot(1, saved));
    EXPECT_EQ(outputs_of_run(there, 1, 9, 15), stays) << spec.name;
    const std::size_t counterpart = must(attach_session(there, file));
    EXPECT_EQ(outputs_of_run(there, counterpart, 9, 15), stays) << spec.name;
  }
}

TEST(SessionFile, IsTheSameWhereverTheSameSessionIs) {
  Mesh alone = must(Mesh::build(mixed_network().spec(), {.threads = 1}));
  Mesh among = must(Mesh::build(mixed_network().spec(), {.threads = 2, .sessions = 4, .grain_bytes = 0}));
  outputs_of_run(alone, 0, 0, 8);
  outputs_of_run(among, 3, 0, 8);
  const auto one = must(detach_session(alone, 0)), two = must(detach_session(among, 3));
  EXPECT_TRUE(std::equal(one.begin(), one.end(), two.begin(), two.end()));
}

TEST(SessionFile, RefusesOtherNetworksAndOtherWeightsNamingBoth) {
  Mesh here = must(Mesh::build(mixed_network(7).spec(), {.threads = 1}));
  outputs_of_run(here, 0, 0, 5);
  const EntityFile file = file_of(here, 0);
  Mesh network = must(Mesh::build(moody_network(), {.threads = 1}));
  expect_error(attach_session(network, file), Errc::shape_mismatch,
               {to_string(here.network_digest()), to_string(network.network_digest())});
  EXPECT_EQ(network.sessions(), 1u);
  Mesh weights = must(Mesh::build(mixed_network(8).spec(), {.threads = 1}));
  expect_error(attach_session(weights, file), Errc::invalid_argument,
               {to_string(weights_digest(here)), to_string(weights_digest(weights)), "allow other weights"});
  EXPECT_EQ(weights.sessions(), 1u);
  EXPECT_EQ(must(attach_session(weights, file, true)), 1u);
  // A type is other weights; a master that does not compute is not.
  must(MeshAccess::weights(here).morph(here.graph().port_count(), "layers[0]", Encoding(Dtype::int8)));
  expect_error(attach_session(here, file), Errc::invalid_argument, {"allow other weights"});
  const Hash128 with = weights_digest(here);
  const std::vector<NodeId> nodes{static_cast<NodeId>(here.graph().port_count())};
  must(MeshAccess::weights(here).release_masters(here.graph(), nodes));
  EXPECT_EQ(weights_digest(here), with);
  // With noise, another seed is another network.
  Mesh one = must(Mesh::build(moody_network(1), {.threads = 1})),
       two = must(Mesh::build(moody_network(2), {.threads = 1}));
  expect_error(attach_session(two, file_of(one, 0), true), Errc::shape_mismatch, {to_string(one.network_digest())});
}

TEST(SessionFile, OfASessionWithErrorsUnderWayIsRefused) {
  struct Rule final : StepRule {
    bool fires(std::uint64_t) const noexcept override { return true; }
    std::uint64_t fired_before(std::uint64_t step) const noexcept override { return step; }
    void learn(StepContext&, NodeId) noexcept override {}
  } rule;
  Mesh mesh = must(Mesh::build(mixed_network().spec(), {.threads = 1, .sessions = 3}));
  Mesh plain = must(Mesh::build(mixed_network().spec(), {.threads = 1}));
  outputs_of_run(mesh, 2, 0, 6);
  must(MeshAccess::attach(mesh, &rule, 8));
  expect_error(detach_session(mesh, 2), Errc::invalid_argument, {"session 2", "how many"});
  expect_error(detach_session(mesh, 1, 2), Errc::unsupported, {"session 1", "the 2", "from 2 on"});
  expect_error(detach_session(mesh, 3, 2), Errc::out_of_range, {"3 of 3"});
  must(detach_session(mesh, 1, 0));
  // One that is not trained goes where nothing learns, and back.
  const auto file = must(formats::decode_entity(must(detach_session(mesh, 2, 2)), "session"));
  const std::size_t session = must(attach_session(plain, file));
  EXPECT_EQ(must(attach_session(mesh, file_of(plain, session))), 3u);
  for (const char* const output : {"left", "right"})
    EXPECT_EQ(bits(must(mesh.output(output, 3))), bits(must(mesh.output(output, 2))));
  must(MeshAccess::attach(mesh, nullptr, 2));
}

TEST(SessionFile, RefusesWhatIsNoSession) {
  Mesh mesh = must(Mesh::build(mixed_network().spec(), {.threads = 1}));
  const EntityFile good = file_of(mesh, 0);
  EXPECT_TRUE(holds_session(good));
  const EntityFile model = must(formats::decode_entity(must(encode_mesh(mesh, true)), "model"));
  EXPECT_FALSE(holds_session(model));
  expect_error(attach_session(mesh, model), Errc::not_found, {"no session alone"});
  const auto with = [&](const std::function<void(Json&)>& change, const std::vector<float>& values) {
    Json meta = good.meta();
    change(meta["session"]);
    return must(formats::decode_entity(
        must(formats::encode_entity(good.network(), meta,
                                    {formats::make_tensor("session/state", std::span<const float>(values))})),
        "changed"));
  };
  const auto nothing = [](Json&) {};
  const auto state = must(good.values<float>("session/state"));
  const std::vector<float> values(state.begin(), state.end());
  std::vector<float> infinite = values, shorter(values.begin(), values.end() - 1);
  infinite[3] = std::numeric_limits<float>::infinity();
  expect_error(attach_session(mesh, with(nothing, infinite)), Errc::corrupt, {"value 3", "inf"});
  expect_error(attach_session(mesh, with(nothing, shorter)), Errc::corrupt,
               {std::to_string(values.size() - 1), std::to_string(values.size())});
  expect_error(attach_session(mesh, with([](auto& s) { s["network"] = "12"; }, values)), Errc::corrupt,
               {"meta.session.network", "12"});
  EXPECT_FALSE(attach_session(mesh, with([](auto& s) { s.erase("weights"); }, values)));
  EXPECT_FALSE(attach_session(mesh, with([](auto& s) { s["moods"] = 3; }, values)));
  EXPECT_EQ(mesh.sessions(), 1u);
}

}  // namespace
}  // namespace weft::mesh::session_file_test
