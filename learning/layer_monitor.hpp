// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/coord.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace weft::learning {

class Learner;
class LayerStatistics;

/// Measurements of a layer as it learns, of its last update that was measured. Means are over the learners.
struct LayerDiagnostics {
  Coord at;
  /// rms of the error that reached it: of target rules target - output, in units of its output; of backprop the
  /// gradient of the loss by its output.
  float error = 0.0f;
  /// Link budget, (cos(output, target) + 1) / 2, from 0 to 1; none: the rule has no targets.
  std::optional<float> budget;
  /// rms of the change of its weights, in units of the weights; and over the rms of the weights themselves. 0: it did
  /// not move.
  float update = 0.0f, relative_update = 0.0f;
  /// rms of its weights after that: what grows where a network loses its plasticity.
  float weight = 0.0f;
  /// Ticks since the layer published what the error speaks of.
  std::uint64_t error_age = 0;
  /// Share of its units that are dormant (learning/plasticity.hpp), where somebody measured it.
  std::optional<float> dormant = std::nullopt;
};

/// Looks at a learner's layers as they learn, with the same bits. Where a device runs the steps nothing is measured.
/// One for a learner, which must outlive it.
/// @thread one at a time, as the learner
class LayerMonitor {
 public:
  /// @throw std::bad_alloc  a copy of all weights is kept
  explicit LayerMonitor(Learner& learner);
  ~LayerMonitor();
  LayerMonitor(const LayerMonitor&) = delete;
  LayerMonitor& operator=(const LayerMonitor&) = delete;

  /// Updates are measured from now on, and slower, or are not: between calls of the learner.
  void measure(bool is_on) noexcept;
  /// Last measurements of each layer that an error has reached, in the network's order.
  std::vector<LayerDiagnostics> read() const;

 private:
  Learner& learner_;
  std::unique_ptr<LayerStatistics> statistics_;
};

}  // namespace weft::learning
