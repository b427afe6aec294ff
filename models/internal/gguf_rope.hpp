// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "models/family.hpp"

#include "formats/gguf/gguf_metadata.hpp"

#include <string>
#include <utility>
#include <vector>

namespace weft::models::internal {

/// Tensors of float32 that a GGUF file has for rotary positions, and what llama.cpp does not read of them.
struct GgufRope {
  std::vector<std::pair<std::string, std::vector<float>>> tensors;
  std::vector<std::string> notes;
};

/// Sets the keys of rotary positions, and gives the tensors beside them. Named scalings (linear, yarn, longrope) are
/// written as such where that holds all of them, others as divisors of the frequencies and a gain.
GgufRope gguf_rope_of(const Family& family, const DecoderRope& rope, formats::GgufMetadata& to);

}  // namespace weft::models::internal
