// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "models/sampler_options.hpp"

#include "core/json_reader.hpp"
#include "core/result.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

/// Settings of a sampler as requests and their logs spell them.
namespace weft::models {

/// A whole number, or what is there where none is given. @error parse_failed, out_of_range
Result<std::int64_t> read_whole(const std::optional<JsonValue>& given, const SamplerNumber<std::int64_t>& of,
                                std::int64_t otherwise);
/// "dry_sequence_breakers": a list of texts. @error as check_breakers
Result<std::vector<std::string>> read_breakers(const JsonValue& given);
/// "samplers": a list of names, or a text of llama.cpp's letters. @error as add_step
Result<SamplerOptions::Order> read_order(const JsonValue& given);

}  // namespace weft::models
