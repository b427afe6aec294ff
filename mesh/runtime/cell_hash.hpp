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

/// Layers of a cell.
struct CellLayers {
  NodeId first = 0;
  std::uint32_t count = 0;
};

/// One cell's part of the state hash: its record, then of each layer the session's values, the weights and what the
/// rule keeps beside them. `weights(node, archive)`; `rule(node, hasher)`, which may be null.
template <class Record, class Weights, class Rule>
Hash128 hash_cell(const Record& record, const CellLayers& layers, const State& state, std::size_t session,
                  std::uint64_t tick, const Weights& weights, const Rule& rule) {
  StateHasher hasher;
  HashArchive archive(hasher);
  Record::visit(record, archive);
  for (NodeId id = layers.first; id < layers.first + layers.count; ++id) {
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
