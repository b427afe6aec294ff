// SPDX-License-Identifier: Apache-2.0

#include "formats/npy/npy.hpp"

#include "formats/internal/load.hpp"

#include "core/printable.hpp"

#include <array>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

namespace weft::formats {
namespace {

constexpr std::array<char, 6> kNpyMagic{'\x93', 'N', 'U', 'M', 'P', 'Y'};
constexpr std::size_t kNpyMostAxes = 32, kNpyMostValues = std::size_t{1} << 31;

/// Header of a .npy file: `{'descr': '<f8', 'fortran_order': False, 'shape': (100, 8), }`, a Python dict of these
/// three.
class NpyHeader {
 public:
  explicit NpyHeader(std::string_view text) : text_(text) {}

  std::string descr;
  bool is_fortran = false;
  Shape shape;

  /// False: not such a header.
  bool read() {
    bool has_descr = false, has_order = false, has_shape = false;
    if (!take('{')) return false;
    while (!take('}')) {
      const auto key = quoted();
      if (!key || !take(':')) return false;
      if (*key == "descr" && !has_descr) {
        has_descr = read_descr();
        if (!has_descr) return false;
      } else if (*key == "fortran_order" && !has_order) {
        has_order = read_order();
        if (!has_order) return false;
      } else if (*key == "shape" && !has_shape) {
        has_shape = read_shape();
        if (!has_shape) return false;
      } else {
        return false;
      }
      if (!take(',')) {
        if (!take('}')) return false;
        break;
      }
    }
    skip_spaces();
    return text_.empty() && has_descr && has_order && has_shape;
  }

 private:
  void skip_spaces() {
    while (!text_.empty() && (text_.front() == ' ' || text_.front() == '\n')) text_.remove_prefix(1);
  }
  bool take(char wanted) {
    skip_spaces();
    if (text_.empty() || text_.front() != wanted) return false;
    text_.remove_prefix(1);
    return true;
  }
  bool take_word(std::string_view word) {
    skip_spaces();
    if (!text_.starts_with(word)) return false;
    text_.remove_prefix(word.size());
    return true;
  }
  std::optional<std::string> quoted() {
    skip_spaces();
    if (text_.empty() || (text_.front() != '\'' && text_.front() != '"')) return std::nullopt;
    const std::size_t end = text_.find(text_.front(), 1);
    if (end == std::string_view::npos) return std::nullopt;
    std::string found(text_.substr(1, end - 1));
    text_.remove_prefix(end + 1);
    return found;
  }
  /// A text; a list, of an array of records, is taken up to its end and told of as it stands.
  bool read_descr() {
    if (auto found = quoted()) {
      descr = *std::move(found);
      return true;
    }
    if (text_.empty() || text_.front() != '[') return false;
    const std::size_t end = text_.find(']');
    if (end == std::string_view::npos) return false;
    descr = text_.substr(0, end + 1);
    text_.remove_prefix(end + 1);
    return true;
  }
  bool read_order() {
    if (take_word("False")) return true;
    is_fortran = take_word("True");
    return is_fortran;
  }
  bool read_shape() {
    if (!take('(')) return false;
    while (!take(')')) {
      skip_spaces();
      std::size_t extent = 0;
      const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), extent);
      if (error != std::errc() || shape.size() == kNpyMostAxes) return false;
      text_.remove_prefix(static_cast<std::size_t>(end - text_.data()));
      shape.push_back(extent);
      if (!take(',')) return take(')');
    }
    return true;
  }

  std::string_view text_;
};

Failure refused_type(const std::string& source, const std::string& descr) {
  const std::string found = source + ": its values are '" + printable(descr) + "'";
  if (descr == "|O" || descr == "O")
    return fail(Errc::unsupported, found +
                                       ", Python objects in a pickle, which can run programs and are not read; "
                                       "save numbers: array.astype('<f8')");
  if (descr.starts_with('>'))
    return fail(Errc::unsupported,
                found + ", big-endian; save them little-endian: array.astype('<" + printable(descr.substr(1)) + "')");
  return fail(Errc::unsupported, found + "; known are '<f8', '<f4', '<i4' and '<i8': array.astype('<f8')");
}

/// The product of the sizes; nothing: more than are read.
std::optional<std::size_t> count_of(const Shape& shape) {
  std::size_t count = 1;
  for (const std::size_t extent : shape) {
    if (extent != 0 && count > kNpyMostValues / extent) return std::nullopt;
    count *= extent;
  }
  return count;
}

}  // namespace

bool is_npy(ByteSpan bytes) noexcept {
  return bytes.size() >= kNpyMagic.size() && std::memcmp(bytes.data(), kNpyMagic.data(), kNpyMagic.size()) == 0;
}

Result<NpyArray> NpyArray::open(ByteSpan bytes, std::string_view source_name) {
  const std::string source(source_name);
  constexpr std::size_t kVersionAt = 6, kLengthAt = 8;
  if (!is_npy(bytes)) return fail(Errc::corrupt, source + ": does not begin as a .npy file");
  if (bytes.size() < kLengthAt + 4) return fail(Errc::corrupt, source + ": cut short inside its header");
  const auto version = std::to_integer<unsigned>(bytes[kVersionAt]);
  if (version < 1 || version > 3)
    return fail(Errc::unsupported, source + ": .npy version " + std::to_string(version) + ", known are 1 to 3");
  const std::size_t at = kLengthAt + (version == 1 ? 2 : 4);
  const std::size_t length =
      version == 1 ? load<std::uint16_t>(bytes, kLengthAt) : load<std::uint32_t>(bytes, kLengthAt);
  if (length > bytes.size() - at) return fail(Errc::corrupt, source + ": cut short inside its header");
  NpyHeader header(as_text(bytes.subspan(at, length)));
  if (!header.read())
    return fail(Errc::corrupt, source + ": its header is not {'descr': ..., 'fortran_order': ..., 'shape': ...}");
  NpyArray array;
  if (header.descr == "<f8")
    array.type_ = Type::float64;
  else if (header.descr == "<f4")
    array.type_ = Type::float32;
  else if (header.descr == "<i8")
    array.type_ = Type::int64;
  else if (header.descr == "<i4")
    array.type_ = Type::int32;
  else
    return refused_type(source, header.descr);
  if (header.is_fortran && header.shape.size() > 1)
    return fail(Errc::unsupported,
                source + ": is in Fortran order; save it in C order: numpy.ascontiguousarray(array)");
  const auto count = count_of(header.shape);
  if (!count) return fail(Errc::too_large, source + ": more than " + std::to_string(kNpyMostValues) + " values");
  const std::uint64_t wanted =
      std::uint64_t{*count} * (array.type_ == Type::float64 || array.type_ == Type::int64 ? 8 : 4);
  array.values_ = bytes.subspan(at + length);
  if (array.values_.size() != wanted)
    return fail(Errc::corrupt, source + ": " + std::to_string(array.values_.size()) + " bytes of values, its shape " +
                                   weft::to_string(header.shape) + " says " + std::to_string(wanted));
  array.size_ = *count;
  array.shape_ = std::move(header.shape);
  return array;
}

double NpyArray::value(std::size_t i) const noexcept {
  switch (type_) {
    case Type::float32:
      return load<float>(values_, 4 * i);
    case Type::int32:
      return load<std::int32_t>(values_, 4 * i);
    case Type::int64:
      return static_cast<double>(load<std::int64_t>(values_, 8 * i));
    default:
      return load<double>(values_, 8 * i);
  }
}

}  // namespace weft::formats
