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

/// xavier: uniform in +-sqrt(6/(in+out)) (Glorot and Bengio 2010, eq. 16); he: normal, variance 2/in (He et al. 2015,
/// eq. 10); normal: variance 1/in; uniform: +-1/sqrt(in); zero.
/// @exact  same bits everywhere: Philox words, one correctly rounded sqrt and multiplications
/// @error  unknown_name for another spelling, naming `object`
Result<Initializer> make_initializer(std::string_view kind, std::size_t in, std::size_t out, std::string_view object);

/// Every value `value`.
Initializer constant(float value);

}  // namespace weft::mesh
