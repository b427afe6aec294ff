// SPDX-License-Identifier: Apache-2.0

#include "kernels/narrow_rows.hpp"

#include "core/assert.hpp"
#include "core/numeric.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

namespace weft::kernels {
namespace {

/// Scales are no smaller, so that no number of a narrow type is a subnormal float.
constexpr std::int32_t kLeastExponent = -100;

template <class Type>
constexpr bool kHasScale = Type::scale_rule != numeric::ScaleRule::none;
template <class Type>
constexpr std::size_t kHeader = kHasScale<Type> ? sizeof(std::int32_t) : 0;

constexpr std::size_t up_to_words(std::size_t bytes) { return (bytes + 3) / 4 * 4; }

/// f(Type()) of a narrow type.
template <class F>
void visit_narrow(Dtype dtype, F&& f) {
  switch (dtype) {
#define WEFT_NARROW(type_name, Type) \
  case numeric::Type::dtype:         \
    return f(numeric::Type());
#include "kernels/narrow_types.def"
#undef WEFT_NARROW
    default:
      WEFT_ASSERT(false, "a type that kernels/narrow_types.def does not name");
  }
}

float power_of_two(std::int32_t exponent) noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(exponent + 127) << 23);
}

struct RowSize {
  std::uint32_t largest = 0;  // bits of the largest finite magnitude
  bool is_finite = true;
};

/// Magnitudes are ordered as their bits are.
RowSize size_of(const float* row, std::size_t cols) noexcept {
  RowSize size;
  for (std::size_t j = 0; j < cols; ++j) {
    const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(row[j]) & 0x7fffffffu;
    const bool is_finite = magnitude < 0x7f800000u;
    size.largest = std::max(size.largest, is_finite ? magnitude : 0u);
    size.is_finite &= is_finite;
  }
  return size;
}

/// The least e with magnitude <= largest_number * 2^e, which must be a finite float.
template <class Type>
std::int32_t exponent_of(std::uint32_t magnitude) noexcept {
  if constexpr (!kHasScale<Type>) return 0;
  const auto largest = std::bit_cast<std::uint32_t>(static_cast<float>(Type::largest_number()));
  const auto field = [](std::uint32_t bits) { return static_cast<std::int32_t>(bits >> 23); };
  const bool is_above = (magnitude & 0x7fffffu) > (largest & 0x7fffffu);
  constexpr std::int32_t kTop = 254;  // of finite floats, as their field has it
  return std::clamp(field(magnitude) - field(largest) + (is_above ? 1 : 0), kLeastExponent, kTop - field(largest));
}

}  // namespace

bool is_narrow(Dtype dtype) noexcept {
#define WEFT_NARROW(type_name, Type) \
  if (dtype == numeric::Type::dtype) return true;
#include "kernels/narrow_types.def"
#undef WEFT_NARROW
  return false;
}

const std::vector<std::string_view>& value_dtype_names() {
  static const std::vector<std::string_view> names{
      name(Dtype::float32),
#define WEFT_NARROW(type_name, Type) name(numeric::Type::dtype),
#include "kernels/narrow_types.def"
#undef WEFT_NARROW
  };
  return names;
}

std::size_t narrow_row_bytes(Dtype dtype, std::size_t cols) noexcept {
  if (!is_narrow(dtype)) return cols * sizeof(float);
  std::size_t bytes = 0;
  visit_narrow(dtype, [&](auto type) {
    using Type = decltype(type);
    bytes = up_to_words(kHeader<Type> + cols * sizeof(typename Type::Code));
  });
  return bytes;
}

void round_rows(Dtype dtype, const MatrixView& rows) noexcept {
  if (!is_narrow(dtype)) return;
  visit_narrow(dtype, [&](auto type) {
    using Type = decltype(type);
    for (std::size_t i = 0; i < rows.rows; ++i) {
      float* const row = rows.row(i);
      const RowSize size = size_of(row, rows.cols);
      if (!size.is_finite) continue;
      const std::int32_t exponent = exponent_of<Type>(size.largest);
      const float down = power_of_two(-exponent), up = power_of_two(exponent);
      for (std::size_t j = 0; j < rows.cols; ++j)
        row[j] = static_cast<float>(Type::decode(Type::encode(row[j] * down))) * up;
    }
  });
}

void encode_rows(Dtype dtype, const ConstMatrixView& from, std::byte* to) noexcept {
  const std::size_t each = narrow_row_bytes(dtype, from.cols);
  if (!is_narrow(dtype)) {
    for (std::size_t i = 0; i < from.rows; ++i) std::memcpy(to + i * each, from.row(i), each);
    return;
  }
  visit_narrow(dtype, [&](auto type) {
    using Type = decltype(type);
    for (std::size_t i = 0; i < from.rows; ++i, to += each) {
      const float* const row = from.row(i);
      const std::int32_t exponent = exponent_of<Type>(size_of(row, from.cols).largest);
      const float down = power_of_two(-exponent);
      if constexpr (kHasScale<Type>) std::memcpy(to, &exponent, sizeof exponent);
      for (std::size_t j = 0; j < from.cols; ++j) {
        const typename Type::Code code = Type::encode(row[j] * down);
        std::memcpy(to + kHeader<Type> + j * sizeof code, &code, sizeof code);
      }
    }
  });
}

void decode_rows(Dtype dtype, const std::byte* from, const MatrixView& to) noexcept {
  const std::size_t each = narrow_row_bytes(dtype, to.cols);
  if (!is_narrow(dtype)) {
    for (std::size_t i = 0; i < to.rows; ++i) std::memcpy(to.row(i), from + i * each, each);
    return;
  }
  visit_narrow(dtype, [&](auto type) {
    using Type = decltype(type);
    for (std::size_t i = 0; i < to.rows; ++i, from += each) {
      std::int32_t exponent = 0;
      if constexpr (kHasScale<Type>) std::memcpy(&exponent, from, sizeof exponent);
      const float up = power_of_two(exponent);
      for (std::size_t j = 0; j < to.cols; ++j) {
        typename Type::Code code;
        std::memcpy(&code, from + kHeader<Type> + j * sizeof code, sizeof code);
        to.row(i)[j] = static_cast<float>(Type::decode(code)) * up;
      }
    }
  });
}

}  // namespace weft::kernels
