// SPDX-License-Identifier: Apache-2.0
// Matrices as codes: DequantizeLinear of them, and products with inputs as int8.

#include "models/carriers.hpp"
#include "models/onnx/internal/layer_forms.hpp"

#include "mesh/mesh_access.hpp"
#include "mesh/weights/weight_store.hpp"

#include "kernels/quantize_rows.hpp"

#include "core/numeric.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
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
  Activations activations() const {
    const mesh::WeightStore::Parameter& parameter = mesh::MeshAccess::weights(*mesh).parameters()[index];
    return parameter.spec->own.activations.value_or(mesh->graph().nodes()[parameter.node].activations);
  }
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
  std::vector<float> scales() const { return by_group(ordered_scales()); }
  /// Those of binary16 as float32: a scale's type is that of the values, which binary16 would round.
  std::vector<float> ordered_scales() const {
    const auto arrays = weight().ordered();
    const auto read = [&]<class Stored>(Stored, auto widened) {
      std::vector<Stored> stored(arrays.scales.size() / sizeof(Stored));
      std::memcpy(stored.data(), arrays.scales.data(), arrays.scales.size());
      std::vector<float> values(stored.size());
      std::transform(stored.begin(), stored.end(), values.begin(), widened);
      return values;
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
  /// Whole numbers that the codes are, [in][out]; of blocks times their scales, each product rounded once.
  std::vector<float> numbers() const {
    const auto arrays = weight().ordered();
    std::vector<std::uint8_t> own(out * in);
    unpack_codes({arrays.codes.data(), arrays.codes.size()}, bits(encoding.dtype), 0, own);
    const bool has_blocks = is_block(encoding.granularity);
    const std::vector<float> factors = has_blocks ? ordered_scales() : std::vector<float>();
    const int half = 1 << (bits(encoding.dtype) - 1);
    std::vector<float> values(own.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::size_t group = has_blocks ? i / in * groups() + i % in / kScaleBlock
                                : encoding.granularity == Granularity::channel ? i / in
                                                                               : 0;
      const int code = own[i];
      const int number = has_zero_point(encoding.dtype) ? code - std::to_integer<int>(arrays.zero_points[group])
                         : bits(encoding.dtype) == 1    ? 2 * code - 1
                                                        : (code ^ half) - half;
      values[i % in * out + i / in] = static_cast<float>(number) * (has_blocks ? factors[group] : 1.0f);
    }
    return values;
  }
  Shape scale_shape() const {
    if (encoding.granularity == Granularity::tensor) return {};
    if (encoding.granularity == Granularity::channel) return {out};
    return is_transposed ? Shape{groups(), out} : Shape{out, groups()};
  }
};

/// The codes of a parameter; nothing: it has none.
std::optional<StoredMatrix> find_stored(const std::shared_ptr<const mesh::Mesh>& mesh, const LayerSite& site,
                                        std::string_view parameter) {
  const mesh::WeightStore& weights = mesh::MeshAccess::weights(*mesh);
  const std::string wanted = site.prefix + std::string(parameter);
  for (std::size_t i = 0; i < weights.parameters().size(); ++i) {
    const mesh::ParameterSpec& spec = *weights.parameters()[i].spec;
    if (weights.parameters()[i].node == site.node && spec.name == wanted && spec.in != 0 && weights.stored(i))
      return StoredMatrix{mesh, i, spec.out, spec.in, weights.encoding_of(i)};
  }
  return std::nullopt;
}

}  // namespace

