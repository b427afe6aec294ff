// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/size_limit.hpp"

#include <cstddef>
#include <cstdint>
#include <string_view>

/// Layout shared by the writer and the reader of `.gguf` files (docs/formats/gguf.md).
namespace weft::formats::gguf {

inline constexpr std::string_view kMagic = "GGUF";
inline constexpr std::uint32_t kVersion = 3, kOldestVersion = 2;
inline constexpr std::size_t kMaxPairs = 65'536, kMaxTensors = std::size_t{1} << 20;
inline constexpr std::size_t kMaxKeySize = std::size_t{64} << 10, kMaxTextSize = std::size_t{64} << 20;
inline constexpr std::size_t kMaxElements = std::size_t{1} << 26, kMaxArrayBytes = std::size_t{1} << 30;
inline constexpr std::size_t kMaxNameSize = 63, kMaxRank = 4;
inline constexpr std::size_t kMaxFileSize = size_limit(46);
inline constexpr std::string_view kAlignmentKey = "general.alignment";
inline constexpr std::uint32_t kDefaultAlignment = 32, kLeastAlignment = 8, kMostAlignment = 65'536;
/// Type numbers of values.
inline constexpr std::size_t kTextType = 8, kArrayType = 9;

constexpr std::size_t aligned(std::size_t size, std::size_t alignment) {
  return (size + alignment - 1) / alignment * alignment;
}
constexpr bool is_alignment(std::uint64_t value) {
  return value >= kLeastAlignment && value <= kMostAlignment && (value & (value - 1)) == 0;
}

}  // namespace weft::formats::gguf
