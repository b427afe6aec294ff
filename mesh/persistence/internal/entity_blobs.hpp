// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/graph.hpp"
#include "mesh/network/layer.hpp"

#include "kernels/weight_layout.hpp"

#include "core/encoding.hpp"

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

/// Names shared by the writer and the reader of a mesh's .entity file (docs/formats/entity.md).
namespace weft::mesh::internal {

std::string weight_name(const Node& node, const ParameterSpec& parameter);
std::string session_name(std::size_t session);
Shape weight_shape(const ParameterSpec& parameter);
Shape scale_shape(const Encoding& encoding, const ParameterSpec& spec);
/// float64, float32 or float16.
std::string_view scale_type(const Encoding& encoding);

/// One array of a matrix in another type than float32. Files are written and read by the rows of `kStoredArrays`.
struct StoredArray {
  std::string_view suffix;  // of its blob's name
  bool (*is_in)(Dtype);
  std::string_view (*type)(const Encoding&);
  Shape (*shape)(const Encoding& encoding, const ParameterSpec& spec);
  std::span<std::byte> kernels::OrderedWeight::*array;
  std::size_t kernels::WeightBytes::*size;
};
extern const std::array<StoredArray, 3> kStoredArrays;

}  // namespace weft::mesh::internal
