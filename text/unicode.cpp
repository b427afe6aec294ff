// SPDX-License-Identifier: Apache-2.0

#include "text/unicode.hpp"

#include "text/internal/canonical_order.hpp"
#include "text/internal/utf16.hpp"

#include "core/assert.hpp"

#include <unicode/uchar.h>
#include <unicode/unorm2.h>
#include <unicode/ustring.h>

#include <array>

namespace weft::text {
namespace {

constexpr char32_t kReplacement = 0xFFFD;

/// Length of a valid sequence at the beginning of `text`, or 0 and in `bad` that of its maximal valid part.
std::size_t sequence(std::string_view text, std::size_t& bad) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  bad = 1;
  if (first < 0x80) return 1;
  const std::size_t size = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4) return 0;
  for (std::size_t i = 1; i < size; ++i) {
    // The second byte's range leaves out overlong forms, surrogates and what is above U+10FFFF.
    const unsigned low = i > 1 ? 0x80 : first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
    const unsigned high = i > 1 ? 0xBF : first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
    if (i >= text.size() || byte(i) < low || byte(i) > high) return 0;
    bad = i + 1;
  }
  return size;
}

int8_t category(char32_t c) noexcept { return u_charType(static_cast<UChar32>(c)); }
bool is_in(char32_t c, std::uint32_t mask) noexcept { return (U_MASK(category(c)) & mask) != 0; }

const UNormalizer2& normalizer(NormalForm form) {
  UErrorCode error = U_ZERO_ERROR;
  const UNormalizer2* const found = form == NormalForm::nfc    ? unorm2_getNFCInstance(&error)
                                    : form == NormalForm::nfd  ? unorm2_getNFDInstance(&error)
                                    : form == NormalForm::nfkc ? unorm2_getNFKCInstance(&error)
                                                               : unorm2_getNFKDInstance(&error);
  WEFT_ASSERT(U_SUCCESS(error), "ICU has no tables of normal forms");
  return *found;
}

NormalForm decomposition_of(NormalForm form) noexcept {
  return form == NormalForm::nfc || form == NormalForm::nfd ? NormalForm::nfd : NormalForm::nfkd;
}

}  // namespace

char32_t next_code_point(std::string_view text, std::size_t& at) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<char32_t>(static_cast<unsigned char>(text[at + i])); };
  const char32_t first = byte(0);
  char32_t found = first;
  std::size_t size = 1;
  if (first >= 0xF0)
    found = (first & 7) << 18 | (byte(1) & 63) << 12 | (byte(2) & 63) << 6 | (byte(3) & 63), size = 4;
  else if (first >= 0xE0)
    found = (first & 15) << 12 | (byte(1) & 63) << 6 | (byte(2) & 63), size = 3;
  else if (first >= 0xC0)
    found = (first & 31) << 6 | (byte(1) & 63), size = 2;
  at += size;
  return found;
}

char32_t previous_code_point(std::string_view text, std::size_t& at) noexcept {
  do --at;
  while ((static_cast<unsigned char>(text[at]) & 0xC0) == 0x80);
  std::size_t begin = at;
  return next_code_point(text, begin);
}

void append_utf8(std::string& text, char32_t c) {
  const auto put = [&](char32_t byte) { text += static_cast<char>(static_cast<unsigned char>(byte)); };
  if (c < 0x80) return put(c);
  if (c < 0x800) return put(0xC0 | c >> 6), put(0x80 | (c & 63));
  if (c < 0x10000) return put(0xE0 | c >> 12), put(0x80 | (c >> 6 & 63)), put(0x80 | (c & 63));
  put(0xF0 | c >> 18), put(0x80 | (c >> 12 & 63)), put(0x80 | (c >> 6 & 63)), put(0x80 | (c & 63));
}

std::size_t valid_prefix(std::string_view text) noexcept {
  std::size_t at = 0, bad = 0;
  while (at < text.size()) {
    const std::size_t size = sequence(text.substr(at), bad);
    if (size == 0) break;
    at += size;
  }
  return at;
}

std::string replace_invalid(std::string_view text) {
  std::string valid;
  valid.reserve(text.size());
  while (!text.empty()) {
    const std::size_t size = valid_prefix(text);
    valid += text.substr(0, size);
    text.remove_prefix(size);
    if (text.empty()) break;
    std::size_t bad = 0;
    (void)sequence(text, bad);
    append_utf8(valid, kReplacement);
    text.remove_prefix(bad);
  }
  return valid;
}

