// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "models/decoder.hpp"

#include <cstddef>
#include <optional>

namespace weft::models {

/// The factor of cosines and sines that longrope has where its description does not say.
double longrope_gain(double factor, double original);

/// Numbers of a scaling as Llama 3.1 has it.
struct Llama3Scaling {
  double factor = 1, low = 1, high = 4, original = 0;
  double error = 0;  // of its divisors, at most, in parts of each
};
/// Those that a rope's divisors were made with, to a few roundings of float32, in which other programs make them.
std::optional<Llama3Scaling> find_llama3(const DecoderRope& rope, std::size_t context);

}  // namespace weft::models
