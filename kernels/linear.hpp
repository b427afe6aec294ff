// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/activation.hpp"
#include "kernels/views.hpp"

#include <cstddef>
#include <span>

namespace weft::kernels {

/// A dense layer's forward pass.
///   z = x w^T + bias,  y = activation(z)
/// Rule R1 per element: chunks of 64 consecutive k, acc = fma(w, x, acc) from +0 with k ascending; chunk sums added to
/// a total that starts at +0, ascending; then bias. k = 0 gives +0 (+ bias).
/// @shape  w [out, in], bias [out] or null, x [B, in] -> z [B, out] (data null: not wanted), y [B, out]; z may be y
///         only when activation is linear; z and y alias nothing else
/// @thread any, inside FlushSubnormals; allocates only to grow a scratch of the thread, for B > 1
/// @exact  same bits on every ISA and for every B
void linear(const ConstPanels& w, const float* bias, const ConstMatrixView& x, Activation activation,
            const MatrixView& z, const MatrixView& y) noexcept;
/// The same; of a single row, the first lines of `ahead` are prefetched between the sums and the activation, when
/// it has nothing to do. Data null: nothing follows.
void linear(const ConstPanels& w, const float* bias, const ConstMatrixView& x, Activation activation,
            const MatrixView& z, const MatrixView& y, const ConstPanels& ahead) noexcept;

/// One row and the weights of its own that it goes through.
struct LinearRow {
  const float* w = nullptr;     // panels [out, in]
  const float* bias = nullptr;  // [out] or null
  const float* x = nullptr;     // [in]
  float* y = nullptr;           // [out]
};
/// The same for many single rows of one shape, each through weights of its own. While one row's sums are made the row
/// before is activated, so that neither waits for the other.
/// Returns whether every element of every y is finite.
/// @shape  no y is or overlaps any row's x, or another y
/// @exact  same bits as `linear` row by row
bool linear_each(std::span<const LinearRow> rows, std::size_t out, std::size_t in, Activation activation) noexcept;

/// A dense layer's input gradient (or target).
///   dx = dy w
/// Rule R2 over o: lane j sums o = j, j + 64, ... by fma(w, dy, lane) from +0; lanes are folded 32, 16, 8, 4, 2, 1.
/// Only o < out enter; a lane without elements is +0.
/// @shape  w [out, in], dy [B, out] -> dx [B, in]; dx aliases nothing
/// @thread any, inside FlushSubnormals
/// @exact  same bits on every ISA and for every B
void linear_transposed(const ConstPanels& w, const ConstMatrixView& dy, const MatrixView& dx) noexcept;
/// Columns [first, first + count) of it alone, first a multiple of 16; dx as for all of them.
void linear_transposed_range(const ConstPanels& w, const ConstMatrixView& dy, const MatrixView& dx, std::size_t first,
                             std::size_t count) noexcept;

/// A dense layer's weight gradient.
///   dw[o][k] = fma(dy[b][o], x[b][k], dw[o][k]) for b ascending
/// Lanes of dw past `out` stay as they are.
/// @shape  dy [B, out], x [B, in], dw [out, in]
/// @thread any, inside FlushSubnormals
/// @exact  same bits on every ISA, however the batch is cut
void outer_accumulate(const ConstMatrixView& dy, const ConstMatrixView& x, const Panels& dw) noexcept;

/// s[k] = sum over o of |w[o][k]|, rule R2 over o.
/// @shape  w [out, in] -> s [in]
/// @exact  same bits on every ISA
void column_l1_norms(const ConstPanels& w, float* s) noexcept;

/// Row-major [out, in] weights into panels, padding lanes +0.
/// @shape  rows [out, in] -> panels [out, in]
void pack_panels(const ConstMatrixView& rows, const Panels& panels) noexcept;
/// The way back.
void unpack_panels(const ConstPanels& panels, const MatrixView& rows) noexcept;

}  // namespace weft::kernels
