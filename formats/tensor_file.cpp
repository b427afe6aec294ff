// SPDX-License-Identifier: Apache-2.0

#include "formats/tensor_file.hpp"

#include "core/dtype.hpp"
#include "core/printable.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace weft::formats {
namespace {

constexpr std::size_t kMaxAxes = 16;

Result<std::size_t> bits_of(std::string_view type) {
  if (type == "bytes") return std::size_t{8};
  if (type == "u32") return std::size_t{32};
  if (type == "u64") return std::size_t{64};
  if (const auto dtype = parse_dtype(type)) return static_cast<std::size_t>(bits(*dtype));
  return fail(Errc::unknown_name, "type " + in_quotes(type) + " is no dtype, \"u32\", \"u64\" or \"bytes\"");
}

Result<std::size_t> elements_of(const Shape& shape) {
  if (shape.size() > kMaxAxes)
    return fail(Errc::too_large, std::to_string(shape.size()) + " dimensions, at most " + std::to_string(kMaxAxes));
  // Extents of 0 are left out for the check, so that no order of extents overflows.
  Shape positive;
  std::copy_if(shape.begin(), shape.end(), std::back_inserter(positive), [](std::size_t n) { return n != 0; });
  WEFT_TRY(const std::size_t elements, volume(positive));
  return positive.size() == shape.size() ? elements : 0;
}

}  // namespace

Result<std::uint64_t> tensor_bits(std::string_view type, const Shape& shape) {
  WEFT_TRY(const std::size_t element_bits, bits_of(type));
  WEFT_TRY(const std::size_t elements, elements_of(shape));
  return elements * element_bits;  // at most 2^40 * 64
}

Result<std::size_t> tensor_size(std::string_view type, const Shape& shape) {
  WEFT_TRY(const std::uint64_t bits, tensor_bits(type, shape));
  return (bits + 7) / 8;
}

Status each_part(ByteSpan bytes, std::size_t unit, const ByteSource::Sink& sink, std::size_t wanted) {
  const std::size_t part = std::max(unit, wanted / std::max<std::size_t>(unit, 1) * unit);
  for (std::size_t at = 0; at < bytes.size(); at += part)
    WEFT_CHECK(sink(bytes.subspan(at, std::min(part, bytes.size() - at))));
  return {};
}

Status whole_units(const ByteSource::Produce& produce, std::size_t unit, const ByteSource::Sink& sink) {
  if (unit <= 1) return produce(sink);
  ByteBuffer held(unit);
  std::size_t size = 0;  // of what is held
  const ByteSource::Sink cut = [&](ByteSpan part) -> Status {
    if (size != 0) {
      const std::size_t more = std::min(unit - size, part.size());
      std::memcpy(held.data() + size, part.data(), more);
      size += more;
      part = part.subspan(more);
      if (size < unit) return {};
      size = 0;
      WEFT_CHECK(sink(held));
    }
    const std::size_t whole = part.size() / unit * unit;
    if (whole != 0) WEFT_CHECK(sink(part.first(whole)));
    size = part.size() - whole;
    if (size != 0) std::memcpy(held.data(), part.data() + whole, size);
    return {};
  };
  WEFT_CHECK(produce(cut));
  return size != 0 ? sink(ByteSpan(held.data(), size)) : Status();
}

namespace {
Status check_kind(const Tensor& tensor, std::string_view type, const Shape* shape) {
  if (tensor.type == type && (!shape || tensor.shape == *shape)) return {};
  return fail(Errc::shape_mismatch, "tensor '" + tensor.name + "': is " + tensor.type + " " + to_string(tensor.shape) +
                                        ", expected " + std::string(type) + (shape ? " " + to_string(*shape) : ""));
}
}  // namespace

std::vector<Tensor> TensorFile::streamed() const {
  constexpr std::size_t kLarge = std::size_t{1} << 20;
  std::vector<Tensor> all = tensors();
  for (Tensor& tensor : all) {
    // The size of a type of someone's own is that of its bytes.
    if (tensor.bytes.size() < kLarge || !tensor_size(tensor.type, tensor.shape)) continue;
    tensor.bytes = {};
    tensor.produce = [this, name = tensor.name](const ByteSource::Sink& sink) { return read(name, 1, sink); };
  }
  return all;
}

Status TensorFile::check(std::string_view name, std::string_view type, const Shape& shape) const {
  WEFT_TRY(const Tensor tensor, describe(name));
  return check_kind(tensor, type, &shape);
}

Result<ByteSpan> TensorFile::checked(std::string_view name, std::string_view type, const Shape* shape) const {
  WEFT_TRY(const Tensor tensor, find(name));
  WEFT_CHECK(check_kind(tensor, type, shape));
  return tensor.bytes;
}

}  // namespace weft::formats
