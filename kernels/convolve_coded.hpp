// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/convolve.hpp"

namespace weft::kernels {

/// `convolve` on a weight stored in any type, with its bits on the dequantized values; types that `linear` sums in
/// another way (integers with int8 activations, float64) have the bits of `linear` on the windows as rows. A tile of
/// windows is quantised like rows of a dense layer: each window alone, in blocks of 32 columns. Groups of such types
/// that are not multiples of 16 outputs compute the outputs around them too, and drop them.
/// @shape  as convolve; workspace of convolve_workspace() floats
/// @dtype  all 21
/// @thread any, inside FlushSubnormals; allocates only to grow a scratch of the thread
/// @exact  same bits on every ISA and for every B
void convolve_coded(const Window& window, const ConstWeight& w, const float* bias, const ConstMatrixView& x,
                    Activation activation, const MatrixView& z, const MatrixView& y, float* workspace) noexcept;

/// `convolve_transposed` on the dequantized weight; float64 is rounded to float32.
void convolve_transposed_coded(const Window& window, const ConstWeight& w, const float* bias, const ConstMatrixView& x,
                               Activation activation, const MatrixView& z, const MatrixView& y,
                               float* workspace) noexcept;

/// Convolution by windows as rows, `tile` (at most 64) at a time: the path of convolve_coded for types with sums of
/// their own, defined for every type.
void convolve_rows(const Window& window, const ConstWeight& w, const float* bias, const ConstMatrixView& x,
                   Activation activation, const MatrixView& z, const MatrixView& y, float* workspace,
                   std::size_t tile) noexcept;

}  // namespace weft::kernels
