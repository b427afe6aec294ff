// SPDX-License-Identifier: Apache-2.0

#include "kernels/weight_layout.hpp"

#include "core/assert.hpp"
#include "core/numeric.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>

namespace weft::kernels {
namespace {

static_assert(std::endian::native == std::endian::little, "files are little-endian: swap bytes here");

std::size_t row_scales(Granularity granularity, std::size_t in) noexcept {
  return granularity == Granularity::channel ? 1 : (in + kScaleBlock - 1) / kScaleBlock;
}

/// Bytes of n codes; n * bits may be past what size_t holds.
std::size_t code_bytes(std::size_t n, int bits) noexcept {
  const auto width = static_cast<std::size_t>(bits);
  return n / 8 * width + (n % 8 * width + 7) / 8;
}

/// each(o, k): the groups of a weight in file order, by an element of theirs.
template <class Each>
void for_each_group(const ConstWeight& w, const Each& each) {
  if (w.granularity == Granularity::tensor) return each(std::size_t{0}, std::size_t{0});
  for (std::size_t o = 0; o < w.out; ++o)
    for (std::size_t i = 0; i < row_scales(w.granularity, w.in); ++i) each(o, i * kScaleBlock);
}

/// Index of T's codes in a weight's array.
template <class T>
struct CodePlace {
  static constexpr bool kInWords = T::bits < 8 || T::dtype == Dtype::int8 || T::dtype == Dtype::uint8;
  using Unit = std::conditional_t<kInWords, std::uint32_t, typename T::Code>;
  static constexpr std::size_t kPerUnit = kInWords ? codes_per_word(std::min(T::bits, 8)) : 1;

