// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/byte_source.hpp"
#include "core/result.hpp"
#include "core/shape.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::formats {

/// A named array of numbers: what every model file is made of. `type` is a dtype's name (core/dtypes.def; the packed
/// codes of that type), or "u32", "u64" (plain counts), or "bytes", or what the format calls a type that Weft has no
/// word for. Its bytes lie in memory, or `produce` makes them part by part; then `bytes` is empty.
struct Tensor {
  std::string name;
  std::string type;
  Shape shape;
  ByteSpan bytes;  ///< little-endian, packed
  ByteSource::Produce produce{};
};

/// Bytes that `type` and `shape` take: elements times bits, rounded up to whole bytes.
/// @error unknown_name: no such type; too_large: more than 2^40 elements
Result<std::size_t> tensor_size(std::string_view type, const Shape& shape);
/// The same in bits, not rounded.
Result<std::uint64_t> tensor_bits(std::string_view type, const Shape& shape);

namespace detail {
template <class T>
struct TensorTypeOf;
template <>
struct TensorTypeOf<float> {
  static constexpr std::string_view value = "float32";
};
template <>
struct TensorTypeOf<double> {
  static constexpr std::string_view value = "float64";
};
template <>
struct TensorTypeOf<std::uint32_t> {
  static constexpr std::string_view value = "u32";
};
template <>
struct TensorTypeOf<std::uint64_t> {
  static constexpr std::string_view value = "u64";
};
template <>
struct TensorTypeOf<std::byte> {
  static constexpr std::string_view value = "bytes";
};
}  // namespace detail

/// A tensor over `values` (float, double, uint32_t, uint64_t or byte), which must outlive it.
template <class T>
Tensor make_tensor(std::string name, Shape shape, std::span<const T> values) {
  return {std::move(name), std::string(detail::TensorTypeOf<T>::value), std::move(shape), std::as_bytes(values)};
}
/// One dimension, as long as `values`.
template <class T>
Tensor make_tensor(std::string name, std::span<const T> values) {
  return make_tensor(std::move(name), Shape{values.size()}, values);
}

/// A file of named tensors for reading, whatever its format.
/// @thread any: immutable
class TensorFile {
 public:
  virtual ~TensorFile() = default;

  /// Names, types and shapes in file order. The bytes of one that is packed may have to be asked for by `find`.
  virtual const std::vector<Tensor>& tensors() const noexcept = 0;
  virtual bool contains(std::string_view name) const noexcept = 0;
  /// The tensor as it is in `tensors`. @error not_found
  virtual Result<Tensor> describe(std::string_view name) const = 0;
  /// The tensor with its bytes, 64-byte aligned; they live as long as the file. @error not_found; as unpacking
  virtual Result<Tensor> find(std::string_view name) const = 0;
  /// Hands the bytes of a tensor to `sink` in order, in parts of a multiple of `unit` bytes (the last one: what is
  /// left), about 1 MiB each where `unit` is smaller; gives back the memory of what was read.
  /// @error not_found; what the sink failed with
  virtual Status read(std::string_view name, std::size_t unit, const ByteSource::Sink& sink) const = 0;
  /// Gives back the memory of a tensor's pages for now; they are read again when needed.
  virtual void forget(std::string_view name) const noexcept = 0;
  /// @error storage: a page could not be read and was taken as zeros (MappedFile)
  virtual Status intact() const = 0;

  /// All tensors, to be written into another file: large ones are read part by part as they are produced.
  std::vector<Tensor> streamed() const;
  /// @error not_found; shape_mismatch: another type or shape
  Status check(std::string_view name, std::string_view type, const Shape& shape) const;
  /// The elements of tensor `name`, which must have T's type and `shape`.
  /// @error not_found; shape_mismatch
  template <class T>
  Result<std::span<const T>> values(std::string_view name, const Shape& shape) const {
    WEFT_TRY(const ByteSpan bytes, checked(name, detail::TensorTypeOf<T>::value, &shape));
    return std::span<const T>(reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T));
  }
  /// The elements of tensor `name` in whatever shape they have.
  template <class T>
  Result<std::span<const T>> values(std::string_view name) const {
    WEFT_TRY(const ByteSpan bytes, checked(name, detail::TensorTypeOf<T>::value, nullptr));
    return std::span<const T>(reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T));
  }

 protected:
  TensorFile() = default;
  TensorFile(const TensorFile&) = default;
  TensorFile(TensorFile&&) noexcept = default;
  TensorFile& operator=(const TensorFile&) = default;
  TensorFile& operator=(TensorFile&&) noexcept = default;

 private:
  Result<ByteSpan> checked(std::string_view name, std::string_view type, const Shape* shape) const;
};

/// Hands what `produce` makes on to `sink`, in parts of a multiple of `unit` bytes; the last one is what is left.
Status whole_units(const ByteSource::Produce& produce, std::size_t unit, const ByteSource::Sink& sink);
/// Parts of `bytes`, multiples of `unit` and about `wanted` bytes long.
Status each_part(ByteSpan bytes, std::size_t unit, const ByteSource::Sink& sink,
                 std::size_t wanted = std::size_t{1} << 20);

}  // namespace weft::formats
