// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/network.hpp"
#include "mesh/runtime/state.hpp"

#include "core/archive.hpp"
#include "core/encoding.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace weft::mesh::internal {

/// A cell in the state hash, besides its layers.
struct CellPart {
  bool is_enabled = true;
  std::uint64_t period = 1;
  std::span<const std::uint64_t> monitors;  // memory of its metacognition layers
  NodeId first = 0;
  std::uint32_t layers = 0;
};

/// One cell's part of the state hash: its switches, then of each layer the session's values, the weights and what the
/// rule keeps beside them. `weights(node, archive)`; `rule(node, hasher)`, which may be null.
template <class Weights, class Rule>
Hash128 hash_cell(const CellPart& cell, const State& state, std::size_t session, std::uint64_t tick,
                  const Weights& weights, const Rule& rule) {
  StateHasher hasher;
  HashArchive archive(hasher);
  archive({"enabled", Scope::control}, std::uint64_t{cell.is_enabled});
  archive({"period", Scope::control}, cell.period);
  archive({"monitors", Scope::control}, cell.monitors);
  for (NodeId id = cell.first; id < cell.first + cell.layers; ++id) {
    state.visit_layer(id, session, tick, archive);
    weights(id, archive);
    if (rule) rule(id, hasher);
  }
  return hasher.digest();
}

/// Writes the type that a layer has into its description.
inline void set_encoding(LayerSpec& layer, const Encoding& encoding) {
  if (encoding == Encoding(layer.dtype, layer.granularity)) return;
  layer.dtype = encoding.dtype;
  layer.granularity.reset();
  if (encoding != Encoding(encoding.dtype)) layer.granularity = encoding.granularity;
}

}  // namespace weft::mesh::internal
