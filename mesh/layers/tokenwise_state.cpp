// SPDX-License-Identifier: Apache-2.0

#include "mesh/layers/tokenwise_state.hpp"

#include "mesh/network/layer.hpp"

namespace weft::mesh {

const TokenwiseState* tokenwise_state(const Layer& layer) noexcept {
  const auto* const found = dynamic_cast<const TokenwiseState*>(&layer);
  return found && found->is_tokenwise() ? found : nullptr;
}

}  // namespace weft::mesh
