// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/result.hpp"
#include "core/shape.hpp"
#include "core/size_limit.hpp"

#include <cstddef>
#include <cstdint>
#include <string_view>

/// Layout shared by the writer and the reader of `.safetensors` files (docs/formats/safetensors.md).
namespace weft::formats::safetensors {

inline constexpr std::size_t kLengthSize = 8;
inline constexpr std::size_t kMaxHeaderSize = 100'000'000;
inline constexpr std::size_t kMaxTensors = std::size_t{1} << 20;
inline constexpr std::size_t kMaxRank = 8;
inline constexpr std::size_t kMaxNameSize = 512;
inline constexpr std::uint64_t kMaxExtent = std::uint64_t{1} << 53;
inline constexpr std::size_t kMaxFileSize = size_limit(46);
inline constexpr std::string_view kNotesKey = "__metadata__";
/// The note of types that the format has no word for.
inline constexpr std::string_view kOwnNote = "weft";

struct Type {
  std::string_view name;  // in the file
  std::string_view type;  // of a Tensor
  unsigned bits;          // of an element
};
/// In the order in which the reference writer sorts tensors.
inline constexpr Type kTypes[] = {{"U64", "uint64", 64},
                                  {"I64", "int64", 64},
                                  {"F64", "float64", 64},
                                  {"C64", "C64", 64},
                                  {"F32", "float32", 32},
                                  {"U32", "uint32", 32},
                                  {"I32", "int32", 32},
                                  {"BF16", "bfloat16", 16},
                                  {"F16", "float16", 16},
                                  {"U16", "uint16", 16},
                                  {"I16", "int16", 16},
                                  {"F8_E5M2FNUZ", "F8_E5M2FNUZ", 8},
                                  {"F8_E4M3FNUZ", "F8_E4M3FNUZ", 8},
                                  {"F8_E8M0", "F8_E8M0", 8},
                                  {"F8_E4M3", "fp8_e4m3", 8},
                                  {"F8_E5M2", "fp8_e5m2", 8},
                                  {"I8", "int8", 8},
                                  {"U8", "uint8", 8},
                                  {"F6_E3M2", "F6_E3M2", 6},
                                  {"F6_E2M3", "F6_E2M3", 6},
                                  {"F4", "fp4", 4},
                                  {"BOOL", "BOOL", 8}};

/// Null where there is none.
const Type* find_type_by_name(std::string_view name) noexcept;
/// Of a Tensor's type; U8 for types that are carried as bytes, null for those that nobody knows.
const Type* find_type(std::string_view type) noexcept;
/// Type of tensors that the file holds as U8 and the note "weft" names.
bool is_own_type(std::string_view type) noexcept;

/// Bytes of a tensor. @error too_large, corrupt: extents that overflow, elements that fill no whole byte
Result<std::size_t> size_of(const Shape& shape, unsigned bits);
Status check_name(std::string_view name);

}  // namespace weft::formats::safetensors
