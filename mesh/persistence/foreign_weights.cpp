// SPDX-License-Identifier: Apache-2.0

#include "mesh/persistence/foreign_weights.hpp"

#include "mesh/network/network_json.hpp"
#include "mesh/persistence/internal/entity_blobs.hpp"

#include "formats/entity/entity.hpp"

#include "kernels/float_environment.hpp"
#include "kernels/linear.hpp"
#include "kernels/quantize.hpp"
#include "kernels/weight_layout.hpp"

#include "core/aligned_buffer.hpp"
#include "core/json.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace weft::mesh {
namespace {

using namespace internal;
using formats::Tensor;

constexpr std::size_t kForeignPart = std::size_t{1} << 20;  // bytes of float32 values at once, about

/// One parameter of a network and where its values come from.
struct ForeignParameter {
  std::shared_ptr<const Graph> graph;
  NodeId node = 0;
  std::size_t index = 0;
  std::shared_ptr<const ReadParameter> read;
  std::shared_ptr<const ReadCodes> codes;

  const Node& owner() const { return graph->nodes()[node]; }
  const ParameterSpec& spec() const { return owner().layer->parameters()[index]; }

  /// Hands the values to `visit`, some rows at a time, a multiple of 16 but for the last ones.
  Status each_part(std::size_t at_once, const std::function<Status(std::size_t rows, std::span<float>)>& visit) const {
    const std::size_t out = spec().out, in = std::max<std::size_t>(spec().in, 1);
    AlignedBuffer<float> values(std::min(at_once, out) * in);
    for (std::size_t first = 0; first < out; first += at_once) {
      const std::size_t rows = std::min(at_once, out - first);
      const std::span<float> part(values.data(), rows * in);
      WEFT_CHECK((*read)({owner(), spec(), first, part}));
      const auto bad = std::find_if(part.begin(), part.end(), [](float value) { return !std::isfinite(value); });
      if (bad != part.end())
        return fail(Errc::not_finite, owner().object + " " + spec().name + ": weight " +
                                          std::to_string(first * in + static_cast<std::size_t>(bad - part.begin())) +
                                          " is " + std::to_string(*bad) + "; weights must be finite");
      WEFT_CHECK(visit(rows, part));
    }
    return {};
  }
  std::size_t rows_at_once() const {
    const std::size_t row = std::max<std::size_t>(spec().in, 1) * sizeof(float), panel = kernels::kPanelWidth;
    return std::max<std::size_t>(kForeignPart / (row * panel), 1) * panel;
  }
};

Tensor values_tensor(const ForeignParameter& parameter, std::string name) {
  Tensor tensor{std::move(name), "float32", weight_shape(parameter.spec()), {}};
  tensor.produce = [parameter](const ByteSource::Sink& sink) {
    return parameter.each_part(parameter.rows_at_once(),
                               [&](std::size_t, std::span<float> values) { return sink(std::as_bytes(values)); });
  };
  return tensor;
}

/// Some rows of a matrix in another type, quantized on their own: rows do not share scales.
class QuantizedRows {
 public:
  QuantizedRows(const Encoding& encoding, std::size_t rows, std::size_t in)
      : bytes_(kernels::weight_bytes(encoding, rows, in)),
        master_(kernels::panels_size(rows, in)),
        codes_(bytes_.codes),
        scales_(bytes_.scales),
        zero_points_(bytes_.zero_points) {
    weight_.codes = codes_.data();
    weight_.scales = scales_.data();
    weight_.zero_points = zero_points_.data();
    weight_.in = in;
    weight_.dtype = encoding.dtype;
    weight_.granularity = encoding.granularity;
  }
  const kernels::Weight& quantize(std::size_t rows, std::span<const float> values) {
    weight_.out = rows;
    const std::size_t in = weight_.in;
    kernels::pack_panels({values.data(), rows, in, in}, {master_.data(), rows, in});
    kernels::quantize({master_.data(), rows, in}, weight_);
    return weight_;
  }

