// SPDX-License-Identifier: Apache-2.0

#include "formats/safetensors/internal/safetensors_layout.hpp"

#include "core/dtype.hpp"
#include "core/printable.hpp"

#include <algorithm>
#include <iterator>

namespace weft::formats::safetensors {

const Type* find_type_by_name(std::string_view name) noexcept {
  const auto* const found =
      std::find_if(std::begin(kTypes), std::end(kTypes), [&](const Type& type) { return type.name == name; });
  return found == std::end(kTypes) ? nullptr : found;
}

bool is_own_type(std::string_view type) noexcept {
  return parse_dtype(type) &&
         std::none_of(std::begin(kTypes), std::end(kTypes), [&](const Type& row) { return row.type == type; });
}

const Type* find_type(std::string_view type) noexcept {
  if (type == "u32") return find_type_by_name("U32");
  if (type == "u64") return find_type_by_name("U64");
  if (type == "bytes" || is_own_type(type)) return find_type_by_name("U8");
  const auto* const found =
      std::find_if(std::begin(kTypes), std::end(kTypes), [&](const Type& row) { return row.type == type; });
  return found == std::end(kTypes) ? nullptr : found;
}

Result<std::size_t> size_of(const Shape& shape, unsigned bits) {
  Shape positive;
  std::copy_if(shape.begin(), shape.end(), std::back_inserter(positive), [](std::size_t n) { return n != 0; });
  auto elements = volume(positive);
  if (!elements) return fail(std::move(elements).error().within("ValidationOverflow"));
  const std::size_t all = positive.size() == shape.size() ? *elements * bits : 0;  // at most 2^40 * 64
  if (all % 8 != 0)
    return fail(Errc::corrupt, "MisalignedSlice: " + to_string(shape) + " of " + std::to_string(bits) +
                                   " bits each fill no whole number of bytes");
  return all / 8;
}

Status check_name(std::string_view name) {
  if (!name.empty() && name.size() <= kMaxNameSize && name != kNotesKey && name.find('\0') == name.npos) return {};
  return fail(Errc::invalid_argument,
              in_quotes(name) + " cannot name a tensor: 1 to 512 bytes without NUL, and not " + std::string(kNotesKey));
}

}  // namespace weft::formats::safetensors
