// SPDX-License-Identifier: Apache-2.0

#include "mesh/device/step_guards.hpp"

#include <utility>

namespace weft::mesh {

void StepGuards::hold_back_if_zero(NodeId node, const float* values, std::size_t count) {
  is_guarded_[node] = 1;
  std::uint32_t* const idle = words_.idle + node;
  to_.fill({0.0f, {reinterpret_cast<float*>(idle), 1, 1, 1}});
  to_.flag_all_zero(values, count, idle, 1);
}

void StepGuards::begin_move(NodeId node) {
  if (is_guarded_[node]) to_.skip_steps(words_.idle + node);
}

void StepGuards::end_move(NodeId node) {
  if (!is_guarded_[node]) return;
  to_.run(kernels::ops::sgd_step(1, words_.updates + node, words_.minus_one, 1.0f));  // one more, if it was moved
  to_.skip_steps(nullptr);
}

std::vector<NodeId> StepGuards::take() {
  std::vector<NodeId> nodes;
  for (NodeId node = 0; node < is_guarded_.size(); ++node)
    if (std::exchange(is_guarded_[node], 0)) nodes.push_back(node);
  return nodes;
}

}  // namespace weft::mesh
