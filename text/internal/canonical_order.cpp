// SPDX-License-Identifier: Apache-2.0

#include "text/internal/canonical_order.hpp"

#include "core/assert.hpp"

#include <unicode/utf16.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft::text {
namespace {

constexpr std::size_t kManyMarks = 64;

/// Calls what(code point) for each.
template <class What>
void for_each_code_point(std::u16string_view units, const What& what) {
  for (std::size_t at = 0; at < units.size();) {
    UChar32 c = 0;
    U16_NEXT(units.data(), at, units.size(), c);
    what(c);
  }
}

void append(std::u16string& to, UChar32 c) {
  if (U_IS_BMP(c)) {
    to += static_cast<char16_t>(c);
  } else {
    to += static_cast<char16_t>(U16_LEAD(c));
    to += static_cast<char16_t>(U16_TRAIL(c));
  }
}

struct Mark {
  UChar32 c;
  std::uint8_t combining_class;
};

}  // namespace

bool has_many_marks(std::u16string_view units, const UNormalizer2& decomposing) {
  std::size_t row = 0, most = 0;
  for_each_code_point(units, [&](UChar32 c) {
    row = c < 0x300 || unorm2_hasBoundaryBefore(&decomposing, c) ? 0 : row + 1;
    most = std::max(most, row);
  });
  return most >= kManyMarks;
}

std::u16string decomposed_in_order(std::u16string_view units, const UNormalizer2& decomposing) {
  std::u16string ordered;
  ordered.reserve(units.size());
  std::vector<Mark> marks;
  const auto end_row = [&] {
    std::stable_sort(marks.begin(), marks.end(),
                     [](const Mark& a, const Mark& b) { return a.combining_class < b.combining_class; });
    for (const Mark& each : marks) append(ordered, each.c);
    marks.clear();
  };
  const auto add = [&](UChar32 c) {
    if (const std::uint8_t of = unorm2_getCombiningClass(&decomposing, c); of != 0) {
      marks.push_back({c, of});
      return;
    }
    end_row();
    append(ordered, c);
  };
  std::array<char16_t, 32> parts{};  // U+FDFA has 18, no code point more
  for_each_code_point(units, [&](UChar32 c) {
    UErrorCode error = U_ZERO_ERROR;
    const std::int32_t size =
        unorm2_getDecomposition(&decomposing, c, parts.data(), static_cast<std::int32_t>(parts.size()), &error);
    WEFT_ASSERT(U_SUCCESS(error), "ICU cannot decompose a code point");
    if (size < 0)
      add(c);
    else
      for_each_code_point({parts.data(), static_cast<std::size_t>(size)}, add);
  });
  end_row();
  return ordered;
}

}  // namespace weft::text
