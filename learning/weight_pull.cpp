// SPDX-License-Identifier: Apache-2.0

#include "learning/weight_pull.hpp"

#include "mesh/mesh_access.hpp"
#include "mesh/weights/weight_store.hpp"

#include "kernels/float_environment.hpp"

#include "core/assert.hpp"
#include "core/philox.hpp"

#include <cmath>
#include <vector>

namespace weft::learning {

std::string_view name(Pull pull) noexcept {
  constexpr std::string_view kNames[] = {"none", "initial", "fresh"};
  return kNames[static_cast<std::size_t>(pull)];
}

void pull_weights(mesh::Mesh& mesh, const PlasticityOptions& options, std::uint64_t samples) {
  const kernels::FlushSubnormals exact;
  const mesh::Graph& graph = mesh.graph();
  mesh::WeightStore& weights = mesh::MeshAccess::weights(mesh);
  const bool is_fresh = options.pull == Pull::fresh;
  // Fresh ones are of a seed for each pull.
  const std::uint64_t seed = mesh.spec().seed + (is_fresh ? samples / options.every : 0);
  const RandomPurpose purpose = is_fresh ? RandomPurpose::renew : RandomPurpose::init;
  for (mesh::WeightStore::Parameter& parameter : weights.parameters()) {
    const mesh::NodeId node = parameter.node;
    if (!parameter.data || graph.nodes()[node].freezes(*parameter.spec) || weights.rates.of(node) == 0.0f) continue;
    const std::vector<float> other = weights.draw(graph, parameter, seed, purpose);
    std::vector<float> values = weights.read(parameter);
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = is_fresh ? (1.0f - options.share) * values[i] + options.scale * other[i]
                           : values[i] + options.share * (other[i] - values[i]);
    const Status written = weights.write(parameter, values, "plasticity");
    // Weights of learning are finite, and so is what lies between two of them.
    WEFT_ASSERT(written, written.error().text());
  }
}

}  // namespace weft::learning
