// SPDX-License-Identifier: Apache-2.0

#include "mesh/runtime/command.hpp"

#include <array>
#include <bit>

namespace weft::mesh {
namespace {
constexpr std::array<std::string_view, kCommandKindCount> kNames{
    "enable", "disable", "set_period", "set_weights", "reset", "probe", "snapshot", "morph", "set_rate"};
}  // namespace

std::string_view name(CommandKind kind) noexcept {
  const auto row = static_cast<std::size_t>(kind);
  return row < kNames.size() ? kNames[row] : "unknown";
}

std::uint64_t Command::encoding_word(const Encoding& encoding) noexcept {
  return static_cast<std::uint64_t>(encoding.dtype) | static_cast<std::uint64_t>(encoding.granularity) << 8;
}

std::optional<Encoding> Command::read_encoding(std::uint64_t word) noexcept {
  if ((word & 0xff) >= kDtypeCount || word >> 8 >= std::size(kGranularities)) return std::nullopt;
  const Encoding encoding(static_cast<Dtype>(word & 0xff), static_cast<Granularity>(word >> 8));
  return check_granularity(encoding.dtype, encoding.granularity) ? std::optional(encoding) : std::nullopt;
}

std::uint64_t Command::value_word(float value) noexcept { return std::bit_cast<std::uint32_t>(value); }

std::optional<float> Command::read_value(std::uint64_t word) noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(word));
}

}  // namespace weft::mesh
