// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/internal/sample_rings.hpp"
#include "learning/optimizer.hpp"
#include "learning/past/past_options.hpp"

#include "mesh/mesh.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace weft::learning {

/// Holds weights near those of the last consolidation. After each update of a layer whose present weights are w, those
/// of the consolidation before a, and whose importance is F:
///   t = lr strength F;  w = w - (w - a) t / (1 + t)
/// which is an implicit step down strength F (w - a)^2 / 2, so that no strength makes it diverge. At a consolidation
/// a = w, and
///   ewc  F = decay F + mean of n g^2 over the updates since the one before; g: an update's gradient, n: its learners
///   si   F = F + max(0, s) / ((w - a)^2 + damping); s: sum of -g d since then; d: an update's step
/// lwf has no F: after a consolidation the errors of the outputs y get T strength (softmax(y / T) - softmax(z / T)),
/// where z is what the weights of then answer to the same samples.
/// The arrays lie beside the optimizer's, and are saved and hashed with them.
/// @thread one at a time, between two updates
/// @exact  elementwise in binary32, nothing fused: the same bits everywhere
/// @source ewc: Schwarz et al. 2018, "Progress and compress", arXiv:1805.06370; si: Zenke, Poole and Ganguli 2017,
///         arXiv:1703.04200; lwf: Li and Hoiem 2016, arXiv:1606.09282
class Consolidator {
 public:
  Consolidator() = default;
  /// `options.learners`: rows of an update; `ticks`: those after which an answer has left.
  Consolidator(const mesh::Mesh& mesh, const LearningOptions& options, std::uint32_t ticks);

  bool is_on() const noexcept { return options_.is_on(); }
  /// Before the update after `updates` others, of `sample`, which is staged in `rings`; inputs as Learner::learn takes
  /// them, of which sample `first` is meant. @error as MeshAccess::evaluate_copies
  Status before(mesh::Mesh& mesh, Optimizer& optimizer, std::uint64_t updates, SampleRings& rings, std::uint64_t sample,
                std::span<const mesh::RunInput> inputs, std::uint64_t first);
  /// After it, which was the `updates`-th.
  void after(mesh::Mesh& mesh, Optimizer& optimizer, std::uint64_t updates);

 private:
  template <class Use>
  void each_parameter(mesh::Mesh& mesh, Optimizer& optimizer, const Use& use);
  void exchange(mesh::Mesh& mesh, Optimizer& optimizer);
  Status guide(mesh::Mesh& mesh, Optimizer& optimizer, SampleRings& rings, std::uint64_t sample,
               std::span<const mesh::RunInput> inputs, std::uint64_t first);

  ConsolidationOptions options_{};
  float lr_ = 0;
  float learners_ = 1;
  std::uint32_t ticks_ = 0;
  std::vector<std::uint64_t> updates_;       // of each layer, before the update
  std::vector<std::vector<float>> before_;   // weights before it (si), by parameter
  std::vector<std::vector<float>> answers_;  // of the weights of then (lwf), by output
};

}  // namespace weft::learning
