// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "cli/verb.hpp"

#include "models/language_model.hpp"

#include "core/json.hpp"
#include "core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::cli {

/// Options of the verbs that write texts with a language model.
struct WritingFlags {
  /// Parts of the draw that were given; all others are the preset's.
  struct Draw {
    std::optional<double> temperature, top_p, min_p, typical_p, repetition, presence, frequency;
    std::optional<std::uint64_t> top_k, window, no_repeat;
    std::optional<double> reals[std::size(models::kSamplerReals)], wholes[std::size(models::kSamplerWholes)];
    std::optional<std::string> order;
    std::vector<std::string> breakers;
  };
  std::string model, tokenizer;
  std::string preset = "llama.cpp";
  Draw draw;
  models::GenerateOptions options;
  std::vector<std::string> biases;
  std::string grammar, schema;
  std::string draft;
  std::size_t threads = 0;
  std::string device;  // empty: the network's
  bool json = false;
};

/// --preset: who says what is not given of a draw.
void add_preset(CLI::App& verb, std::string& preset, const std::string& help);
/// Options of guesses of the next tokens: --draft, --draft-lookup, --draft-tokens.
void add_draft_flags(CLI::App& verb, std::string& model, models::DraftOptions& to);

/// Declares them, MODEL included.
void add_writing_flags(CLI::App& verb, WritingFlags& flags);
/// Reads what they name: the grammar or schema, the biases. @error parse_failed, out_of_range; as Grammar::parse
Status read_writing_flags(WritingFlags& flags);
/// The model, to be computed on as many threads.
Result<models::LanguageModel> load_model(const WritingFlags& flags);
/// Makes the draw that flags and preset say, and tells of one that the model's file names and nobody asked for.
/// @error as models::read_generation_config
Status take_draw(WritingFlags& flags, const models::LanguageModel& model);
/// The draft model, which `options` then names; null: there is none. @error as load_model
Result<std::unique_ptr<models::LanguageModel>> load_draft(WritingFlags& flags);

/// A context that is too small is input that does not fit, and told with advice; other failures stay as they are.
Error context_error(Error error, std::string_view advice);

/// Standard input to its end. @error too_large: more than 64 MiB; storage
Result<std::string> read_standard_input();
/// Warns where a text is not UTF-8.
void warn_of_bytes(std::string_view text, const std::string& object);

/// Text as it is into a file or a pipe; on a terminal without what it would obey, line ends and tabs aside.
void print_written(std::string_view text);

/// Tokens and times of texts, to be told at the end.
struct WritingTimes {
  models::TextTimes all;

  void add(const models::Generated& made);
  /// "12 + 34 tokens, 210 and 35 a second, 61.4 MiB at most": tokens a second of prompts and texts, and the largest
  /// memory of the process; with guesses also "18 of 40 guesses right".
  std::string shown() const;
  /// prompt_tokens_per_second, tokens_per_second, peak_memory_bytes; with guesses guessed_tokens and guessed_right.
  void add_to(Json& object) const;
};

}  // namespace weft::cli
