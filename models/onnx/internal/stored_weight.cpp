// SPDX-License-Identifier: Apache-2.0

#include "models/onnx/internal/stored_weight.hpp"

#include "models/carriers.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

namespace weft::models::onnx {
namespace {

bool is_signed(const QuantizedMatrix& matrix) { return matrix.type == "int8" || matrix.type == "int4"; }
int bits_of(const QuantizedMatrix& matrix) { return bits(*parse_dtype(matrix.type)); }

}  // namespace

std::optional<Encoding> stored_encoding(const Weight& weight) {
  const QuantizedMatrix* const matrix = weight.values.quantized.get();
  if (!matrix || weight.values.shape.size() != 2) return std::nullopt;
  const auto is_normal = [](float scale) { return std::isnormal(scale) && scale > 0; };
  if (!std::all_of(matrix->scales.begin(), matrix->scales.end(), is_normal)) return std::nullopt;
  const std::size_t outputs = weight.is_transposed ? 1 : 0;
  Granularity granularity = Granularity::tensor;
  if (matrix->scales.size() > 1) {
    const bool is_channel = matrix->block == 0 && matrix->axis == outputs,
               is_block = matrix->block == kScaleBlock && matrix->axis != outputs;
    if (!is_channel && !is_block) return std::nullopt;
    granularity = is_channel ? Granularity::channel : Granularity::block32;
  }
  if (bits_of(*matrix) < 4) return Encoding(*parse_dtype(matrix->type), granularity);
  const auto lowest = static_cast<std::int16_t>(-(1 << (bits_of(*matrix) - 1)));
  const bool keeps_sign =
      is_signed(*matrix) &&
      std::all_of(matrix->zero_points.begin(), matrix->zero_points.end(), [](auto z) { return z == 0; }) &&
      std::find(matrix->codes.begin(), matrix->codes.end(), lowest) == matrix->codes.end();
  if (bits_of(*matrix) == 8) return Encoding(keeps_sign ? Dtype::int8 : Dtype::uint8, granularity);
  return Encoding(keeps_sign ? Dtype::int4 : Dtype::uint4, granularity);
}

std::optional<Encoding> stored_encoding(const std::map<std::string, Weight>& weights, bool& lost) {
  std::optional<Encoding> common;
  std::optional<Activations> inputs;
  bool is_one = true, has_codes = false;
  for (const auto& [name, weight] : weights) {
    if (weight.values.shape.size() < 2) continue;
    const auto own = stored_encoding(weight);
    has_codes |= weight.values.quantized != nullptr;
    is_one &= own && (!common || *common == *own);
    common = own;
    if (const auto& codes = weight.values.quantized) {
      is_one &= !inputs || *inputs == codes->inputs;
      inputs = codes->inputs;
    }
  }
  lost = has_codes && !(is_one && common);
  return is_one ? common : std::nullopt;
}

Status read_codes(const Weight& weight, const mesh::ParameterCodes& wanted) {
  const QuantizedMatrix& matrix = *weight.values.quantized;
  const Encoding encoding = wanted.node.encoding_of(wanted.spec);
  const std::size_t in = wanted.spec.in, out = wanted.spec.out, groups = (in + kScaleBlock - 1) / kScaleBlock;
  // From a signed type to the unsigned one.
  const int moved = is_signed(matrix) && has_zero_point(encoding.dtype) ? 1 << (bits_of(matrix) - 1) : 0;
  const auto set_scale = [&](std::size_t at, std::size_t from) {
    std::memcpy(wanted.to.scales.data() + at * sizeof(float), &matrix.scales[from], sizeof(float));
    if (has_zero_point(encoding.dtype))
      wanted.to.zero_points[at] = static_cast<std::byte>(matrix.zero_points[from] + moved);
  };
  std::fill(wanted.to.codes.begin(), wanted.to.codes.end(), std::byte{0});
  std::vector<std::uint8_t> codes(in);
  for (std::size_t i = 0; i < wanted.rows; ++i) {
    const std::size_t row = wanted.first + i;
    for (std::size_t k = 0; k < in; ++k)
      codes[k] = static_cast<std::uint8_t>(matrix.codes[weight.is_transposed ? k * out + row : row * in + k] + moved);
    for (std::uint8_t& code : codes) code = bits_of(matrix) == 1 ? code == 1 : code & (255 >> (8 - bits_of(matrix)));
    pack_codes(codes, bits_of(matrix), i * in, wanted.to.codes);
    if (encoding.granularity == Granularity::channel) set_scale(i, row);
    if (encoding.granularity == Granularity::block32)
      for (std::size_t g = 0; g < groups; ++g)
        set_scale(i * groups + g, matrix.scales.size() == 1 ? 0
                                  : weight.is_transposed    ? g * out + row
                                                            : row * groups + g);
  }
  if (encoding.granularity == Granularity::tensor) set_scale(0, 0);
  return {};
}

}  // namespace weft::models::onnx
