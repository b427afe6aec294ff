// SPDX-License-Identifier: Apache-2.0

#include "mesh/loom/loom_network.hpp"

#include "mesh/loom/internal/loom_layers.hpp"
#include "mesh/network/graph.hpp"
#include "mesh/network/network_json.hpp"

#include "kernels/float_environment.hpp"
#include "kernels/linear.hpp"
#include "kernels/linear_dequantized.hpp"
#include "kernels/quantize.hpp"

#include "core/aligned_buffer.hpp"
#include "core/json_reader.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>

namespace weft::mesh {
namespace {

/// True when codes of `encoding` represent exactly these values.
bool holds_exactly(const Encoding& encoding, std::size_t out, std::size_t in, const std::vector<float>& values) {
  const kernels::FlushSubnormals exact;
  const kernels::ConstMatrixView rows{values.data(), out, in, in};
  AlignedBuffer<float> master(kernels::panels_size(out, in)), back(kernels::panels_size(out, in));
  kernels::pack_panels(rows, {master.data(), out, in});
  const kernels::WeightBytes bytes = kernels::weight_bytes(encoding, out, in);
  AlignedBuffer<std::byte> codes(bytes.codes), scales(bytes.scales), zero_points(bytes.zero_points);
  kernels::Weight weight;
  weight.codes = codes.data();
  weight.scales = scales.data();
  weight.zero_points = zero_points.data();
  weight.out = out;
  weight.in = in;
  weight.dtype = encoding.dtype;
  weight.granularity = encoding.granularity;
  kernels::quantize({master.data(), out, in}, weight);
  kernels::dequantize(weight, {back.data(), out, in});
  return std::equal(master.begin(), master.end(), back.begin());
}

class Importer {
 public:
  explicit Importer(const formats::LoomEntityFile& file) : file_(file) {}

  Result<ImportedEntity> import() {
    WEFT_CHECK(read_network());
    for (const auto& [index, layer] : layers_) WEFT_CHECK(add(index, layer));
    if (!last_) return fail(Errc::unsupported, "network.layers: no layer is left to import");
    spec_.outputs.push_back({"out", *last_});
    for (const formats::LoomBlob& blob : file_.blobs())
      if (!used_.contains(blob.path))
        return fail(Errc::unsupported, "blob '" + blob.path + "': belongs to no layer that is imported");
    WEFT_CHECK(file_.intact());
    WEFT_TRY(const std::string text, write_network(spec_));
    WEFT_TRY(const Json network, parse_json(text, "network"));
    WEFT_TRY(ByteBuffer bytes, formats::encode_entity(network, Json{{"extras", Json::object()}}, blobs_));
    WEFT_TRY(formats::EntityFile entity, formats::decode_entity(std::move(bytes), "import"));
    return ImportedEntity{std::move(spec_), std::move(entity), std::move(notes_)};
  }

 private:
  Status read_network() {
    WEFT_TRY(auto reader, JsonReader::open(file_.network(), "network"));
    WEFT_TRY(spec_.name, reader.string_or("id", "network", 256));
    WEFT_TRY(spec_.grid.z, reader.u32("depth", 1));
    WEFT_TRY(spec_.grid.y, reader.u32("rows", 1));
    WEFT_TRY(spec_.grid.x, reader.u32("cols", 1));
    WEFT_TRY(spec_.grid.layers, reader.u32("layers_per_cell", 1));
    WEFT_CHECK(spec_.grid.check());
    WEFT_TRY(const auto values, reader.array("layers", 0, spec_.grid.size()));
    WEFT_CHECK(reader.finish());
    for (const JsonValue& value : values) {
      WEFT_TRY(LayerV1 layer, read_layer_v1(value, spec_.grid));
      const std::size_t index = spec_.grid.index(layer.at);
      const std::string path = layer.path;
      if (!layers_.emplace(index, std::move(layer)).second)
        return fail(Errc::duplicate_name,
                    path + ": another layer stands at " + weft::to_string(spec_.grid.coord(index)));
    }
    return {};
  }

  Status add(std::size_t index, const LayerV1& layer) {
    const std::string blob_path = "layers." + std::to_string(index);
    const formats::LoomBlob* const blob = file_.find(blob_path);
    const bool is_blank = layer.type == "DENSE" && layer.input_height == 0 && layer.output_height == 0 && !blob;
    if (layer.is_disabled || is_blank) {
      if (blob) used_.insert(blob_path);
      if (layer.is_disabled) notes_.push_back(layer.path + ": is disabled there and left out");
      return {};
    }
    WEFT_TRY(LayerPlanV1 plan, plan_layer_v1(layer, shape_));
    const formats::LoomBlob* const biases = layer.type == "DENSE" ? find_biases() : nullptr;
    if (biases) plan.options["bias"] = true;
    if (!plan.note.empty()) notes_.push_back(layer.path + ": " + plan.note);
    LayerSpec spec;
    spec.at = layer.at;
    spec.type = plan.type;
    spec.out = plan.out;
    spec.options = plan.options;
    spec.activations = Activations::float32;  // only weights are quantised there
    if (plan.states_shape) spec.shape = plan.out_shape;
    if (last_) {
      spec.from = {Source(*last_)};
      if (shape_ != plan.in) spec.view = plan.in;
    } else {
      spec.from = {Source("in")};
      spec_.inputs.push_back({"in", plan.in});
    }
    WEFT_CHECK(add_weights(layer, plan, blob_path, blob, spec));
    if (biases) WEFT_CHECK(add_biases(layer, plan.out, *biases));
    spec_.layers.push_back(std::move(spec));
    shape_ = plan.out_shape;
    last_ = layer.at;
    return {};
  }

