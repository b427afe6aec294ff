// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "models/chat_format.hpp"
#include "models/decoding.hpp"
#include "models/draft.hpp"
#include "models/sampler.hpp"

#include "mesh/mesh.hpp"

#include "storage/fwd.hpp"
#include "text/grammar.hpp"
#include "text/tokenizer.hpp"

#include "core/json.hpp"
#include "core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::models {

/// A language model ready to write: weights, tokenizer, chat template, and the tokens that end a text.
struct LanguageModel {
  std::unique_ptr<mesh::Mesh> mesh;
  std::optional<text::Tokenizer> tokenizer;
  ChatFormat chat;
  std::vector<text::TokenId> ends;  // of a text, each once
  Json generation;                  // generation_config.json; null: none
  std::size_t context = 0;          // positions that it was made for; 0: not known
};

/// A file that weft import made, or a folder or GGUF file that it would take. `tokenizer`: a file or folder with the
/// tokenizer, one of those or of another program's, else the model's own.
/// @error as Mesh::load, import_model and text::load_tokenizer; not_found: no tokenizer
Result<LanguageModel> load_language_model(storage::FileSystem& files, const std::string& path,
                                          const std::string& tokenizer = "", mesh::MeshOptions options = {});

/// Options of `generate`. The defaults here are those of `weft generate`, the C ABI and Python.
struct GenerateOptions {
  static constexpr std::uint64_t kMostTokens = std::uint64_t{1} << 24;  // that users may ask for; of context too
  SamplerOptions sampler;
  std::size_t most_tokens = 128;
  std::size_t context = 0;  // 0: the model's, or as many tokens as are wanted where that is less
  std::vector<std::string> stops;
  std::optional<text::Grammar>
      grammar;  // that the text follows; a text that is cut off by most_tokens may be unfinished
  bool ignores_ends = false;
  std::uint64_t max_memory = 0;
  DraftOptions drafts{};
  std::function<bool()> is_stopped{};  // asked before each token: true ends the text
};
/// Tokens of a text and the time that they took.
struct TextTimes {
  std::size_t prompt = 0, cached = 0, written = 0;  ///< tokens; cached: of the prompt, that were taken before
  std::size_t guessed = 0, guessed_right = 0;       ///< tokens that were guessed, and of them those that were written
  double prompt_seconds = 0, seconds = 0;
};

/// Text that was written.
struct Generated {
  std::vector<text::TokenId> prompt, ids;
  std::string text;
  std::string_view end;  // "end", a token that ends a text; "stop", a stop string; "length"; "interrupted", is_stopped
  TextTimes times;
};

/// Writes on from a prompt; `give` gets the text as it becomes certain, whole characters only.
/// @exact  the text is a function of model, prompt and options
/// @error as Tokenizer::encode and Decoding; full: a prompt beyond the context; what `give` fails with
Result<Generated> generate(const LanguageModel& model, std::string_view prompt, const GenerateOptions& options,
                           const std::function<Status(std::string_view)>& give);

}  // namespace weft::models