 private:
  kernels::WeightBytes bytes_;
  AlignedBuffer<float> master_;
  AlignedBuffer<std::byte> codes_, scales_, zero_points_;
  kernels::Weight weight_;
};

/// The same of a matrix whose codes are there.
ByteSource::Produce code_rows(const ForeignParameter& parameter, const StoredArray& row, std::size_t at_once) {
  return [parameter, array = row.array, at_once](const ByteSource::Sink& sink) -> Status {
    const ParameterSpec& spec = parameter.spec();
    const Encoding encoding = parameter.owner().encoding_of(spec);
    const kernels::WeightBytes most = kernels::ordered_bytes(encoding, std::min(at_once, spec.out), spec.in);
    AlignedBuffer<std::byte> codes(most.codes), scales(most.scales), zero_points(most.zero_points);
    for (std::size_t first = 0; first < spec.out; first += at_once) {
      const std::size_t rows = std::min(at_once, spec.out - first);
      const kernels::WeightBytes bytes = kernels::ordered_bytes(encoding, rows, spec.in);
      const kernels::OrderedWeight to{
          {codes.data(), bytes.codes}, {scales.data(), bytes.scales}, {zero_points.data(), bytes.zero_points}};
      WEFT_CHECK(parameter.codes->read({parameter.owner(), spec, first, rows, to}));
      WEFT_CHECK(sink(to.*array));
    }
    return {};
  };
}

/// One array of a matrix in another type than float32.
Tensor stored_rows_tensor(const ForeignParameter& parameter, const Encoding& encoding, const StoredArray& row) {
  const ParameterSpec& spec = parameter.spec();
  Tensor tensor{weight_name(parameter.owner(), spec) + std::string(row.suffix),
                std::string(row.type(encoding)),
                row.shape(encoding, spec),
                {}};
  const bool has_one_scale = has_scale(encoding.dtype) && encoding.granularity == Granularity::tensor;
  const std::size_t at_once = has_one_scale ? spec.out : parameter.rows_at_once();
  if (parameter.codes->has && parameter.codes->has(parameter.owner(), spec)) {
    tensor.produce = code_rows(parameter, row, at_once);
    return tensor;
  }
  tensor.produce = [parameter, encoding, array = row.array, size = row.size, at_once](const ByteSource::Sink& sink) {
    const kernels::FlushSubnormals exact;
    const std::size_t in = parameter.spec().in;
    QuantizedRows quantized(encoding, std::min(at_once, parameter.spec().out), in);
    AlignedBuffer<std::byte> bytes;
    return parameter.each_part(at_once, [&](std::size_t rows, std::span<float> values) {
      const kernels::Weight& weight = quantized.quantize(rows, values);
      const std::size_t wanted = kernels::ordered_bytes(encoding, rows, in).*size;
      if (bytes.size() < wanted) bytes = AlignedBuffer<std::byte>(wanted);
      kernels::OrderedWeight to;
      to.*array = std::span(bytes.data(), wanted);
      kernels::export_weight(weight, to);
      return sink(ByteSpan(bytes.data(), wanted));
    });
  };
  return tensor;
}

}  // namespace

Result<ByteSource> entity_of(std::shared_ptr<const Graph> graph, ReadParameter read, std::vector<Tensor> others,
                             const std::string& meta_json, ReadCodes codes) {
  WEFT_TRY(const std::string network_text, write_network(graph->spec(), -1));
  WEFT_TRY(const Json network, parse_json(network_text, "network"));
  WEFT_TRY(Json meta, parse_json(meta_json, "meta"));
  meta["extras"] = Json::object();
  const auto shared = std::make_shared<const ReadParameter>(std::move(read));
  const auto shared_codes = std::make_shared<const ReadCodes>(std::move(codes));
  std::vector<Tensor> tensors;
  for (NodeId id = static_cast<NodeId>(graph->port_count()); id < graph->nodes().size(); ++id) {
    const Node& node = graph->nodes()[id];
    for (std::size_t i = 0; i < node.layer->parameters().size(); ++i) {
      const ForeignParameter parameter{graph, id, i, shared, shared_codes};
      const Encoding encoding = node.encoding_of(parameter.spec());
      // A layer that learns through its stored weights begins
      // with the masters of the file, not with what codes decode to.
      const bool has_codes = parameter.codes->has && parameter.codes->has(node, parameter.spec());
      if (encoding.dtype == Dtype::float32 || (node.trains_stored(parameter.spec()) && !has_codes)) {
        tensors.push_back(values_tensor(parameter, weight_name(node, parameter.spec())));
        continue;
      }
      for (const StoredArray& row : kStoredArrays)
        if (row.is_in(encoding.dtype)) tensors.push_back(stored_rows_tensor(parameter, encoding, row));
    }
  }
  for (Tensor& other : others) tensors.push_back(std::move(other));
  return formats::entity_source(network, meta, std::move(tensors));
}

}  // namespace weft::mesh
