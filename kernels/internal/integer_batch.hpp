// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/internal/integer_linear.hpp"
#include "kernels/internal/scratch_lease.hpp"

namespace weft::kernels::detail {

/// A batch on its way through the active instruction set's kernels of linear_integer. Threads may share it: first all
/// parts of the rows are packed, then panels of outputs computed.
/// @lifetime the thread that made it holds the packed rows in its scratch: they go last in, first out
class IntegerBatch {
 public:
  IntegerBatch(const ConstWeight& w, const ConstMatrixView& x) noexcept;
  std::size_t parts() const noexcept { return packed_.parts.parts; }
  /// Quantizes and packs the rows of parts [first, last).
  /// @thread any number of them, each with other parts
  void pack(std::size_t first, std::size_t last) const noexcept { kernels_.pack(x_, form_, packed_, first, last); }
  /// All packed rows against `w`: whole panels of the batch's weights, with their bias and their columns of z and y.
  /// @thread any number of them once all parts are packed
  void compute(const ConstWeight& w, const float* bias, Activation activation, const MatrixView& z,
               const MatrixView& y) const noexcept {
    kernels_.run(w, bias, packed_, 0, parts(), activation, z, y);
  }

 private:
  ConstMatrixView x_;
  CodeForm form_;
  const IntegerKernels& kernels_;
  std::size_t blocks_, block_bytes_, code_bytes_, scale_bytes_;
  ScratchLease lease_;
  PackedRows packed_;
};

}  // namespace weft::kernels::detail