std::string LayerForms::stored_matrix(const LayerSite& site, std::string_view parameter, const Shape& shape,
                                      bool is_transposed) {
  const auto found = find_stored(mesh_, site, parameter);
  if (!found || shape.size() != 2) return "";
  StoredMatrix matrix = *found;
  matrix.is_transposed = is_transposed;
  if (!stores_codes(site, parameter)) return "";
  if (shape != (is_transposed ? Shape{matrix.in, matrix.out} : Shape{matrix.out, matrix.in})) return "";
  const std::string own = site.name + "." + std::string(parameter) + (is_transposed ? ".T" : "");
  const auto [at, is_new] = stored_.emplace(own, "");
  if (!is_new) return at->second;
  const Dtype dtype = matrix.encoding.dtype;
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

bool LayerForms::stores_codes(const LayerSite& site, std::string_view parameter) const {
  constexpr Dtype kStored[] = {Dtype::int8, Dtype::uint8, Dtype::int4, Dtype::uint4};
  const auto stored = find_stored(mesh_, site, parameter);
  return stored && std::find(std::begin(kStored), std::end(kStored), stored->encoding.dtype) != std::end(kStored);
}

bool LayerForms::sums_integers(const LayerSite& site, std::string_view parameter) const {
  const auto stored = find_stored(mesh_, site, parameter);
  return stored && has_integer_kernel(stored->encoding.dtype) && stored->activations() != Activations::float32;
}

void LayerForms::note_float_inputs(const LayerSite& site, std::string_view parameter, const char* what) {
  if (sums_integers(site, parameter))
    notes_.push_back(site.name + ": " + site.spec.type + " takes its " + what +
                     " as int8; the ONNX graph does as float32");
}

const LayerForms::CodedInputs& LayerForms::coded_inputs(const Written& x, std::size_t in_block, float least) {
  const auto [at, is_new] = coded_.try_emplace({x.name, least});
  CodedInputs& made = at->second;
  if (!is_new) return made;
  const std::size_t width = x.shape.back(), blocks = (width + in_block - 1) / in_block;
  Shape shape = x.shape;
  shape.back() = blocks * in_block;
  Written in = x;
  if (shape != x.shape) {
    std::vector<std::int64_t> pads(2 * (shape.size() + 1), 0);
    pads.back() = static_cast<std::int64_t>(shape.back() - width);
    in = {to_.node("Pad", {x.name, to_.integers(std::move(pads))}), shape};
  }
  if (blocks > 1) {
    Shape parts = shape;
    parts.back() = blocks;
    parts.push_back(in_block);
    in = to_.reshaped(in, std::move(parts));
  }
  const Written largest = to_.binary("Max", reduced("ReduceMax", to_.unary("Abs", in)), to_.number(least));
  const std::string factor = to_.node("Div", {to_.number(127), largest.name}),
                    step = to_.node("Div", {largest.name, to_.number(127)});
  const Written codes = to_.unary("Round", to_.binary("Mul", in, factor));
  if (blocks == 1) return made = {codes, step};
  Written back = to_.reshaped(to_.binary("Mul", codes, step), shape);
  if (shape != x.shape)
    back = {to_.node("Slice", {back.name, to_.integers({0}), to_.integers({static_cast<std::int64_t>(width)}),
                               to_.integers({-1})}),
            x.shape};
  return made = {back, ""};
}

// Of one scale a row, sums are those of whole numbers: the same in any order as long as they stay below 2^24.
Written LayerForms::coded_product(const LayerSite& site, const Written& x, std::string_view parameter) {
  const StoredMatrix matrix = *find_stored(mesh_, site, parameter);
  const bool is_row = matrix.activations() == Activations::int8_row;
  constexpr float kTiniest = 0x1p-100f;  // a block below has codes of 0
  const CodedInputs inputs = coded_inputs(x, is_row || matrix.in <= kScaleBlock ? matrix.in : kScaleBlock,
                                          is_row ? kernels::kLeastOfRow : kTiniest);
  const std::string own = site.name + "." + std::string(parameter);
  const bool has_rows = x.shape.size() == 1 && is_table(site, parameter);
  std::string weight = "";
  if (keeps_codes_)
    weight = stored_matrix(site, parameter, has_rows ? Shape{matrix.out, matrix.in} : Shape{matrix.in, matrix.out},
                           !has_rows);
  const bool has_scales_behind = weight.empty() && !is_block(matrix.encoding.granularity);
  if (weight.empty())
    weight = to_.weight(own + (has_scales_behind ? ".numbers" : ".T"), {matrix.in, matrix.out},
                        [matrix] { return matrix.numbers(); });
  Shape shape = x.shape;
  shape.back() = matrix.out;
  Written y{has_rows ? to_.node("Gemm", {inputs.values.name, weight}, {{"transB", std::int64_t{1}}})
                     : to_.node("MatMul", {inputs.values.name, weight}),
            shape};
  if (!inputs.step.empty()) y = to_.binary("Mul", y, inputs.step);
  if (!has_scales_behind) return y;
  return to_.binary("Mul", y, to_.weight(own + ".scales", matrix.scale_shape(), [matrix] { return matrix.scales(); }));
}

}  // namespace weft::models::onnx
