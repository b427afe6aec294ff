// SPDX-License-Identifier: Apache-2.0

#include "bridge/model.hpp"

#include "mesh/mesh_access.hpp"
#include "mesh/network/graph.hpp"
#include "mesh/persistence/entity_model.hpp"
#include "mesh/weights/weight_store.hpp"

#include "storage/durable.hpp"
#include "storage/file_system.hpp"

#include <signal.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <span>
#include <utility>

namespace weft::bridge {
namespace {

constexpr std::size_t kMostAnswer = std::size_t{1} << 27;

/// Keeps signals that would end the program waiting, so that no half a file stays behind.
class SignalsHeld {
 public:
  SignalsHeld() {
    sigset_t held;
    sigemptyset(&held);
    for (const int each : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) sigaddset(&held, each);
    pthread_sigmask(SIG_BLOCK, &held, &before_);
  }
  ~SignalsHeld() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsHeld(const SignalsHeld&) = delete;
  SignalsHeld& operator=(const SignalsHeld&) = delete;

 private:
  sigset_t before_{};
};

Status write_parameter(mesh::Mesh& mesh, const NetworkPlan::Parameter& given) {
  const auto node = mesh.graph().find_layer(given.at);
  WEFT_ASSERT(node.has_value(), "a plan names a layer that it does not have");
  mesh::WeightStore& weights = mesh::MeshAccess::weights(mesh);
  for (mesh::WeightStore::Parameter& each : weights.of(*node))
    if (each.spec->name == given.name)
      return weights.write(each, given.values, "layer " + std::to_string(given.at.x) + " '" + given.name + "'");
  return fail(Errc::internal, "layer " + std::to_string(given.at.x) + " has no parameter '" + given.name + "'");
}

/// Rows of the network's output, cut to the answer's width, or filled up with zeros.
Status append_rows(std::span<const float> out, const NetworkPlan& plan, std::size_t first, std::vector<float>& to) {
  const std::size_t kept = std::min(plan.row, plan.output_dim);
  for (std::size_t at = 0; at < out.size(); at += plan.row) {
    for (std::size_t i = 0; i < kept; ++i) {
      if (!std::isfinite(out[at + i]))
        return fail(Errc::not_finite, "output not finite (sample " + std::to_string(first + at / plan.row) +
                                          ", index " + std::to_string(i) + ")");
      to.push_back(out[at + i]);
    }
    to.resize(to.size() + plan.output_dim - kept, 0.0f);
  }
  return {};
}

}  // namespace

Result<Model> Model::build(NetworkPlan plan) {
  // A mesh for one call: threads would cost more than they save.
  WEFT_TRY(mesh::Mesh mesh, mesh::Mesh::build(plan.spec, {.threads = 1, .pin = false}));
  for (NetworkPlan::Parameter& each : plan.parameters) {
    WEFT_CHECK(write_parameter(mesh, each));
    each.values = {};  // the mesh holds them
  }
  return Model(std::move(plan), std::move(mesh));
}

Result<std::vector<float>> Model::forward(const FittedSamples& samples) const {
  std::vector<float> answer;
  if (samples.count == 0) return answer;
  if (samples.count > kMostAnswer / std::max<std::size_t>(plan_.output_dim, 1))
    return fail(Errc::too_large, std::to_string(samples.count) + " rows of " + std::to_string(plan_.output_dim) +
                                     " numbers are more than " + std::to_string(kMostAnswer));
  answer.reserve(samples.count * plan_.output_dim);
  // A row of a batch has the bits that it has alone, so batches may be as large as memory suggests.
  constexpr std::size_t kBatchValues = std::size_t{1} << 22, kMostRows = 256;
  const std::size_t batch =
      std::clamp<std::size_t>(kBatchValues / std::max<std::size_t>(plan_.widest, 1), 1, kMostRows);
  std::vector<float> out;
  for (std::size_t first = 0; first < samples.count; first += batch) {
    const std::size_t rows = std::min(batch, samples.count - first);
    std::vector<mesh::RunInput> inputs;
    for (std::size_t port = 0; port < samples.ports.size(); ++port) {
      const std::size_t width = samples.ports[port].size() / samples.count;
      inputs.push_back(
          {plan_.spec.inputs[port].name, std::span(samples.ports[port]).subspan(first * width, rows * width)});
    }
    out.resize(rows * plan_.row);
    const mesh::RunOutput sink{"out", out};
    WEFT_CHECK(mesh_.forward(inputs, rows, {&sink, 1}));
    WEFT_CHECK(append_rows(out, plan_, first, answer));
  }
  return answer;
}

Status Model::save(const std::string& path) {
  const auto parent = std::filesystem::path(path).parent_path();
  std::error_code error;
  std::filesystem::create_directories(parent, error);
  if (error) return fail(Errc::storage, parent.string() + ": the directory cannot be made: " + error.message());
  WEFT_TRY(const ByteSource content, mesh::entity_of(mesh_, false));
  const SignalsHeld until_written;
  return storage::write_file_durably(storage::real_file_system(), path, content);
}

}  // namespace weft::bridge