  std::size_t units;  // of one output
  explicit CodePlace(std::size_t in) noexcept : units((in + kPerUnit - 1) / kPerUnit) {}
  std::size_t index(std::size_t o, std::size_t k) const noexcept { return panel_index(units, o, k / kPerUnit); }
  static constexpr int shift(std::size_t k) noexcept { return static_cast<int>(k % kPerUnit) * T::bits; }
};

template <class T>
void export_codes(const ConstWeight& w, std::byte* to) noexcept {
  using Place = CodePlace<T>;
  const Place place(w.in);
  const auto* units = static_cast<const typename Place::Unit*>(w.codes);
  if constexpr (T::bits >= 8) {
    for (std::size_t o = 0; o < w.out; ++o)
      for (std::size_t k = 0; k < w.in; ++k, to += sizeof(typename T::Code)) {
        const auto code = static_cast<typename T::Code>(units[place.index(o, k)] >> Place::shift(k));
        std::memcpy(to, &code, sizeof code);
      }
  } else {
    // Rows follow each other within a byte.
    unsigned pending = 0;
    int held = 0;
    for (std::size_t o = 0; o < w.out; ++o)
      for (std::size_t k = 0; k < w.in; ++k) {
        pending |= (units[place.index(o, k)] >> Place::shift(k) & ((1u << T::bits) - 1)) << held;
        held += T::bits;
        if (held == 8) *to++ = static_cast<std::byte>(pending), pending = 0, held = 0;
      }
    if (held != 0) *to = static_cast<std::byte>(pending);
  }
}

/// Code number i of packed bytes.
template <class T>
typename T::Code packed_code(const std::byte* from, std::size_t i) noexcept {
  if constexpr (T::bits >= 8) {
    typename T::Code code;
    std::memcpy(&code, from + i * sizeof code, sizeof code);
    return code;
  } else {
    constexpr std::size_t n = 8 / T::bits;
    return static_cast<typename T::Code>(static_cast<unsigned>(from[i / n]) >> (i % n * T::bits) &
                                         ((1u << T::bits) - 1));
  }
}

/// Rows of `units` each, [out][units], to panels of 16 rows.
template <class Unit>
void import_units(const std::byte* from, std::size_t out, std::size_t units, Unit* to) noexcept {
  for (std::size_t first = 0; first < out; first += kPanelWidth) {
    const std::byte* const rows = from + first * units * sizeof(Unit);
    const std::size_t width = std::min(kPanelWidth, out - first);
    for (std::size_t i = 0; i < units; ++i, to += kPanelWidth) {
      for (std::size_t lane = 0; lane < width; ++lane)
        std::memcpy(to + lane, rows + (lane * units + i) * sizeof(Unit), sizeof(Unit));
      for (std::size_t lane = width; lane < kPanelWidth; ++lane) to[lane] = Unit{};
    }
  }
}

template <class T>
void import_codes(const std::byte* from, const Weight& to) noexcept {
  using Place = CodePlace<T>;
  const Place place(to.in);
  // Rows of whole units hold them as they stand in memory.
  if (to.in % Place::kPerUnit == 0)
    return import_units(from, to.out, place.units, static_cast<typename Place::Unit*>(to.codes));
  std::memset(to.codes, 0, weight_bytes(ConstWeight(to).encoding(), to.out, to.in).codes);
  auto* units = static_cast<typename Place::Unit*>(to.codes);
  for (std::size_t o = 0, i = 0; o < to.out; ++o)
    for (std::size_t k = 0; k < to.in; ++k, ++i) {
      const auto code = static_cast<typename Place::Unit>(packed_code<T>(from, i));
      units[place.index(o, k)] |= static_cast<typename Place::Unit>(code << Place::shift(k));
    }
}

template <class Element>
void copy_groups(const ConstWeight& w, const void* elements, std::byte* to) noexcept {
  for_each_group(w, [&](std::size_t o, std::size_t k) {
    std::memcpy(to, static_cast<const Element*>(elements) + scale_index(w.granularity, w.in, o, k), sizeof(Element));
    to += sizeof(Element);
  });
}
template <class Element>
void place_groups(const std::byte* from, const Weight& w, void* elements) noexcept {
  if (is_block(w.granularity))
    return import_units(from, w.out, row_scales(w.granularity, w.in), static_cast<Element*>(elements));
  for_each_group(w, [&](std::size_t o, std::size_t k) {
    std::memcpy(static_cast<Element*>(elements) + scale_index(w.granularity, w.in, o, k), from, sizeof(Element));
    from += sizeof(Element);
  });
}

/// f.operator()<Scale>() with the type of T's scales in that weight; of binary16 their bits.
template <class T, class F>
void visit_scale(const ConstWeight& w, const F& f) {
  if constexpr (sizeof(typename T::Scale) == sizeof(float))
    if (w.has_half_scales()) return f.template operator()<std::uint16_t>();
  f.template operator()<typename T::Scale>();
}

std::string describe(const Weight& w) {
  return to_string(ConstWeight(w).encoding()) + " [" + std::to_string(w.out) + ", " + std::to_string(w.in) + "]";
}

Status check_length(std::string_view what, std::size_t given, std::size_t wanted, const Weight& w) {
  if (given == wanted) return {};
  return fail(Errc::corrupt, std::string(what) + " of " + describe(w) + " are " + std::to_string(given) +
                                 " bytes, not " + std::to_string(wanted));
}

/// A number to be told, of its bits: made by integers where it is subnormal, as FTZ and DAZ would make it 0.
double told(std::uint16_t word) noexcept { return static_cast<double>(numeric::Float16::decode(word)); }
double told(std::uint32_t word) noexcept {
  if ((word & 0x7f800000u) == 0) return (word >> 31 ? -0x1p-149 : 0x1p-149) * static_cast<double>(word & 0x7fffffu);
  return static_cast<double>(std::bit_cast<float>(word));
}
double told(std::uint64_t word) noexcept { return std::bit_cast<double>(word); }

/// Scales whose bits lie within [kSmallest, kInfinity): by bits, as FTZ and DAZ would make subnormals zeros.
template <class Word, Word kSmallest, Word kInfinity>
Status check_scales(std::span<const std::byte> scales, const Weight& w, const char* wanted) {
  const auto word_at = [&](std::size_t i) {
    Word word;
    std::memcpy(&word, scales.data() + i * sizeof word, sizeof word);
    return word;
  };
  const auto is_bad = [&](std::size_t i) {
    return static_cast<Word>(word_at(i) - kSmallest) >= static_cast<Word>(kInfinity - kSmallest);
  };
  const std::size_t count = scales.size() / sizeof(Word);
  unsigned bad = 0;
  for (std::size_t i = 0; i < count; ++i) bad |= is_bad(i);
  for (std::size_t i = 0; bad != 0 && i < count; ++i) {
    if (is_bad(i)) {
      char number[32];
      std::snprintf(number, sizeof number, "%g", told(word_at(i)));
      return fail(Errc::corrupt,
                  "scale " + std::to_string(i) + " of " + describe(w) + " is " + number + ", not a " + wanted);
    }
  }
  return {};
}
Status check_scales(std::span<const std::byte> scales, const Weight& w) {
  constexpr auto kNormal = "positive normal number";
  switch (scale_bytes(ConstWeight(w).encoding())) {
    case sizeof(std::uint16_t):
      return check_scales<std::uint16_t, 1, 0x7c00>(scales, w, "positive binary16 number");
    case sizeof(float):
      return check_scales<std::uint32_t, 0x00800000, 0x7f800000>(scales, w, kNormal);
    default:
      return check_scales<std::uint64_t, 0x0010000000000000, 0x7ff0000000000000>(scales, w, kNormal);
  }
}

template <class T>
Status check_groups(const ConstOrderedWeight& from, const Weight& w) {
  WEFT_CHECK(check_scales(from.scales, w));
  if constexpr (T::scale_rule == numeric::ScaleRule::range)
    for (std::size_t i = 0; i < from.zero_points.size() / sizeof(typename T::Code); ++i) {
      typename T::Code zero;
      std::memcpy(&zero, from.zero_points.data() + i * sizeof zero, sizeof zero);
      if (!T::is_code(zero))
        return fail(Errc::corrupt, "zero point " + std::to_string(i) + " of " + describe(w) + " is " +
                                       std::to_string(zero) + ", past the largest code " + std::to_string(T::kMask));
    }
  return {};
}

/// True when one of n codes is the pattern of a lone highest bit, 64 bits of codes at a time; those after the last
/// whole 64 bits are left out. Some group of a word is 0 exactly if (word - low bits) & ~word has a high bit.
template <class T>
bool has_lone_high_bit(const std::byte* from, std::size_t n) noexcept {
  constexpr std::uint64_t kLow = ~std::uint64_t{0} / ((1u << T::bits) - 1), kHigh = kLow << (T::bits - 1);
  std::uint64_t found = 0;
  for (std::size_t i = 0; i < n * T::bits / 64; ++i) {
    std::uint64_t word;
    std::memcpy(&word, from + i * sizeof word, sizeof word);
    word ^= kHigh;
    found |= (word - kLow) & ~word & kHigh;
  }
  return found != 0;
}

template <class T>
Status check_codes(const std::byte* from, const Weight& w) {
  const std::size_t n = w.out * w.in;
  // The one pattern of a signed type that stands for nothing; of other types every pattern is a code.
  constexpr bool kIsNarrow = std::is_same_v<typename T::Number, std::int64_t> && T::bits <= 8 && T::bits > 1;
  std::size_t sound = 0;
  if constexpr (kIsNarrow)
    if (!has_lone_high_bit<T>(from, n)) sound = n * T::bits / 64 * 64 / T::bits;
  if constexpr (std::is_same_v<typename T::Number, std::int64_t>)
    for (std::size_t i = sound; i < n; ++i)
      if (!T::is_code(packed_code<T>(from, i)))
        return fail(Errc::corrupt, "code " + std::to_string(i) + " of " + describe(w) + " is " +
                                       std::to_string(T::decode(packed_code<T>(from, i))) +
                                       ", which stands for nothing");
  if constexpr (T::bits < 8)
    if (const std::size_t used = n * T::bits % 8; used != 0 && static_cast<unsigned>(from[n * T::bits / 8]) >> used)
      return fail(Errc::corrupt, "codes of " + describe(w) + ": bits after the last code are set");
  return {};
}

}  // namespace

std::size_t ordered_scale_count(const Encoding& encoding, std::size_t out, std::size_t in) noexcept {
  if (!has_scale(encoding.dtype)) return 0;
  return encoding.granularity == Granularity::tensor ? 1 : out * row_scales(encoding.granularity, in);
}

WeightBytes ordered_bytes(const Encoding& encoding, std::size_t out, std::size_t in) noexcept {
  return visit(encoding.dtype, [&](auto type) {
    using T = decltype(type);
    const std::size_t scales = ordered_scale_count(encoding, out, in);
    return WeightBytes{code_bytes(out * in, T::bits), scales * scale_bytes(encoding),
                       T::scale_rule == numeric::ScaleRule::range ? scales * sizeof(typename T::Code) : 0};
  });
}

void export_weight(const ConstWeight& weight, const OrderedWeight& to) noexcept {
  const WeightBytes bytes = ordered_bytes(weight.encoding(), weight.out, weight.in);
  const auto fits = [](std::span<const std::byte> to_array, std::size_t wanted) {
    return to_array.empty() || to_array.size() == wanted;
  };
  WEFT_ASSERT(fits(to.codes, bytes.codes) && fits(to.scales, bytes.scales) && fits(to.zero_points, bytes.zero_points),
              "export_weight: spans are not of ordered_bytes()");
  visit(weight.dtype, [&](auto type) {
    using T = decltype(type);
    if (!to.codes.empty()) export_codes<T>(weight, to.codes.data());
    if constexpr (T::scale_rule != numeric::ScaleRule::none)
      if (!to.scales.empty())
        visit_scale<T>(weight, [&]<class Scale>() { copy_groups<Scale>(weight, weight.scales, to.scales.data()); });
    if constexpr (T::scale_rule == numeric::ScaleRule::range)
      if (!to.zero_points.empty()) copy_groups<typename T::Code>(weight, weight.zero_points, to.zero_points.data());
  });
}

Status import_weight(const ConstOrderedWeight& from, const Weight& to) {
  const Encoding encoding = ConstWeight(to).encoding();
  const WeightBytes ordered = ordered_bytes(encoding, to.out, to.in), stored = weight_bytes(encoding, to.out, to.in);
  WEFT_CHECK(check_length("codes", from.codes.size(), ordered.codes, to));
  WEFT_CHECK(check_length("scales", from.scales.size(), ordered.scales, to));
  WEFT_CHECK(check_length("zero points", from.zero_points.size(), ordered.zero_points, to));
  return visit(to.dtype, [&](auto type) -> Status {
    using T = decltype(type);
    if constexpr (T::scale_rule != numeric::ScaleRule::none) WEFT_CHECK(check_groups<T>(from, to));
    WEFT_CHECK(check_codes<T>(from.codes.data(), to));
    if (stored.scales != 0) std::memset(to.scales, 0, stored.scales);
    if (stored.zero_points != 0) std::memset(to.zero_points, 0, stored.zero_points);
    import_codes<T>(from.codes.data(), to);
    if constexpr (T::scale_rule != numeric::ScaleRule::none)
      visit_scale<T>(to, [&]<class Scale>() { place_groups<Scale>(from.scales.data(), to, to.scales); });
    if constexpr (T::scale_rule == numeric::ScaleRule::range)
      place_groups<typename T::Code>(from.zero_points.data(), to, to.zero_points);
    return {};
  });
}

}  // namespace weft::kernels
