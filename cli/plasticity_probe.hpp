// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/learner.hpp"
#include "learning/plasticity.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::cli {

/// Figures of all layers as those of the network: columns of a log.
struct NetworkPlasticity {
  double dormant = 0;         // mean over the layers of the share of dormant units
  double effective_rank = 0;  // mean over the layers
  double weight_norm = 0;     // of all weights
};
NetworkPlasticity network_plasticity(const std::vector<learning::LayerPlasticity>& layers);
/// Their names, in that order.
inline constexpr std::string_view kPlasticityScalars[] = {"dormant", "effective_rank", "weight_norm"};

/// Layers of a run as `--probe N` measures them while it goes on: anew for who shows them, unless that would take more
/// than a twentieth of the time.
/// @thread one at a time
class PlasticityProbe {
 public:
  using Measure = std::function<Result<std::vector<learning::LayerPlasticity>>()>;
  /// The last measurements, of now where it is time. Empty: there were none yet.
  const std::vector<learning::LayerPlasticity>& look(const Measure& measure);

 private:
  std::vector<learning::LayerPlasticity> last_;
  std::chrono::steady_clock::time_point next_{};
};

/// The last inputs that a network has seen, at most `most`, of one port, as it acts.
/// @thread one at a time
class SeenInputs {
 public:
  SeenInputs(std::string port, std::size_t most) : port_(std::move(port)), most_(most) {}
  /// Takes the port's values of each session as they are now.
  void take(mesh::Mesh& mesh);
  /// Layers of the network for them, with ranks; none where no input was taken.
  Result<std::vector<learning::LayerPlasticity>> measure(const learning::Learner& learner) const;

 private:
  std::string port_;
  std::size_t most_, next_ = 0, width_ = 0;
  std::vector<float> rows_;  // [most][width]
  std::size_t count_ = 0;
};

}  // namespace weft::cli
