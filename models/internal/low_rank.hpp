// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <vector>

namespace weft::models::internal {

/// D [out, in], about B A with A [rank, in] and B [out, rank].
struct LowRank {
  std::vector<float> a, b;
  double left = 0;  // |D - B A| / |D| by the root of the sum of squares, as float32; 0 of zeros
};

/// The best two matrices of a rank, but for what `kMore` more columns of the search do not find: the range of D is
/// searched by random vectors, refined by two products with D D^T, and cut to the largest singular values. The same
/// numbers on every machine.
/// @source Halko, Martinsson, Tropp 2011, "Finding structure with randomness", arXiv:0909.4061, algorithms 4.4 and 5.1
LowRank low_rank(const std::vector<float>& d, std::size_t out, std::size_t in, std::size_t rank);

}  // namespace weft::models::internal
