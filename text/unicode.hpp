// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace weft::text {

/// The code point at `at`, which is moved behind it. @pre `text` is UTF-8, `at` a boundary before its end
char32_t next_code_point(std::string_view text, std::size_t& at) noexcept;
/// The code point before `at`, which is moved to its beginning. @pre as above, `at` not 0
char32_t previous_code_point(std::string_view text, std::size_t& at) noexcept;
void append_utf8(std::string& text, char32_t code_point);
/// Number of bytes at the beginning that are whole, valid sequences.
std::size_t valid_prefix(std::string_view text) noexcept;
/// Bytes that are no UTF-8 as U+FFFD, one for each maximal subpart (Unicode 15, 3.9, "U+FFFD Substitution").
std::string replace_invalid(std::string_view text);

/// @source Unicode Character Database: White_Space; General_Category L*, N*, M*, P*
bool is_white_space(char32_t code_point) noexcept;
bool is_letter(char32_t code_point) noexcept;
bool is_number(char32_t code_point) noexcept;
bool is_mark(char32_t code_point) noexcept;
bool is_nonspacing_mark(char32_t code_point) noexcept;
bool is_punctuation(char32_t code_point) noexcept;
/// Alphabetic, mark, decimal number, connector punctuation or join control.
/// @source UTS #18, annex C, `\w`
bool is_word(char32_t code_point) noexcept;
/// Category C* (control, format, unassigned, ...).
bool is_other(char32_t code_point) noexcept;

/// Normal forms of UAX #15.
enum class NormalForm : int { nfc, nfd, nfkc, nfkd };
std::string normalized(std::string_view text, NormalForm form);
/// Full lower case of each code point by itself, so without the final sigma.
std::string lower_case(std::string_view text);
/// Full upper case, and title case of the text as one word ("ǆ": "ǅ").
std::string upper_case(std::string_view text);
std::string title_case(std::string_view text);
/// A letter that has an upper or a lower case. @source UCD: Cased
bool is_cased(char32_t code_point) noexcept;

}  // namespace weft::text
