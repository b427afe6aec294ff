// SPDX-License-Identifier: Apache-2.0
// Matrices as DequantizeLinear of their codes.

#include "models/carriers.hpp"
#include "models/onnx/internal/layer_forms.hpp"

#include "mesh/mesh_access.hpp"
#include "mesh/weights/weight_store.hpp"

#include "core/numeric.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace weft::models::onnx {
namespace {

using Bytes = std::vector<std::uint8_t>;

/// A matrix [out][in] in file order, and the order that the graph has it in.
struct StoredMatrix {
  std::shared_ptr<const mesh::Mesh> mesh;
  std::size_t index = 0, out = 0, in = 0;
  Encoding encoding{};
  bool is_transposed = false;

  const mesh::QuantizedWeight& weight() const { return *mesh::MeshAccess::weights(*mesh).stored(index); }
  std::size_t groups() const noexcept { return (in + kScaleBlock - 1) / kScaleBlock; }
  /// Rows of columns, the other way round where the graph has them so.
  template <class T>
  std::vector<T> placed(const std::vector<T>& values, std::size_t columns) const {
    if (!is_transposed) return values;
    std::vector<T> made(values.size());
    const std::size_t rows = values.size() / columns;
    for (std::size_t i = 0; i < values.size(); ++i) made[i % columns * rows + i / columns] = values[i];
    return made;
  }
  Bytes packed(const Bytes& codes) const {
    const auto width = static_cast<std::size_t>(bits(encoding.dtype));
    Bytes made((codes.size() * width + 7) / 8, 0);
    pack_codes(codes, static_cast<int>(width), 0, std::as_writable_bytes(std::span(made)));
    return made;
  }
  Bytes codes() const {
    const auto arrays = weight().ordered();
    Bytes codes(out * in);
    unpack_codes({arrays.codes.data(), arrays.codes.size()}, bits(encoding.dtype), 0, codes);
    return packed(placed(codes, in));
  }
  /// Scales or zero points, which stand in the same places.
  template <class T>
  std::vector<T> by_group(std::vector<T> values) const {
    return is_block(encoding.granularity) ? placed(values, groups()) : values;
  }
  /// Those of binary16 as float32: a scale's type is that of the values, which binary16 would round.
  std::vector<float> scales() const {
    const auto arrays = weight().ordered();
    const auto read = [&]<class Stored>(Stored, auto widened) {
      std::vector<Stored> stored(arrays.scales.size() / sizeof(Stored));
      std::memcpy(stored.data(), arrays.scales.data(), arrays.scales.size());
      std::vector<float> values(stored.size());
      std::transform(stored.begin(), stored.end(), values.begin(), widened);
      return by_group(std::move(values));
    };
    if (encoding.granularity == Granularity::block32_f16) return read(std::uint16_t{}, numeric::Float16::decode);
    return read(float{}, [](float scale) { return scale; });
  }
  Bytes zero_points() const {
    const auto arrays = weight().ordered();
    Bytes values(arrays.zero_points.size());
    std::memcpy(values.data(), arrays.zero_points.data(), values.size());
    return packed(by_group(std::move(values)));
  }
  Shape scale_shape() const {
    if (encoding.granularity == Granularity::tensor) return {};
    if (encoding.granularity == Granularity::channel) return {out};
    return is_transposed ? Shape{groups(), out} : Shape{out, groups()};
  }
};

}  // namespace

std::string LayerForms::stored_matrix(const LayerSite& site, std::string_view parameter, const Shape& shape,
                                      bool is_transposed) {
  const mesh::WeightStore& weights = mesh::MeshAccess::weights(*mesh_);
  const std::string wanted = site.prefix + std::string(parameter);
  StoredMatrix matrix{mesh_};
  const mesh::ParameterSpec* spec = nullptr;
  for (std::size_t i = 0; i < weights.parameters().size(); ++i)
    if (weights.parameters()[i].node == site.node && weights.parameters()[i].spec->name == wanted)
      matrix.index = i, spec = weights.parameters()[i].spec;
  if (!spec || spec->in == 0 || shape.size() != 2 || !weights.stored(matrix.index)) return "";
  matrix.out = spec->out, matrix.in = spec->in, matrix.is_transposed = is_transposed;
  matrix.encoding = weights.encoding_of(matrix.index);
  const Dtype dtype = matrix.encoding.dtype;
  if (dtype != Dtype::int8 && dtype != Dtype::uint8 && dtype != Dtype::int4 && dtype != Dtype::uint4) return "";
  if (shape != (is_transposed ? Shape{matrix.in, matrix.out} : Shape{matrix.out, matrix.in})) return "";
  const std::string own = site.name + "." + std::string(parameter) + (is_transposed ? ".T" : "");
  const auto [at, is_new] = stored_.emplace(own, "");
  if (!is_new) return at->second;
  const std::string type(name(dtype));
  std::vector<std::string> inputs{
      to_.codes(own + ".codes", type, shape, [matrix] { return matrix.codes(); }),
      to_.weight(own + ".scales", matrix.scale_shape(), [matrix] { return matrix.scales(); })};
  if (has_zero_point(dtype))
    inputs.push_back(to_.codes(own + ".zeros", type, matrix.scale_shape(), [matrix] { return matrix.zero_points(); }));
  const bool is_blocked = is_block(matrix.encoding.granularity);
  GraphWriter::Attributes attributes{{"axis", std::int64_t{is_blocked != is_transposed}}};
  if (is_blocked) attributes.emplace_back("block_size", static_cast<std::int64_t>(kScaleBlock));
  return at->second = to_.node("DequantizeLinear", std::move(inputs), std::move(attributes));
}

}  // namespace weft::models::onnx
