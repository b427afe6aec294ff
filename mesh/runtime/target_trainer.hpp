// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/graph.hpp"
#include "mesh/runtime/observer.hpp"

#include "core/result.hpp"

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace weft::mesh {

/// Moves the weights of a layer towards targets that neighbouring actors send it, after each firing, in the order of
/// the mail: one step of gradient descent on half the squared distance between what the layer makes of its present
/// input and the target, at the rate that the message states. No optimiser, no learning rule is needed.
/// @thread the one that runs the cell of the layer
class TargetTrainer final : public Observer {
 public:
  TargetTrainer(const Graph& graph, NodeId node, std::uint32_t level) : graph_(graph), node_(node), level_(level) {}

  /// @error unsupported: a layer without weights, or with weights that others compute with too
  static Status check(const Graph& graph, NodeId node);

  void observe(const Observation& seen, CommandSink& to) override;
  bool handles(MessageType type) const noexcept override { return type == MessageType::target; }
  std::size_t size() const noexcept override { return 0; }
  void save(std::vector<std::uint64_t>& to) const override { to.clear(); }
  Status restore(std::span<const std::uint64_t> words) override {
    return words.empty() ? Status() : fail(Errc::corrupt, "a layer that targets train has no memory");
  }
  bool may_change_weights() const noexcept override { return true; }

 private:
  void handle(const Observation& seen, Mail& mail);
  Status take(const Observation& seen, const Mail& mail);
  Status threw(std::string_view what) const noexcept;

  const Graph& graph_;
  NodeId node_;
  std::uint32_t level_;
};

}  // namespace weft::mesh
