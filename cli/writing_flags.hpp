// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "cli/verb.hpp"

#include "models/language_model.hpp"

#include "core/json.hpp"
#include "core/result.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace weft::cli {

/// Context of a conversation where neither user nor model say less.
inline constexpr std::size_t kUsualContext = 4096;

/// Options of the verbs that write texts with a language model.
struct WritingFlags {
  std::string model, tokenizer;
  models::GenerateOptions options;
  std::vector<std::string> biases;
  std::string grammar, schema;
  std::size_t threads = 0;
  bool json = false;
};

/// Declares them, MODEL included.
void add_writing_flags(CLI::App& verb, WritingFlags& flags);
/// Reads what they name: the grammar or schema, the biases. @error parse_failed, out_of_range; as Grammar::parse
Status read_writing_flags(WritingFlags& flags);
/// The model, to be computed on as many threads.
Result<models::LanguageModel> load_model(const WritingFlags& flags);

/// Text as it is into a file or a pipe; on a terminal without what it would obey, line ends and tabs aside.
void print_written(std::string_view text);

/// Tokens and times of texts, to be told at the end.
struct WritingTimes {
  std::size_t prompt = 0, reused = 0, written = 0;
  double prompt_seconds = 0, seconds = 0;

  void add(const models::Generated& made);
  /// "12 + 34 tokens, 210 and 35 a second, 61.4 MiB at most": tokens a second of prompts and texts, and the largest
  /// memory of the process.
  std::string shown() const;
  /// prompt_tokens_per_second, tokens_per_second, peak_memory_bytes.
  void add_to(Json& object) const;
};

}  // namespace weft::cli
