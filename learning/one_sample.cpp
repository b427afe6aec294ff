// SPDX-License-Identifier: Apache-2.0

#include "learning/one_sample.hpp"

#include <string>

namespace weft::learning {
namespace {

Status check_one(const mesh::Mesh& mesh) {
  const std::size_t inputs = mesh.graph().port_count(), outputs = mesh.graph().outputs().size();
  if (inputs == 1 && outputs == 1 && mesh.sessions() == 1) return {};
  return fail(Errc::invalid_argument, "network '" + mesh.spec().name + "': " + std::to_string(inputs) + " inputs, " +
                                          std::to_string(outputs) + " outputs, " + std::to_string(mesh.sessions()) +
                                          " sessions; predict_one and learn_one take one of each");
}

Status learn(Learner& learner, std::span<const float> x, Target target) {
  const mesh::Mesh& mesh = learner.mesh();
  WEFT_CHECK(check_one(mesh));
  const mesh::RunInput input{mesh.spec().inputs[0].name, x};
  target.output = mesh.spec().outputs[0].name;
  return learner.learn({&input, 1}, {&target, 1}, 1);
}

}  // namespace

Status predict_one(const Learner& learner, std::span<const float> x, std::span<float> y) {
  const mesh::Mesh& mesh = learner.mesh();
  WEFT_CHECK(check_one(mesh));
  const mesh::RunInput input{mesh.spec().inputs[0].name, x};
  const mesh::RunOutput output{mesh.spec().outputs[0].name, y};
  return learner.predict({&input, 1}, 1, {&output, 1}, 0);
}

Status learn_one(Learner& learner, std::span<const float> x, std::uint32_t label) {
  return learn(learner, x, {.output = {}, .labels = {&label, 1}});
}

Status learn_one(Learner& learner, std::span<const float> x, std::span<const float> values) {
  return learn(learner, x, {.output = {}, .values = values});
}

}  // namespace weft::learning
