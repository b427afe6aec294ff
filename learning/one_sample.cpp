// SPDX-License-Identifier: Apache-2.0

#include "learning/one_sample.hpp"

#include "learning/losses.hpp"

#include "kernels/cpu_stream.hpp"
#include "kernels/float_environment.hpp"

#include <cmath>
#include <string>
#include <vector>

namespace weft::learning {
namespace {

Status check_one(const mesh::Mesh& mesh) {
  const std::size_t inputs = mesh.graph().port_count(), outputs = mesh.graph().outputs().size();
  if (inputs == 1 && outputs == 1 && mesh.sessions() == 1) return {};
  return fail(Errc::invalid_argument, "network '" + mesh.spec().name + "': " + std::to_string(inputs) + " inputs, " +
                                          std::to_string(outputs) + " outputs, " + std::to_string(mesh.sessions()) +
                                          " sessions; one sample alone takes one of each");
}

Status learn(Learner& learner, std::span<const float> x, Target target) {
  const mesh::Mesh& mesh = learner.mesh();
  WEFT_CHECK(check_one(mesh));
  const mesh::RunInput input{mesh.spec().inputs[0].name, x};
  target.output = mesh.spec().outputs[0].name;
  return learner.learn({&input, 1}, {&target, 1}, 1);
}

/// Of a target of one output, whose gradient is the answer's scratch.
Result<float> score(const Learner& learner, std::span<const float> x, const Target& target) {
  const LearningOptions& options = learner.options();
  const mesh::Mesh& mesh = learner.mesh();
  WEFT_CHECK(check_one(mesh));
  const std::string object = "anomaly score in network '" + mesh.spec().name + "': ";
  if (!options.anomaly.is_on()) return fail(Errc::invalid_argument, object + "learning.anomaly.score is 'none'");
  const mesh::Node& output = mesh.graph().nodes()[mesh.graph().outputs()[0]];
  std::vector<float> y(output.width), slope(output.width);
  const kernels::MatrixView answer{y.data(), 1, y.size(), y.size()}, gradient{slope.data(), 1, y.size(), y.size()};
  float loss = 0.0f;
  kernels::CpuStream stream;
  const bool takes_values = targets_of(options.loss) == LossTargets::values;
  if (takes_values ? target.values.size() != y.size() : target.labels.size() != 1 || target.labels[0] >= y.size())
    return fail(Errc::shape_mismatch, object + "loss '" + std::string(name(options.loss)) + "' takes " +
                                          (takes_values ? std::to_string(y.size()) + " values"
                                                        : "a label below " + std::to_string(y.size())));
  if (targets_of(options.loss) == LossTargets::head_labels || output.layer->out_shape().size() > 1)
    return fail(Errc::unsupported, object + "several labels a sample");
  for (std::size_t i = 0; i < target.values.size(); ++i)
    if (!std::isfinite(target.values[i]))
      return fail(Errc::not_finite, object + "value " + std::to_string(i) + " is " + std::to_string(target.values[i]));
  WEFT_CHECK(predict_one(learner, x, y));
  const kernels::FlushSubnormals exact;
  if (takes_values)
    stream.value_loss(
        {options.loss, options.delta, answer, {target.values.data(), 1, y.size(), y.size()}, &loss, gradient});
  else
    stream.cross_entropy({answer, target.labels.data(), &loss, gradient});
  return anomaly_of(learner).score_of(loss);
}

}  // namespace

Status predict_one(const Learner& learner, std::span<const float> x, std::span<float> y) {
  const mesh::Mesh& mesh = learner.mesh();
  WEFT_CHECK(check_one(mesh));
  const mesh::RunInput input{mesh.spec().inputs[0].name, x};
  const mesh::RunOutput output{mesh.spec().outputs[0].name, y};
  return learner.predict({&input, 1}, 1, {&output, 1}, 0);
}

Result<float> score_one(const Learner& learner, std::span<const float> x, std::uint32_t label) {
  return score(learner, x, {.output = {}, .labels = {&label, 1}});
}

Result<float> score_one(const Learner& learner, std::span<const float> x, std::span<const float> values) {
  return score(learner, x, {.output = {}, .values = values});
}

Status learn_one(Learner& learner, std::span<const float> x, std::uint32_t label) {
  return learn(learner, x, {.output = {}, .labels = {&label, 1}});
}

Status learn_one(Learner& learner, std::span<const float> x, std::span<const float> values) {
  return learn(learner, x, {.output = {}, .values = values});
}

}  // namespace weft::learning
