// SPDX-License-Identifier: Apache-2.0

#include "models/internal/planned_tensor.hpp"

#include "models/carriers.hpp"

#include "mesh/mesh.hpp"
#include "mesh/mesh_access.hpp"
#include "mesh/weights/weight_store.hpp"

#include "formats/gguf/gguf_blocks.hpp"
#include "formats/gguf/gguf_quantize.hpp"

#include "core/numeric.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

namespace weft::models::internal {
namespace {

using mesh::WeightStore;

const WeightStore& weights_of(const mesh::Mesh& mesh) { return mesh::MeshAccess::weights(mesh); }

/// A matrix in a quantized type, a row at a time.
class CodedMatrix {
 public:
  CodedMatrix(const WeightStore& weights, const WeightStore::Parameter& parameter, std::size_t index)
      : encoding_(weights.encoding_of(index)),
        out_(parameter.spec->out),
        in_(parameter.spec->in),
        arrays_(weights.stored(index)->ordered()),
        codes_(in_),
        scales_(groups()),
        zero_points_(has_zero_point(encoding_.dtype) ? groups() : 0) {}

  std::size_t rows() const noexcept { return out_; }
  /// With a scale a block of 32, whatever the granularity.
  CodeRow row(std::size_t o) {
    unpack_codes({arrays_.codes.data(), arrays_.codes.size()}, bits(encoding_.dtype), o * in_, codes_);
    for (std::size_t g = 0; g < groups(); ++g) {
      const std::size_t at = is_block(encoding_.granularity)                 ? o * groups() + g
                             : encoding_.granularity == Granularity::channel ? o
                                                                             : 0;
      scales_[g] = scale_at(at);
      if (!zero_points_.empty()) zero_points_[g] = std::to_integer<std::uint8_t>(arrays_.zero_points.data()[at]);
    }
    return {codes_, scales_, zero_points_};
  }

 private:
  float scale_at(std::size_t i) const noexcept {
    if (encoding_.granularity == Granularity::block32_f16) {
      std::uint16_t half = 0;
      std::memcpy(&half, arrays_.scales.data() + i * sizeof half, sizeof half);
      return numeric::Float16::decode(half);
    }
    float scale = 0;
    std::memcpy(&scale, arrays_.scales.data() + i * sizeof scale, sizeof scale);
    return scale;
  }
  std::size_t groups() const noexcept { return (in_ + kScaleBlock - 1) / kScaleBlock; }

