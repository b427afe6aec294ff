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

Shape scale_shape(const Encoding& encoding, const ParameterSpec& spec) {
  switch (encoding.granularity) {
    case Granularity::tensor:
      return {1};
    case Granularity::channel:
      return {spec.out};
    case Granularity::block32:
    case Granularity::block32_f16:
      return {spec.out, (spec.in + kScaleBlock - 1) / kScaleBlock};
  }
  return {};
}

std::string_view scale_type(const Encoding& encoding) {
  const std::size_t bytes = kernels::scale_bytes(encoding);
  return name(bytes == sizeof(double) ? Dtype::float64 : bytes == sizeof(float) ? Dtype::float32 : Dtype::float16);
}

constexpr std::array<StoredArray, 3> kStoredArrays{{
    {"", [](Dtype) { return true; }, [](const Encoding& encoding) { return name(encoding.dtype); },
     [](const Encoding&, const ParameterSpec& spec) { return weight_shape(spec); }, &kernels::OrderedWeight::codes,
     &kernels::WeightBytes::codes},
    {".scales", [](Dtype dtype) { return has_scale(dtype); }, scale_type, scale_shape, &kernels::OrderedWeight::scales,
     &kernels::WeightBytes::scales},
    // As wide as the codes, a byte at least.
    {".zero_points", [](Dtype dtype) { return has_zero_point(dtype); },
     [](const Encoding& encoding) { return name(bits(encoding.dtype) < 8 ? Dtype::uint8 : encoding.dtype); },
     scale_shape, &kernels::OrderedWeight::zero_points, &kernels::WeightBytes::zero_points},
}};

}  // namespace weft::mesh::internal
