// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/internal/sample_rings.hpp"
#include "learning/past/past_options.hpp"

#include "mesh/mesh.hpp"

#include "core/archive.hpp"
#include "core/state_hash.hpp"

#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

namespace weft::learning {

/// Samples that are kept to be learned from again: of those that came, each is there with the same probability. Their
/// choice is a function of the network's seed and of their order alone. State of the learner: saved and hashed with it.
/// @thread one at a time
/// @source Vitter 1985, "Random sampling with a reservoir", algorithm R; learning by them: Rolnick et al. 2019,
///         "Experience replay for continual learning", arXiv:1811.11682
class Reservoir {
 public:
  Reservoir() = default;
  /// `options.learners`: rows of an update, those of stored samples among them.
  Reservoir(const mesh::Mesh& mesh, const LearningOptions& options);
  static std::uint64_t bytes_for(const mesh::Graph& graph, const LearningOptions& options);

  bool is_on() const noexcept { return options_.is_on(); }
  /// Samples that came, and those of them that are kept.
  std::uint64_t seen() const noexcept { return counts_.seen; }
  std::uint64_t stored() const noexcept { return seen() < options_.capacity ? seen() : options_.capacity; }
  /// Numbers of the stored samples among those that came, by place.
  std::span<const std::uint64_t> numbers() const noexcept { return {numbers_.data(), stored()}; }

  /// Stored samples beside sample `first` of `inputs`, whose targets are staged as `sample`: their inputs are in the
  /// rows of what is returned, their labels in `rings`. Valid until the next call.
  std::span<const mesh::RunInput> mix(const mesh::Mesh& mesh, std::span<const mesh::RunInput> inputs,
                                      std::uint64_t first, SampleRings& rings, std::uint64_t sample);
  /// The samples of the last `mix` have been learned from: each is kept, or not.
  void offer(const mesh::Mesh& mesh, const SampleRings& rings, std::uint64_t sample);

  template <class Self, class Archive>
  static void visit(Self& self, Archive& archive) {
    if (!self.is_on()) return;
    // They change between steps alone, so the steps that a device's host goes back to need none of them.
    const auto of = [](std::string_view field) {
      return Field{field, Scope::messages, Field::kOnly, Field::kOnly, true};
    };
    archive(of("replay_counts"), self.counts_);
    archive(of("replay_numbers"), std::span(self.numbers_));
    archive(of("replay_inputs"), std::span(self.inputs_));
    archive(of("replay_labels"), std::span(self.labels_));
    archive(of("replay_values"), std::span(self.values_));
    if constexpr (!std::is_const_v<Self>) self.make_digests();
  }
  /// The same as a part of a state's hash.
  void visit_hash(OutArchive& archive) const;
  /// Checks what came out of a file: false where it contradicts itself.
  bool fits(const SampleRings& rings) const;

 private:
  struct Counts {
    std::uint64_t seen = 0, draws = 0;
  };
  struct Port {
    std::string_view name;
    std::size_t width = 0, first = 0;  // of a stored sample's inputs
  };
  /// Floats and labels of a stored sample.
  struct Sizes {
    std::size_t inputs = 0, labels = 0, values = 0;
  };
  void draw();
  void keep(std::size_t place, std::size_t row, const mesh::Mesh& mesh, const SampleRings& rings, std::uint64_t sample);
  void show(SampleRings& rings, std::uint64_t sample) const;
  Hash128 digest_of(std::size_t place) const;
  void make_digests();
  /// Rows of new samples.
  std::size_t given() const noexcept { return learners_ - options_.samples; }

  ReplayOptions options_{};
  std::uint64_t seed_ = 0;
  std::size_t learners_ = 0, width_ = 0;  // width_: of all outputs
  bool has_targets_ = false;              // values are learned
  std::vector<Port> ports_;
  Sizes sizes_;
  Counts counts_;
  std::vector<std::uint64_t> numbers_;    // [capacity]
  std::vector<float> inputs_, values_;    // [capacity][sizes]; values: targets, then answers
  std::vector<std::uint32_t> labels_;     // [capacity][sizes.labels]
  std::vector<Hash128> digests_;          // [capacity], of what is stored there
  std::vector<std::uint32_t> drawn_;      // places, of the update under way
  std::vector<std::vector<float>> rows_;  // by port [sessions][width]
  std::vector<mesh::RunInput> mixed_;
};

}  // namespace weft::learning
