// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "text/normalizer.hpp"

#include "core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace weft::text {

/// Texts and what each becomes, as SentencePiece compiles its rules ("precompiled_charsmap"): the length of a double
/// array (u32), its units (u32 each), and texts, each up to a zero byte, at the places that the array's values are.
/// @source Yata et al. 2007, "A compact static double-array keeping character codes" (the array, as Darts-clone has it)
class RewriteTable {
 public:
  /// @error corrupt: lengths that do not fit, a value outside of the texts, texts that are not UTF-8
  static Result<RewriteTable> read(std::string_view bytes);

  /// A text of the table that `text` begins with; length 0: there is none.
  struct Match {
    std::size_t length = 0;
    std::string_view becomes{};
  };
  Match longest(std::string_view text) const noexcept { return find(text, true); }
  Match shortest(std::string_view text) const noexcept { return find(text, false); }

 private:
  Match find(std::string_view text, bool is_longest) const noexcept;
  std::vector<std::uint32_t> units_;
  std::string texts_;
};

/// SentencePiece's steps before a Unigram model, as llama.cpp does them.
struct SentenceSteps {
  std::shared_ptr<const RewriteTable> table = nullptr;  // null: none
  bool adds_space = false;                              // before the first word
  bool merges_spaces = false;                           // one before each word, no others
};
/// The longest texts of the table are rewritten; spaces become U+2581.
std::shared_ptr<const Normalizer> make_sentence_normalizer(SentenceSteps steps);
/// "Precompiled" of a tokenizer.json: each grapheme cluster below 6 bytes, else each character, that begins with a text
/// of the table becomes what the shortest such text does, as in the Rust library.
std::shared_ptr<const Normalizer> make_cluster_normalizer(std::shared_ptr<const RewriteTable> table);

}  // namespace weft::text
