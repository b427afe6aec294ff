// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "models/decoder.hpp"

#include <string>

namespace weft::models::internal {

/// The first number in which two decoders differ, roundings to float32 aside, with both values: "the activation:
/// 'gelu', not 'gelu_tanh'". Empty: they compute the same. A scaling of rotary positions is compared by what it makes.
std::string difference_of(const Decoder& is, const Decoder& said);

}  // namespace weft::models::internal
