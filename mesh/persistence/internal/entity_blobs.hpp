// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/graph.hpp"
#include "mesh/network/layer.hpp"

#include "core/encoding.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

/// Names shared by the writer and the reader of a mesh's .entity file (docs/formats/entity.md).
namespace weft::mesh::internal {

/// u64 words of a cell and of a command in `state/cells`, before what varies in length.
inline constexpr std::size_t kCellWords = 10, kCommandWords = 7;

std::string weight_name(const Node& node, const ParameterSpec& parameter);
std::string session_name(std::size_t session);
Shape weight_shape(const ParameterSpec& parameter);
/// Type in the low byte, granularity above it.
std::uint64_t encoding_word(const Encoding& encoding);
std::optional<Encoding> read_encoding(std::uint64_t word);
std::string_view scale_type(Dtype dtype);
/// Zero points are as wide as the codes, a byte at least.
std::string_view zero_type(Dtype dtype);
Shape scale_shape(const Encoding& encoding, const ParameterSpec& spec);

}  // namespace weft::mesh::internal
