// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/activation.hpp"
#include "kernels/views.hpp"
#include "kernels/weight.hpp"
#include "kernels/window.hpp"

#include <cstddef>

namespace weft::kernels {

/// Convolutions by implicit GEMM. `w` has one row an output and window.columns() inputs; output o belongs to group
/// o / (out / groups) and sees that group's channels. In what follows x(p, k) is the image under window p at column k.
/// No more than one tile of windows is ever copied; windows of stride 1 are read from a padded copy of one image.

/// Floats of `workspace` that every function here is content with for weights [out, window.columns()] of any type.
std::size_t convolve_workspace(const Window& window, std::size_t out) noexcept;

/// True when elements, windows and weights, margins included, can be counted in 31 bits.
bool convolve_fits(const Window& window, std::size_t out) noexcept;

/// A convolution's forward pass.
///   z[o][p] = sum over k of w[o][k] x(p, k) + bias[o],  y = activation(z)
/// Rule R1 over k: the bits of linear() on the windows as rows. Elements outside of the image are steps with +0.
/// @shape  w [out, columns], bias [out] or null, x [B, image] -> z [B, out * positions] (data null: not wanted), y as
/// z;
///         z may be y only when activation is linear; workspace: 64-byte aligned, anything in it
/// @thread any, inside FlushSubnormals
/// @exact  same bits on every ISA and for every B
void convolve(const Window& window, const ConstPanels& w, const float* bias, const ConstMatrixView& x,
              Activation activation, const MatrixView& z, const MatrixView& y, float* workspace) noexcept;

/// Transpose of `convolve`: its gradient to the image, and the forward pass of a transposed convolution.
///   z[i] = sum over (p, k) that stand at element i, p ascending, of (sum over o of w[o][k] x[o][p]), + 0, +
///   bias[channel] y = activation(z)
/// The inner sum is over the outputs of k's group by rule R1; the outer one starts at +0, and + 0 makes -0 a +0. Within
/// finite weights, parts that do not exist may be taken for +0 (the + 0 forgets their sign).
/// @shape  w [out, columns], x [B, out * positions], bias [channels] or null -> z [B, image] (data null: not wanted),
///         y as z; z may be y only when activation is linear
/// @exact  same bits on every ISA and for every B; weights must be finite
void convolve_transposed(const Window& window, const ConstPanels& w, const float* bias, const ConstMatrixView& x,
                         Activation activation, const MatrixView& z, const MatrixView& y, float* workspace) noexcept;

/// The weight gradient of both.
///   dw[o][k] = fma(dy[b][o][p], x(b, p, k), dw[o][k]) for b ascending, within it p ascending
/// Lanes of dw past `out` stay as they are.
/// @shape  dy [B, out * positions], x [B, image], dw [out, columns]
/// @exact  same bits on every ISA, however the batch is cut
void convolve_outer(const Window& window, const ConstMatrixView& dy, const ConstMatrixView& x, const Panels& dw,
                    float* workspace) noexcept;
/// Columns [first, first + count) of it alone, count > 0: for threads, with a workspace each.
void convolve_outer(const Window& window, const ConstMatrixView& dy, const ConstMatrixView& x, const Panels& dw,
                    std::size_t first, std::size_t count, float* workspace) noexcept;

/// Columns of windows [first, first + count), one row a column: to[k][j] = x(first + j, group's column k).
/// @shape  image [channels, in...] -> to [columns, count]
/// @exact  moves only
void gather_windows(const Window& window, std::size_t group, const float* image, std::size_t first, std::size_t count,
                    const MatrixView& to) noexcept;

/// y[j][i] = x[i][j].
/// @shape  x [m, n] -> y [n, m]; y aliases nothing
/// @exact  moves only
void transpose(const ConstMatrixView& x, const MatrixView& y) noexcept;

}  // namespace weft::kernels
