// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/graph.hpp"
#include "mesh/weights/quantized_weight.hpp"

#include "core/encoding.hpp"
#include "core/result.hpp"

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

namespace weft::mesh {

class WeightStore;

/// Storage of matrices that takes the place of what a store has for them, made before anything changes: everything that
/// can fail comes first.
struct WeightConversion {
  struct Matrix {
    std::size_t parameter = 0;
    bool is_stored = false;                   // in a quantized form; false: the master computes
    bool has_master = false;                  // false: it has none then
    std::unique_ptr<QuantizedWeight> stored;  // null: the form stays
    WeightMemory master;                      // empty: the master stays
  };
  std::vector<Matrix> matrices;

  /// A layer's matrices in another encoding. A master that was released is made of what computes.
  /// @error unsupported: the layer has no matrix; not_finite: a weight the type cannot hold, the first index named
  static Result<WeightConversion> make(const WeightStore& weights, NodeId node, std::string_view object,
                                       const Encoding& encoding, bool allow_non_finite);
};

}  // namespace weft::mesh
