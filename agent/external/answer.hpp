// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "agent/environments/environment.hpp"

#include <cstdint>
#include <vector>

namespace weft::agent {

/// One answer of an environment outside of this process: to the beginning of an episode, or to an action.
struct Answer {
  bool is_reset = false;
  std::uint32_t action = 0;  ///< that it answers; of a reset, and of an action that is values, 0
  Outcome outcome{};         ///< of a reset none
  std::vector<float> observation;
  std::vector<float> values{};  ///< of the action that it answers; of a choice none
};

}  // namespace weft::agent
