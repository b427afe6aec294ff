// SPDX-License-Identifier: Apache-2.0

#include "agent/environments/grid_game.hpp"

namespace weft::agent {

std::unique_ptr<Environment> make_turns(const EnvironmentOptions& options) {
  return std::make_unique<GridGame>(options.first, options.second, options.every);
}

}  // namespace weft::agent
