// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "models/text_engine.hpp"

#include "core/json_reader.hpp"
#include "core/result.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace weft::server {
class ServedModel;
}

namespace weft::server::internal {

/// The value of a key, where it is there and not null, as clients leave things out.
std::optional<JsonValue> given(JsonReader& reader, std::string_view key);
Result<std::string> string_or(JsonReader& reader, std::string_view key, std::string fallback, std::size_t most);
Result<bool> boolean_or(JsonReader& reader, std::string_view key, bool fallback);
Result<std::uint64_t> natural_or(JsonReader& reader, std::string_view key, std::uint64_t fallback, std::uint64_t least,
                                 std::uint64_t most);
Result<double> number_or(JsonReader& reader, std::string_view key, double fallback, double least, double most);

/// Names and bounds of OpenAI, or of llama.cpp's server.
enum class Dialect { openai, llama };
/// Settings of the draw, stop strings and the like. Those that are not given are as `preset` says, or the server's
/// own; without one they are the dialect's. A seed that is not given, or negative, is drawn.
/// @error as JsonReader; out_of_range: a bias of a token that is none; as models::sampler_of_preset
Status read_sampling(JsonReader& body, Dialect dialect, const ServedModel& model, models::TextRequest& to);

}  // namespace weft::server::internal
