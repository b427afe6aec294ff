// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "learning/lora.hpp"

#include "mesh/weights/weight_store.hpp"

#include "kernels/op_stream.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft::learning {

/// Two matrices A [rank, in] and B [out, rank] beside each matrix W that learns, which move in its place:
///   W = W0 + scale B A;  dA = scale B^T dW, dB = scale dW A^T
/// A is drawn uniformly within 1/sqrt(in) of 0 from the network's seed and the parameter's number, B begins at 0.
/// Layers compute with W, so nothing is to be merged; W0 is an array beside it.
/// @thread a parameter's part: the thread of the region that owns its layer
/// @exact  the same bits everywhere: products by rules R1 and R2, W by fma over the rank, ascending
/// @source Hu et al. 2021, "LoRA: Low-Rank Adaptation of Large Language Models", arXiv:2106.09685
class Adapters {
 public:
  Adapters() = default;
  /// Of the matrices of layers that learn, by parameter; an optimiser has `arrays` beside what moves.
  /// @error invalid_argument: no matrix has such a name, naming those that there are
  static Result<Adapters> build(const mesh::WeightStore& weights, const LoraOptions& options,
                                const std::vector<bool>& learns, std::size_t arrays);
  /// Floats of the adapters of a network whose layers all learn, gradients and a second form counted, with so many
  /// arrays of an optimizer beside them.
  static std::uint64_t floats_of(const mesh::Graph& graph, const LoraOptions& options, std::size_t arrays);

  bool is_on() const noexcept { return options_.is_on(); }
  bool has(std::size_t parameter) const noexcept { return is_on() && shapes_[parameter].floats != 0; }
  /// Floats of A and B of a parameter, rows padded to whole cache lines; 0: it has none.
  std::size_t floats(std::size_t parameter) const noexcept { return shapes_[parameter].floats; }
  /// State beside the parameters: the optimiser's arrays; A, drawn from the network's seed, and B, which is 0; W0,
  /// which is W as it is now.
  Result<std::vector<mesh::ParameterBuffer>> make_slots(const mesh::WeightStore& weights, std::uint64_t seed) const;
  std::size_t values_slot() const noexcept { return arrays_; }
  std::size_t base_slot() const noexcept { return arrays_ + 1; }
  /// Floats of W0; 0: it has none.
  std::size_t base_floats(std::size_t parameter) const noexcept { return shapes_[parameter].stored; }
  float* gradient(std::size_t parameter) const noexcept { return gradients_.data(parameter); }
  /// A and B times the scale, of the update under way.
  float* scaled(std::size_t parameter) const noexcept { return scaled_.data(parameter); }

  /// Gradients of A and B from those of W.
  void take_gradient(kernels::OpStream& stream, std::size_t parameter, const float* values,
                     const float* gradient) const;
  /// W of W0, A and B.
  void compose(kernels::OpStream& stream, std::size_t parameter, const float* values, const float* base,
               float* weights) const;
  /// Takes a W that somebody else has written for the new W0; B begins at 0 again.
  void follow(std::size_t parameter, float* values, float* base, const float* weights) const;

 private:
  struct Shape {
    std::size_t out = 0, in = 0, floats = 0, stored = 0;
  };
  Result<mesh::ParameterBuffer> make_buffer(const mesh::WeightStore& weights) const;
  void draw(std::uint64_t seed, std::size_t parameter, float* values) const;
  kernels::MatrixView a(std::size_t parameter, float* values) const noexcept;
  /// B, transposed: [rank, out].
  kernels::MatrixView b(std::size_t parameter, float* values) const noexcept;

  LoraOptions options_;
  std::size_t arrays_ = 0;
  std::vector<Shape> shapes_;  // by parameter
  mesh::ParameterBuffer gradients_, scaled_;
};

}  // namespace weft::learning