bool is_white_space(char32_t c) noexcept { return u_isUWhiteSpace(static_cast<UChar32>(c)) != 0; }
bool is_letter(char32_t c) noexcept { return is_in(c, U_GC_L_MASK); }
bool is_number(char32_t c) noexcept { return is_in(c, U_GC_N_MASK); }
bool is_mark(char32_t c) noexcept { return is_in(c, U_GC_M_MASK); }
bool is_nonspacing_mark(char32_t c) noexcept { return is_in(c, U_GC_MN_MASK); }
bool is_punctuation(char32_t c) noexcept { return is_in(c, U_GC_P_MASK); }
bool is_word(char32_t c) noexcept {
  const auto has = [c](UProperty property) { return u_hasBinaryProperty(static_cast<UChar32>(c), property) != 0; };
  return is_in(c, U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK) || has(UCHAR_ALPHABETIC) || has(UCHAR_JOIN_CONTROL);
}
bool is_other(char32_t c) noexcept { return is_in(c, U_GC_C_MASK); }

std::string normalized(std::string_view text, NormalForm form) {
  const UNormalizer2& tables = normalizer(form);
  Utf16 source(text);
  const UNormalizer2& decomposing = normalizer(decomposition_of(form));
  if (has_many_marks(source.units, decomposing)) {
    source.units = decomposed_in_order(source.units, decomposing);
    if (decomposition_of(form) == form) return to_utf8(source.units);
  } else {
    UErrorCode error = U_ZERO_ERROR;
    const auto length = static_cast<std::int32_t>(source.units.size());
    if (unorm2_isNormalized(&tables, source.units.data(), length, &error) != 0 && U_SUCCESS(error))
      return std::string(text);
  }
  std::u16string made(source.units.size() + 16, u'\0');
  for (;;) {
    UErrorCode error = U_ZERO_ERROR;
    const std::int32_t size =
        unorm2_normalize(&tables, source.units.data(), static_cast<std::int32_t>(source.units.size()), made.data(),
                         static_cast<std::int32_t>(made.size()), &error);
    made.resize(static_cast<std::size_t>(size));
    if (error == U_BUFFER_OVERFLOW_ERROR) continue;
    WEFT_ASSERT(U_SUCCESS(error), "ICU cannot normalize UTF-8");
    return to_utf8(made);
  }
}

std::string lower_case(std::string_view text) {
  std::string lower;
  lower.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = next_code_point(text, at);
    // The one code point whose lower case is two, whatever stands around it (SpecialCasing.txt).
    if (c == 0x130)
      lower += "i\u0307";
    else
      append_utf8(lower, static_cast<char32_t>(u_tolower(static_cast<UChar32>(c))));
  }
  return lower;
}

std::string upper_case(std::string_view text) {
  const Utf16 source(text);
  std::u16string made(source.units.size() * 3, u'\0');  // three units for one at most (SpecialCasing.txt)
  UErrorCode error = U_ZERO_ERROR;
  const std::int32_t size = u_strToUpper(made.data(), static_cast<std::int32_t>(made.size()), source.units.data(),
                                         static_cast<std::int32_t>(source.units.size()), "", &error);
  WEFT_ASSERT(error != U_BUFFER_OVERFLOW_ERROR && U_SUCCESS(error), "ICU has no upper case of UTF-8");
  return to_utf8(std::u16string_view(made).substr(0, static_cast<std::size_t>(size)));
}

std::string title_case(std::string_view text) {
  std::string made;
  if (text.empty()) return made;
  std::size_t end = 0;
  const char32_t c = next_code_point(text, end);
  const auto title = static_cast<char32_t>(u_totitle(static_cast<UChar32>(c)));
  const std::string upper = upper_case(text.substr(0, end));
  std::size_t first = 0;
  (void)next_code_point(upper, first);
  if (title != c)
    append_utf8(made, title);
  else
    made = upper.substr(0, first) + lower_case(std::string_view(upper).substr(first));
  return made + lower_case(text.substr(end));
}

bool is_cased(char32_t c) noexcept { return u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_CASED) != 0; }

}  // namespace weft::text
