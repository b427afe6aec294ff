// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/learner.hpp"

#include "kernels/views.hpp"

#include "core/coord.hpp"
#include "core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace weft::learning {

class SampleStream;

/// Signs of a layer that loses the power to learn, of its outputs for a batch of samples.
struct LayerPlasticity {
  Coord at;
  std::string inside;  // where it stands in the container there, such as "layers[2]"; empty: it is the layer itself
  /// Share of its units, each a value of its output, whose mean |y| over the batch is at most kDormant of the mean of
  /// that over all of them. Of a layer that is 0 everywhere all are dormant.
  /// @source Sokar, Agarwal, Castro and Evci 2023, "The Dormant Neuron Phenomenon in Deep Reinforcement Learning",
  ///         arXiv:2302.12902, definition 3.1
  double dormant = 0;
  double weight_norm = 0;  // the root of the sum of squares of its weights
  /// Number of the largest singular values of the outputs [rows, width] that make up kRankShare of the sum of all.
  /// @source Kumar, Agarwal, Ghosh and Levine 2021, "Implicit Under-Parameterization Inhibits Data-Efficient Deep
  ///         Reinforcement Learning", arXiv:2010.14498, definition 1
  std::optional<std::uint32_t> effective_rank;  // where it was asked for
  bool operator==(const LayerPlasticity&) const = default;
};
inline constexpr double kDormant = 0.1, kRankShare = 0.99;

/// Shows `rows` inputs [rows][width] to copies of session 0 until they have settled, as `Learner::predict` does, and
/// measures all layers, in the network's order; those inside `sequential` and `parallel` one by one, in place of these,
/// where nothing in these has a hidden state. Touches nothing. Ranks take time that grows with
/// the square of the rows and with the width, or the other way round where a layer is narrower than that.
/// @error as Learner::predict; too_large: inputs and outputs of all layers beyond 2^26 values
/// @exact  the same on every machine and device: binary64, rows and units ascending, nothing of libm but the square
/// root
Result<std::vector<LayerPlasticity>> measure_plasticity(const Learner& learner, std::span<const mesh::RunInput> inputs,
                                                        std::size_t rows, bool with_ranks);

/// The same with the first `rows` held-out samples of a stream, or, without such, of those to learn from; the task is
/// the one of the stream's last sample. Nothing where all samples arrive.
Result<std::vector<LayerPlasticity>> measure_plasticity(const SampleStream& stream, std::size_t rows, bool with_ranks);

/// The two statistics of a matrix [rows, width].
double dormant_share(const kernels::ConstMatrixView& outputs);
/// @source the singular values are those of Jacobi's method for the eigenvalues of the smaller of Y Y^T and Y^T Y
std::uint32_t effective_rank(const kernels::ConstMatrixView& outputs);

}  // namespace weft::learning
