// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/philox.hpp"
#include "core/result.hpp"

#include <functional>
#include <span>
#include <string_view>

namespace weft::mesh {

/// Fills a weight matrix [out, in], row-major, from the layer's random stream.
using Initializer = std::function<void(RandomStream&, std::span<float>)>;

/// xavier: uniform in +-sqrt(6/(in+out)), xavier_normal: normal, variance 2/(in+out) (Glorot and Bengio 2010, eq. 16
/// and 12); he: normal, variance 2/in, he_uniform: uniform in +-sqrt(6/in) (He et al. 2015, eq. 10); normal: variance
/// 1/in; uniform: +-1/sqrt(in); zero; orthogonal: W W^T = 1 of a matrix [out, in], or W^T W = 1 when it is taller than
/// wide, evenly spread over all such matrices (Saxe et al. 2014, arXiv:1312.6120). Of several matrices [out, in] one
/// below the other, such as the gates of an LSTM, each is orthogonal. sparse: uniform in +-1/sqrt(in),
/// then nine inputs of ten, rounded down, are taken from each row (Elsayed et al. 2024, arXiv:2410.14606).
/// @exact  same bits everywhere: Philox words, correctly rounded + - * / and sqrt; orthogonal in float64, sums in eight
///         strided lanes
/// @error  unknown_name for another spelling, naming `object`
Result<Initializer> make_initializer(std::string_view kind, std::size_t in, std::size_t out, std::string_view object);

/// Every value `value`.
Initializer constant(float value);

/// True for an initializer that goes value by value, so that a large matrix may be filled some rows at a time with the
/// same values: all above but orthogonal.
bool fills_by_value(const Initializer& fill) noexcept;

}  // namespace weft::mesh
