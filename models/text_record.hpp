// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "models/model_digest.hpp"
#include "models/text_engine.hpp"

#include "core/result.hpp"
#include "core/state_hash.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::models {

/// A text that was written and the request that it was written for: a line of JSON (docs/formats/text-records.md).
struct TextRecord {
  std::int64_t time = 0;  ///< seconds since 1970 at its end
  std::string model, version;
  ModelDigest digest{};
  std::uint64_t context = 0;  ///< tokens that the text could have, prompt included
  TextRequest request;        ///< without scores, features, tenant, priority and deadline, which change no text
  std::vector<text::TokenId> ids;
  TextChunk::End end = TextChunk::End::none;  ///< end, stop or length
  std::optional<Hash128> state;
};

/// With a line feed.
std::string to_line(const TextRecord& record);
/// @error parse_failed, not_found, unknown_name, out_of_range: a line that is none; as Grammar::parse
Result<TextRecord> read_text_record(std::string_view line, const std::string& object);

}  // namespace weft::models
