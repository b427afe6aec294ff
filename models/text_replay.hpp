// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "models/text_record.hpp"

#include "core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace weft::models {

/// Result of texts that were written again.
struct TextReplay {
  /// The first thing in which a text differs from its record.
  struct Difference {
    std::size_t record = 0;
    std::string what;  ///< "token 3 is 17, was 9", "it ends by stop, ended by length", "its state hash is ..., was ..."
  };
  std::size_t texts = 0;
  std::uint64_t tokens = 0;
  std::vector<Difference> differences;  ///< in the order of records, one for each text that differs
};

struct TextReplayOptions {
  std::size_t slots = 4;
  std::uint64_t max_memory = 0;
  std::function<void(std::size_t texts)> watch{};  ///< after each text
};

/// Writes the texts of records again, several at once, and compares tokens, ends and state hashes. Texts of the same
/// model digests are equal, however they were served; of another model they differ where its choices do.
/// @error as TextEngine::make and TextEngine::check, naming the record; of a text that failed
Result<TextReplay> replay_texts(const LanguageModel& model, std::span<const TextRecord> records,
                                const TextReplayOptions& options);

}  // namespace weft::models
