// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "capi/internal/call.hpp"
#include "capi/weft.h"

#include "learning/learner.hpp"

#include "mesh/mesh.hpp"

#include "core/bytes.hpp"
#include "core/coord.hpp"
#include "core/result.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weft::capi {

inline Coord coord_of(weft_coord at) noexcept { return {at.z, at.y, at.x, at.layer}; }

/// @error invalid_argument: NULL
Result<std::string_view> text_of(const char* text, std::string_view what);
/// The text, or nothing for NULL.
inline std::string text_or_empty(const char* text) { return text ? text : ""; }

/// @error invalid_argument: NULL with a count, an address that no array of T has, more than there can be
Status check_array(const void* data, std::size_t count, std::size_t unit, std::size_t alignment, std::string_view what);
template <class T>
Result<std::span<T>> array_of(T* data, std::size_t count, std::string_view what) {
  WEFT_CHECK(check_array(data, count, sizeof(T), alignof(T), what));
  return std::span<T>(data, count);
}
Result<ByteSpan> bytes_of(const void* data, std::size_t count, std::string_view what);

/// A caller's struct, of whichever version: fields that it lacks are 0.
/// @error invalid_argument: `size` is not set; unsupported: a field is set that this library does not know
Status read_struct(const void* given, void* own, std::size_t size, std::string_view what);
template <class T>
Result<T> struct_of(const T* given, std::string_view what) {
  T own{};
  WEFT_CHECK(read_struct(given, &own, sizeof(T), what));
  return own;
}

/// A list that takes no memory while it is short.
template <class T>
class ShortList {
 public:
  explicit ShortList(std::size_t size) : size_(size) {
    if (size > few_.size()) many_.resize(size);
  }
  T& operator[](std::size_t i) noexcept { return many_.empty() ? few_[i] : many_[i]; }
  std::span<const T> span() const noexcept { return {many_.empty() ? few_.data() : many_.data(), size_}; }

 private:
  std::array<T, 8> few_{};
  std::vector<T> many_;
  std::size_t size_;
};

Result<ShortList<mesh::RunInput>> inputs_of(const weft_input* inputs, std::size_t count);
Result<ShortList<mesh::RunOutput>> outputs_of(const weft_output* outputs, std::size_t count);
Result<ShortList<learning::Target>> targets_of(const weft_target* targets, std::size_t count);

/// Bytes from one element to the next of a caller's array of structs, which the first one's `size` says; 0: no array.
/// @error invalid_argument: NULL with a capacity, a size that no such struct has, more than there can be
Result<std::size_t> stride_in(const void* array, std::size_t capacity, std::size_t alignment, std::string_view what);
template <class T>
Result<std::size_t> stride_of(const T* array, std::size_t capacity, std::string_view what) {
  return stride_in(array, capacity, alignof(T), what);
}

Result<mesh::MeshOptions> mesh_options_of(const weft_mesh_options* options);

/// Tells the caller how much there is, and copies it where it fits. An `out_needed` of NULL is for callers who know.
Outcome copy_out(const void* data, std::size_t count, std::size_t unit, void* buffer, std::size_t capacity,
                 std::size_t* out_needed);
template <class T>
Outcome copy_out(std::span<const T> values, T* buffer, std::size_t capacity, std::size_t* out_needed) {
  return copy_out(values.data(), values.size(), sizeof(T), buffer, capacity, out_needed);
}
/// The same of a text, and its 0.
Outcome copy_text(const std::string& text, char* buffer, std::size_t capacity, std::size_t* out_needed);
/// True when the caller asks for the size alone, or for what does not fit: `outcome` is the answer then.
bool is_size_only(std::size_t count, const void* buffer, std::size_t capacity, std::size_t* out_needed,
                  Outcome& outcome);

/// @error invalid_argument: NULL
Status check_out(const void* out, std::string_view what);

/// Fills as much of a caller's struct as its `size` says. @error invalid_argument: NULL, or `size` is not set
Status give_bytes(const void* own, void* out, std::size_t size, std::string_view what);
template <class T>
Status give_struct(const T& own, T* out, std::string_view what) {
  return give_bytes(&own, out, sizeof(T), what);
}

}  // namespace weft::capi
