// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/optimizer.hpp"
#include "learning/unit_renewal.hpp"

#include "mesh/mesh.hpp"

#include "core/archive.hpp"
#include "core/option_table.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace weft::learning {

/// Options of the section "renew" of "learning".
const OptionTable<RenewalOptions>& renewal_table();

/// Units of hidden layers that begin anew: incoming weights and bias are drawn as at the network's beginning, by seed
/// and number; outgoing weights are 0, and so are the arrays of the optimizer beside both. Of a dense layer with an
/// activation that dense layers alone read; each has its own weights, and all of them learn.
///   redo:       after each `every` samples, units with sum |h| <= threshold * the mean of that over the layer
///   continual:  u = decay u + (1 - decay) |h| sum of |outgoing weights|;  |h|: the learners' mean;
///               c = c + rate * units older than `maturity`;  while c > 1 the one of these of least u begins anew
///   at a change (DriftOptions::renew): a share of each layer's units, of least use: u of `continual`; of `redo` the
///   sum
///               so far, else h = 0.99 h + 0.01 |h|, times the sum of |outgoing weights|
/// State of the learner: saved and hashed with it.
/// @thread one at a time
/// @exact  the same bits on every thread count and ISA: binary64 sums in the order of rows and units, nothing fused
/// @source redo: Sokar, Agarwal, Castro and Evci 2023, "The Dormant Neuron Phenomenon in Deep Reinforcement Learning",
///         arXiv:2302.12902, algorithm 1; continual: Dohare et al. 2024, "Loss of plasticity in deep continual
///         learning", Nature 632, algorithm 1
class UnitRenewal {
 public:
  UnitRenewal() = default;
  UnitRenewal(const mesh::Mesh& mesh, const LearningOptions& options);
  /// @error unsupported: no layer can take part, naming the first one and why
  static Status check(const mesh::Mesh& mesh, const LearningOptions& options);

  /// Bytes of its state and of the lists that it works with.
  static std::uint64_t bytes_for(const mesh::Graph& graph, const LearningOptions& options);
  static bool is_on(const LearningOptions& options) noexcept { return options.renew.is_on() || options.drift.renews(); }

  bool is_on() const noexcept { return options_.is_on() || share_ > 0.0f; }
  /// Units that have begun anew.
  std::uint64_t renewed() const noexcept { return counts_.renewed; }
  /// After each sample, what layers published of which is that of `tick`: `samples` were learned from, that one
  /// counted.
  void after(mesh::Mesh& mesh, Optimizer& optimizer, std::uint64_t samples, std::uint64_t tick);
  /// At a change of the task.
  void renew_share(mesh::Mesh& mesh, Optimizer& optimizer);

  template <class Self, class Archive>
  static void visit(Self& self, Archive& archive) {
    if (!self.is_on()) return;
    archive.same(Field{"renew_method", Scope::messages}, static_cast<std::uint64_t>(self.options_.method));
    archive(Field{"renew_counts", Scope::messages}, self.counts_);
    archive(Field{"renew_values", Scope::messages}, std::span(self.values_));
    archive(Field{"renew_ages", Scope::messages}, std::span(self.ages_));
    archive(Field{"renew_due", Scope::messages}, std::span(self.due_));
  }
  /// The same as a part of a state's hash.
  void visit_hash(OutArchive& archive) const;
  /// Checks what came out of a file: false where it contradicts itself.
  bool fits() const noexcept;

 private:
  struct Counts {
    std::uint64_t renewed = 0, draws = 0;
  };
  struct Reader {
    mesh::NodeId node;
    std::size_t first;  // of its inputs, the layer's first unit
  };
  struct Layer {
    mesh::NodeId node;
    std::size_t first, width;  // units among those of all layers
    std::vector<Reader> readers;
  };
  bool may_move(const mesh::WeightStore& weights, const Layer& layer) const noexcept;
  void add_sizes(const mesh::Mesh& mesh, const Layer& layer, std::uint64_t tick);
  void add_uses(const Layer& layer, const mesh::WeightStore& weights);
  void choose_dormant(const Layer& layer);
  void choose_useless(const Layer& layer, std::size_t number, const mesh::WeightStore& weights);
  void choose_share(const Layer& layer, const mesh::WeightStore& weights);
  void renew_chosen(mesh::Mesh& mesh, Optimizer& optimizer, const Layer& layer);

  RenewalOptions options_{};
  float share_ = 0.0f;  // of units that begin anew at a change
  std::size_t learners_ = 0;
  std::vector<Layer> layers_;
  Counts counts_;
  std::vector<double> values_;        // by unit: sums of |h| since the last look, utilities, or means of |h|
  std::vector<std::uint32_t> ages_;   // by unit, in samples
  std::vector<double> due_;           // by layer, units that are to begin anew
  std::vector<double> sizes_, uses_;  // of the layer at hand: mean |h|, sums of |outgoing weights|
  std::vector<std::size_t> chosen_;   // of that layer
};

}  // namespace weft::learning