  Encoding encoding_;
  std::size_t out_, in_;
  mesh::QuantizedWeight::Ordered arrays_;
  std::vector<std::uint8_t> codes_;
  std::vector<float> scales_;
  std::vector<std::uint8_t> zero_points_;
};

/// The writer of blocks for a parameter; scales of other granularities are repeated. Null: there is none.
const BlockWriter* writer_of(const WeightStore& weights, std::size_t parameter) {
  const Encoding encoding = weights.encoding_of(parameter);
  if (!weights.stored(parameter) || bits(encoding.dtype) > 8) return nullptr;
  return find_block_writer(Encoding(encoding.dtype, Granularity::block32));
}

/// Hands each row's place and blocks to `visit`; false where blocks cannot hold one.
template <class Visit>
bool each_block_row(const WeightStore& weights, const Slice& slice, std::size_t row_bytes, Visit&& visit) {
  const BlockWriter& writer = *writer_of(weights, slice.parameter);
  const WeightStore::Parameter& parameter = weights.parameters()[slice.parameter];
  CodedMatrix matrix(weights, parameter, slice.parameter);
  std::vector<std::byte> bytes(row_bytes);
  for (std::size_t o = 0; o < matrix.rows(); ++o) {
    if (!writer.write(matrix.row(o), bytes)) return false;
    visit(slice.layout.row_of(matrix.rows(), o), bytes);
  }
  return true;
}

std::size_t row_bytes(std::string_view type, std::size_t columns) {
  const formats::GgufType of = *formats::find_gguf_type(type);
  return columns / of.elements * of.bytes;
}

ByteBuffer blocks_of(const mesh::Mesh& mesh, const PlannedTensor& planned) {
  const std::size_t each = row_bytes(planned.type, planned.shape[1]);
  ByteBuffer bytes(planned.shape[0] * each);
  for (const Slice& slice : planned.slices)
    each_block_row(weights_of(mesh), slice, each, [&](std::size_t row, const std::vector<std::byte>& of_row) {
      std::copy(of_row.begin(), of_row.end(), bytes.begin() + static_cast<std::ptrdiff_t>(row * each));
    });
  return bytes;
}

ByteBuffer packed_ternary_of(const mesh::Mesh& mesh, const PlannedTensor& planned) {
  const std::size_t rows = planned.shape[0], columns = planned.shape[1];
  ByteBuffer bytes(rows * columns);
  const Slice& slice = planned.slices.front();
  const WeightStore& weights = weights_of(mesh);
  CodedMatrix matrix(weights, weights.parameters()[slice.parameter], slice.parameter);
  for (std::size_t o = 0; o < matrix.rows(); ++o) {
    const std::size_t row = slice.layout.row_of(matrix.rows(), o);
    const CodeRow codes = matrix.row(o);
    for (std::size_t k = 0; k < columns; ++k)
      bytes[row % rows * columns + k] |= std::byte(((codes.codes[k] + 1u) & 3u) << 2 * (row / rows));
  }
  return bytes;
}

/// True where the values of the only slice, as they are read, are the tensor's.
bool is_in_order(const PlannedTensor& tensor) {
  const TensorLayout& layout = tensor.slices.front().layout;
  return tensor.slices.size() == 1 && !layout.is_transposed && layout.paired_heads == 0 && layout.first_row == 0 &&
         layout.added == 0;
}

template <class Number>
bool holds_all(const std::vector<float>& values) {
  return std::all_of(values.begin(), values.end(),
                     [](float value) { return Number::decode(Number::encode(value)) == value; });
}

/// Hands on values in a type of 16 bits, some at a time. @error not_finite: a number past its largest
template <class Number>
Status write_codes(const std::vector<float>& values, std::string_view type, const ByteSource::Sink& sink) {
  constexpr std::size_t kAtOnce = std::size_t{1} << 19;
  std::vector<std::uint16_t> codes;
  for (std::size_t first = 0; first < values.size(); first += kAtOnce) {
    codes.resize(std::min(kAtOnce, values.size() - first));
    for (std::size_t i = 0; i < codes.size(); ++i) {
      codes[i] = Number::encode(values[first + i]);
      if (!std::isfinite(static_cast<float>(Number::decode(codes[i]))))
        return fail(Errc::not_finite, "value " + std::to_string(first + i) + " is " +
                                          std::to_string(values[first + i]) + ", past the largest " +
                                          std::string(type));
    }
    WEFT_CHECK(sink(std::as_bytes(std::span(codes))));
  }
  return {};
}

}  // namespace

std::vector<float> values_of(const mesh::Mesh& mesh, const PlannedTensor& tensor) {
  std::size_t count = 1;
  for (const std::size_t extent : tensor.shape) count *= extent;
  const WeightStore& weights = weights_of(mesh);
  if (is_in_order(tensor)) return weights.read(weights.parameters()[tensor.slices.front().parameter]);
  std::vector<float> values;
  const std::size_t columns = tensor.is_matrix() ? tensor.shape[1] : 1;
  for (const Slice& slice : tensor.slices) {
    const WeightStore::Parameter& parameter = weights.parameters()[slice.parameter];
    const std::vector<float> own = weights.read(parameter);
    values.resize(count);  // no sooner: reading takes a copy too
    const std::size_t out = parameter.spec->out, in = std::max<std::size_t>(parameter.spec->in, 1);
    for (std::size_t o = 0; o < out; ++o) {
      const std::size_t row = slice.layout.row_of(out, o);
      for (std::size_t k = 0; k < in; ++k)
        values[slice.layout.is_transposed ? k * columns + row : row * columns + k] =
            own[o * in + k] - slice.layout.added;
    }
  }
  return values;
}

std::optional<std::string_view> block_type(const mesh::Mesh& mesh, const PlannedTensor& tensor) {
  if (!tensor.is_matrix()) return std::nullopt;
  const WeightStore& weights = weights_of(mesh);
  std::optional<std::string_view> type;
  for (const Slice& slice : tensor.slices) {
    const BlockWriter* const writer = writer_of(weights, slice.parameter);
    if (!writer || slice.layout.is_transposed || slice.layout.added != 0 || (type && *type != writer->type) ||
        tensor.shape[1] % formats::find_gguf_type(writer->type)->elements != 0)
      return std::nullopt;
    type = writer->type;
    const auto pass = [](std::size_t, const std::vector<std::byte>&) {};
    if (!each_block_row(weights, slice, row_bytes(*type, tensor.shape[1]), pass)) return std::nullopt;
  }
  return type;
}

bool holds_values(std::string_view type, const std::vector<float>& values) {
  return type == "float16" ? holds_all<numeric::Float16>(values) : holds_all<numeric::Bfloat16>(values);
}

std::uint64_t bytes_to_write(const mesh::Mesh& mesh, const PlannedTensor& tensor) {
  std::uint64_t count = tensor.is_matrix() ? tensor.shape[1] : 1;
  count *= tensor.shape[0];
  // Codes, and their copy in the order of files.
  if (tensor.form != PlannedTensor::Form::values) return count / 4 * 9;
  // Values; those of a slice that is put into its place; what codes of a slice stand for, in panels.
  const bool is_stored = weights_of(mesh).stored(tensor.slices.front().parameter) != nullptr;
  const bool is_double = is_stored || !is_in_order(tensor);
  return (is_stored && tensor.slices.size() > 1 ? 3 : is_double ? 2 : 1) * count * sizeof(float);
}

Result<formats::Tensor> tensor_of(std::shared_ptr<const mesh::Mesh> mesh, const PlannedTensor& planned) {
  const bool is_encoded = planned.form == PlannedTensor::Form::values && planned.type != "float32" &&
                          planned.type != "float16" && planned.type != "bfloat16";
  formats::Tensor tensor{planned.name, is_encoded ? "float32" : planned.type, planned.shape, {}};
  tensor.produce = [mesh = std::move(mesh), planned, type = tensor.type](const ByteSource::Sink& sink) -> Status {
    if (planned.form == PlannedTensor::Form::blocks) return sink(blocks_of(*mesh, planned));
    if (planned.form == PlannedTensor::Form::packed_ternary) return sink(packed_ternary_of(*mesh, planned));
    const std::vector<float> values = values_of(*mesh, planned);
    if (type == "float32") return formats::each_part(std::as_bytes(std::span(values)), 4, sink);
    auto written = type == "float16" ? write_codes<numeric::Float16>(values, type, sink)
                                     : write_codes<numeric::Bfloat16>(values, type, sink);
    if (!written) return fail(std::move(written).error().within("tensor '" + planned.name + "'"));
    return written;
  };
  if (!is_encoded) return tensor;
  return formats::quantized(std::move(tensor), planned.type);
}

}  // namespace weft::models::internal
