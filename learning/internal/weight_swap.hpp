// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/internal/sample_rings.hpp"
#include "learning/optimizer.hpp"
#include "learning/options.hpp"

#include "mesh/mesh.hpp"

#include "core/archive.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace weft::learning {

/// Weights that take the place of the present ones at a change of the task (DriftOptions::swap).
///   initial:  those that the network began with, drawn anew from its seed
///   best:     of the present ones, the earlier ones that are kept, and the initial ones, those that are right most
///             often about the last `swap_samples` samples with a label; of several the first in this order, of
///             earlier ones the latest
/// Of `best` the weights are copied after every `swap_every` samples. At a change the copy before the last one is kept,
/// which was made before the change unless that was seen late; in the place of the earlier ones that won, else beside
/// up to `swap_weights` - 1 others, of which the oldest go. The arrays of the optimizer beside weights that came are 0.
/// State of the learner: saved and hashed with it.
/// @thread one at a time
/// @exact  the same bits on every thread count, ISA and device: copies, answers and their comparison
/// @source initial: Gama, Medas, Castillo and Rodrigues 2004, "Learning with drift detection"; best, after: Goncalves
///         and Barros 2013, "RCD: A recurring concept drift framework", Pattern Recognition Letters 34 (there samples
///         are compared, here answers)
class WeightSwap {
 public:
  WeightSwap() = default;
  WeightSwap(const mesh::Mesh& mesh, const LearningOptions& options);
  static std::uint64_t bytes_for(const mesh::Graph& graph, const LearningOptions& options);

  bool is_on() const noexcept { return options_.swaps(); }
  /// Samples are kept, and weights are copied at times.
  bool compares() const noexcept { return is_on() && options_.swap == Swap::best; }
  /// Times that other weights came.
  std::uint64_t swaps() const noexcept { return counts_.swaps; }
  /// Samples of `count` after the `samples`-th up to the next copy, that one's counted.
  std::uint64_t room(std::uint64_t samples, std::uint64_t count) const noexcept {
    const std::uint64_t left = options_.swap_every - samples % options_.swap_every;
    return compares() && left < count ? left : count;
  }
  /// Samples [first, first + count) of `inputs` [samples][rows][width] have been learned from, whose targets are staged
  /// from `sample` on; `samples` were, those counted.
  void after(const mesh::Mesh& mesh, std::span<const mesh::RunInput> inputs, std::uint64_t first, std::uint64_t count,
             std::size_t rows, const SampleRings& rings, std::uint64_t sample, std::uint64_t samples);
  /// At a change; an answer takes `ticks`. @error as MeshAccess::evaluate_copies; then the weights are as before
  Status swap(mesh::Mesh& mesh, Optimizer& optimizer, const SampleRings& rings, std::uint64_t ticks);

  template <class Self, class Archive>
  static void visit(Self& self, Archive& archive) {
    if (!self.is_on()) return;
    archive.same(Field{"swap_kind", Scope::messages}, static_cast<std::uint64_t>(self.options_.swap));
    archive(Field{"swap_counts", Scope::messages}, self.counts_);
    archive(Field{"swap_weights", Scope::messages}, std::span(self.weights_));
    archive(Field{"swap_inputs", Scope::messages}, std::span(self.inputs_));
    archive(Field{"swap_labels", Scope::messages}, std::span(self.labels_));
  }
  /// The same as a part of a state's hash.
  void visit_hash(OutArchive& archive) const;
  /// Checks what came out of a file: false where it contradicts itself.
  bool fits(const SampleRings& rings) const;

 private:
  struct Counts {
    std::uint64_t swaps = 0;
    std::uint64_t copies = 0;  // since the last change, 2 at most
    std::uint64_t kept = 0;    // earlier weights
    std::uint64_t seen = 0;    // samples with a label
  };
  struct Port {
    std::size_t width = 0, first = 0;  // first: of the port's values of one sample
  };
  /// Place of the last copy, of the one before, and of earlier weights, oldest first.
  enum Place : std::size_t { kLast = 0, kBefore = 1, kFirstKept = 2 };
  float* place(std::size_t number) noexcept { return weights_.data() + number * size_; }
  void keep(std::uint64_t won);
  void copy_present(const mesh::Mesh& mesh, float* to) const;
  void install(mesh::Mesh& mesh, const float* from) const;
  void draw_initial(const mesh::Mesh& mesh, float* to) const;
  Result<std::uint64_t> hits(const mesh::Mesh& mesh, const SampleRings& rings, std::uint64_t ticks) const;

  DriftOptions options_{};
  std::size_t learners_ = 1, size_ = 0;  // size_: floats of all weights, by rows
  std::vector<Port> ports_;
  std::size_t sample_labels_ = 0;  // of one sample, of all outputs
  Counts counts_;
  std::vector<float> weights_;         // [2 + swap_weights][size_]
  std::vector<float> inputs_;          // by port [swap_samples][width]
  std::vector<std::uint32_t> labels_;  // [swap_samples][sample_labels_]
};

}  // namespace weft::learning
