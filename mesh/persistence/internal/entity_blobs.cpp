// SPDX-License-Identifier: Apache-2.0

#include "mesh/persistence/internal/entity_blobs.hpp"

#include "kernels/weight.hpp"

namespace weft::mesh::internal {

std::string weight_name(const Node& node, const ParameterSpec& parameter) {
  const Coord at = node.at;
  return "weights/" + std::to_string(at.z) + "," + std::to_string(at.y) + "," + std::to_string(at.x) + "," +
         std::to_string(at.l) + "/" + parameter.name;
}

std::string session_name(std::size_t session) { return "state/session/" + std::to_string(session); }

Shape weight_shape(const ParameterSpec& parameter) {
  return parameter.is_matrix() ? Shape{parameter.out, parameter.in} : Shape{parameter.out};
}

std::uint64_t encoding_word(const Encoding& encoding) {
  return static_cast<std::uint64_t>(encoding.dtype) | static_cast<std::uint64_t>(encoding.granularity) << 8;
}
std::optional<Encoding> read_encoding(std::uint64_t word) {
  if ((word & 0xff) >= kDtypeCount || word >> 8 > static_cast<std::uint64_t>(Granularity::block32)) return std::nullopt;
  return Encoding(static_cast<Dtype>(word & 0xff), static_cast<Granularity>(word >> 8));
}

std::string_view scale_type(Dtype dtype) { return kernels::has_double_scale(dtype) ? "float64" : "float32"; }
std::string_view zero_type(Dtype dtype) { return name(bits(dtype) < 8 ? Dtype::uint8 : dtype); }
Shape scale_shape(const Encoding& encoding, const ParameterSpec& spec) {
  switch (encoding.granularity) {
    case Granularity::tensor:
      return {1};
    case Granularity::channel:
      return {spec.out};
    case Granularity::block32:
      return {spec.out, (spec.in + kScaleBlock - 1) / kScaleBlock};
  }
  return {};
}

}  // namespace weft::mesh::internal