  /// Loom's dense layers have no biases; files of planetbridging keep them in blobs of their own, numbered among the
  /// dense layers.
  const formats::LoomBlob* find_biases() {
    return file_.find("bridge.dense." + std::to_string(dense_layers_++) + ".biases");
  }
  Status add_biases(const LayerV1& layer, std::size_t count, const formats::LoomBlob& blob) {
    used_.insert(blob.path);
    auto values = formats::decode_weights_v1(blob, count);
    if (!values) return fail(std::move(values).error().within(layer.path));
    add_tensor(layer.at, "bias", {count}, values_.emplace_back(*std::move(values)));
    return {};
  }
  void add_tensor(Coord at, const std::string& name, Shape shape, std::span<const float> values) {
    const std::string base = "weights/" + std::to_string(at.z) + "," + std::to_string(at.y) + "," +
                             std::to_string(at.x) + "," + std::to_string(at.l) + "/";
    blobs_.push_back(formats::make_tensor(base + name, std::move(shape), values));
  }

  Status add_weights(const LayerV1& layer, const LayerPlanV1& plan, const std::string& blob_path,
                     const formats::LoomBlob* blob, LayerSpec& spec) {
    if (plan.weights == 0) return {};  // a blob of such a layer is refused at the end
    if (!blob)
      return fail(Errc::not_found, layer.path + ": blob '" + blob_path + "' with its weights is not in the file");
    used_.insert(blob_path);
    auto all = formats::decode_weights_v1(*blob, plan.weights);
    if (!all) return fail(std::move(all).error().within(layer.path));
    // One scale for all of a layer's weights there.
    const Encoding encoding(blob->dtype, Granularity::tensor);
    bool is_exact = true;
    for (const ParameterV1& parameter : plan.parameters) {
      std::vector<float>& values = values_.emplace_back(parameter.size());
      for (std::size_t i = 0; i < values.size(); ++i) {
        const std::size_t place = parameter.place ? parameter.place(i) : parameter.first + i;
        values[i] = place == ParameterV1::kZero ? 0.0f : (*all)[place];
      }
      const Shape shape = parameter.in ? Shape{parameter.out, parameter.in} : Shape{parameter.out};
      add_tensor(layer.at, parameter.name, shape, values);
      if (parameter.in != 0 && is_exact) is_exact = holds_exactly(encoding, parameter.out, parameter.in, values);
    }
    note_type(layer, *blob, plan, is_exact, spec);
    return {};
  }

  void note_type(const LayerV1& layer, const formats::LoomBlob& blob, const LayerPlanV1& plan, bool is_exact,
                 LayerSpec& spec) {
    if (blob.dtype == Dtype::float32) return;
    const std::string type(name(blob.dtype));
    const bool has_matrix = std::any_of(plan.parameters.begin(), plan.parameters.end(),
                                        [](const ParameterV1& parameter) { return parameter.in != 0; });
    const std::string what = layer.path + ": " + std::to_string(plan.weights) + " weights of " + type;
    if (!has_matrix) {
      notes_.push_back(what + " are float32 here: vectors always are");
    } else if (is_exact) {
      spec.dtype = blob.dtype;
      if (has_scale(blob.dtype)) spec.granularity = Granularity::tensor;
      notes_.push_back(what + (blob.dtype == Dtype::float64 ? " keep their type, each as the nearest float32"
                                                            : " keep their type and every value"));
    } else {
      notes_.push_back(what + " are kept as float32, which holds them exactly; " + type +
                       " here would round them (weft morph --dtype " + type + ")");
    }
  }

  const formats::LoomEntityFile& file_;
  NetworkSpec spec_;
  std::map<std::size_t, LayerV1> layers_;  // by index in the grid
  std::set<std::string> used_;
  std::deque<std::vector<float>> values_;  // blobs point into them
  std::vector<formats::Tensor> blobs_;
  std::vector<std::string> notes_;
  std::size_t dense_layers_ = 0;
  Shape shape_;  // what the last layer gives
  std::optional<Coord> last_;
};

}  // namespace

Result<ImportedEntity> import_loom_entity(const formats::LoomEntityFile& file) { return Importer(file).import(); }

}  // namespace weft::mesh
