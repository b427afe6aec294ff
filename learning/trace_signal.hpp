// SPDX-License-Identifier: Apache-2.0

#pragma once

namespace weft::learning {

/// Numbers by which traces of an output's layers move and make a step (`learning.traces`):
///   z = decay z + gradient
///   rate = lr / max(1, lr bound max(|error|, 1) |z|), where |z| is the sum of absolute values over all these layers
///   w = w - rate error z; and after the step, where an episode `ends`, z = 0
/// @source Elsayed, Vasan and Mahmood 2024, "Streaming deep reinforcement learning finally works", arXiv:2410.14606
struct TraceSignal {
  float error = 0.0f;  ///< the temporal-difference error
  float decay = 0.0f;  ///< of the traces, discount times lambda: from 0 to 1
  float bound = 2.0f;  ///< kappa, >= 0
  bool ends = false;
  bool operator==(const TraceSignal&) const = default;
};

}  // namespace weft::learning
