// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

class Json;

/// Kinds of values of an option.
enum class OptionKind : int {
  flag,         ///< true or false
  whole,        ///< a whole number
  number,       ///< a finite number
  text,         ///< a string
  choice,       ///< one of `names`
  column,       ///< a column of a table: its name, or its number from 1
  whole_list,   ///< whole numbers
  number_list,  ///< finite numbers
  text_list,    ///< strings
  column_list,  ///< columns
  section,      ///< an object with `options`
  layers,       ///< layers inside a container
};
std::string_view name(OptionKind kind) noexcept;

/// One option, declared once: its reader with its errors, its writer, the schema of network files, flags of the command
/// line and the documents follow from it.
struct OptionRow {
  std::string_view key{};
  OptionKind kind = OptionKind::flag;
  /// Closed bounds of a number, or of each number of a list; infinite: those of the type that holds it.
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
  /// Elements of a list; `most` also bytes of a text.
  std::size_t fewest = 0, most = SIZE_MAX;
  bool is_one_for_all = false;            // of a list: one number alone stands for all
  std::vector<std::string_view> names{};  // of a choice
  std::string_view set{};                 // of names that options share: "dtype"; empty: names of its own
  std::string fallback{};                 // the default as JSON; empty: nothing, or what `fallback_words` says
  std::string_view fallback_words{};
  bool is_needed = false;
  bool is_always_written = false;  // else only where it is not the default
  std::string_view unit = "-";
  std::string_view meaning{};
  /// "key=a|b": refused unless the option `key` of the same object is one of these. Empty: always read.
  std::string_view only_with{};
  /// "key=a|b": counts for these; kept beside the others, so that changing `key` back brings it back. Empty: all.
  std::string_view applies{};
  std::vector<OptionRow> options{};  // of a section
};

/// A key and its values, as `only_with` and `applies` say them.
struct OptionCondition {
  std::string_view key;
  std::vector<std::string_view> values;
};
OptionCondition parse_condition(std::string_view text);

/// The row of a key, which must be there.
const OptionRow& option_row(const std::vector<OptionRow>& rows, std::string_view key);

/// Values that an option may have, in words: "0 to 1000", "`sgd`, `momentum`, `adamw`".
std::string limits_text(const OptionRow& row);

/// [{"key": ..., "kind": ..., "default": ..., "low": ..., "limits": ..., "unit": ..., "meaning": ...}, ...]; what a row
/// does not say is left away.
Json to_json(const std::vector<OptionRow>& rows);

}  // namespace weft
