// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "models/family.hpp"

#include "formats/gguf/gguf_metadata.hpp"

#include <string>

namespace weft::models::internal {

/// Keys of a GGUF file for a decoder, tokenizer and rotary positions aside.
formats::GgufMetadata gguf_metadata_of(const Family& family, const Decoder& decoder, const std::string& name);

}  // namespace weft::models::internal
