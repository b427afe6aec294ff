// SPDX-License-Identifier: Apache-2.0

#include "mesh/loom/loom_network.hpp"

#include "mesh/loom/internal/loom_layers.hpp"
#include "mesh/loom/internal/loom_translation.hpp"
#include "mesh/network/graph.hpp"
#include "mesh/network/network_json.hpp"

#include "kernels/float_environment.hpp"
#include "kernels/linear.hpp"
#include "kernels/linear_dequantized.hpp"
#include "kernels/quantize.hpp"

#include "core/aligned_buffer.hpp"
#include "core/json_reader.hpp"
#include "core/printable.hpp"

#include <algorithm>
#include <deque>
#include <iterator>
#include <map>
#include <optional>
#include <span>
#include <utility>

namespace weft::mesh {
namespace {

/// True when codes of `encoding` represent exactly these values.
bool holds_exactly(const Encoding& encoding, std::size_t out, std::size_t in, const std::vector<float>& values) {
  if (encoding.dtype == Dtype::float32) return true;
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

std::size_t volume_of(const Shape& shape) {
  std::size_t count = 1;
  for (const std::size_t extent : shape) count *= extent;
  return count;
}

LayerSpec identity_of(Shape view) {
  LayerSpec spec;
  spec.type = "identity";
  spec.view = std::move(view);
  return spec;
}

/// Adds a layer at the end of a sequential, with what it brings.
void append(TranslatedV1& to, LayerSpec spec, TranslatedV1* from = nullptr) {
  if (from) {
    const std::string before = "layers[" + std::to_string(to.spec.layers.size()) + "].";
    for (TensorV1& tensor : from->tensors)
      to.tensors.push_back({before + tensor.name, std::move(tensor.shape), std::move(tensor.values)});
    std::move(from->types.begin(), from->types.end(), std::back_inserter(to.types));
  }
  to.spec.layers.push_back(std::move(spec));
}

/// The layer inside a sequential, so that others can follow it within the same tick.
TranslatedV1 in_sequence(TranslatedV1 made) {
  TranslatedV1 outer;
  outer.spec.type = "sequential";
  outer.in = made.in, outer.out = made.out, outer.is_map = made.is_map;
  LayerSpec spec = std::move(made.spec);
  append(outer, std::move(spec), &made);
  return outer;
}

/// All of its values in a row.
void flatten(TranslatedV1& made) {
  if (made.out.size() == 1) return;
  if (made.spec.type != "sequential") made = in_sequence(std::move(made));
  made.out = {volume_of(made.out)};
  made.is_map = false;
  append(made, identity_of(made.out));
}

}  // namespace

Status ProblemsV1::status() const {
  if (errors_.empty()) return {};
  constexpr std::size_t kMostTold = 20;
  std::string text = errors_.front().text();
  for (std::size_t i = 1; i < std::min(errors_.size(), kMostTold); ++i) text += "; " + errors_[i].text();
  if (errors_.size() > kMostTold) text += "; and " + std::to_string(errors_.size() - kMostTold) + " more";
  return fail(Error(errors_.front().code(), std::move(text), errors_.front().file(), errors_.front().line()));
}

TranslatorV1::Made TranslatorV1::refuse(const LayerV1& layer, const char* key, const std::string& text, Errc code) {
  problems_.add(Error(code, layer.path + "." + key + ": " + text));
  return std::nullopt;
}

void TranslatorV1::pass_over(const LayerV1& layer) {
  for (const char* const end : {"", ".q_norm", ".k_norm"}) used_.insert(layer.blob + end);
  for (const LayerV1& inner : layer.inner) pass_over(inner);
}

std::optional<std::vector<float>> TranslatorV1::values(const std::string& path, std::size_t count,
                                                       const std::string& object) {
  const formats::LoomBlob* const blob = file_.find(path);
  if (!blob) return std::nullopt;
  used_.insert(path);
  const auto named = [&](Error error) { problems_.add(std::move(error).within(object)); };
  if (!reads_values_) {
    const Status fits = formats::decode_weights_v1(*blob, count, 0, {});
    if (!fits) named(fits.error());
    return fits ? std::optional(std::vector<float>()) : std::nullopt;
  }
  auto read = formats::decode_weights_v1(*blob, count);
  if (!read) named(std::move(read).error());
  return read ? std::optional(*std::move(read)) : std::nullopt;
}

void TranslatorV1::refuse_unused() {
  for (const formats::LoomBlob& blob : file_.blobs())
    if (!used_.contains(blob.path))
      problems_.add(
          Error(Errc::unsupported, "blob '" + printable(blob.path) + "': belongs to no layer that is imported"));
}

TranslatorV1::Made TranslatorV1::translate(const LayerV1& layer, const Shape& before) {
  switch (layer.container) {
    case ContainerV1::sequential:
      return sequential(layer, before);
    case ContainerV1::parallel:
      return parallel(layer, before);
    case ContainerV1::observed:
      return observed(layer, before);
    case ContainerV1::none:
      break;
  }
  if (layer.type == "RESIDUAL") return TranslatedV1{};  // only a sequential hands it something to add
  return leaf(layer, before);
}

TranslatorV1::Made TranslatorV1::leaf(const LayerV1& layer, const Shape& before) {
  auto plan = problems_.take(plan_layer_v1(layer, before));
  if (const Status fits = plan ? check_window_v1(layer, *plan) : Status(); !fits) {
    problems_.add(fits.error());
    plan.reset();
  }
  if (!plan) {
    pass_over(layer);
    return std::nullopt;
  }
  if (!plan->note.empty()) note(layer, plan->note);
  TranslatedV1 made;
  made.in = plan->in, made.out = plan->out_shape;
  made.is_map = plan->states_shape;
  if (plan->states_shape) made.stated = plan->out_shape;
  if (!add_weights(layer, *plan, made) || !add_head_norms(layer, *plan, made)) return std::nullopt;
  made.spec.type = plan->type;
  made.spec.out = plan->out;
  made.spec.options = std::move(plan->options);
  if (plan->activation.empty()) return made;
  LayerSpec activation;
  activation.type = "activation";
  activation.options["activation"] = plan->activation;
  made = in_sequence(std::move(made));
  append(made, std::move(activation));
  return made;
}

bool TranslatorV1::add_weights(const LayerV1& layer, const LayerPlanV1& plan, TranslatedV1& made) {
  if (plan.weights == 0) return true;  // a blob of such a layer is refused at the end
  const formats::LoomBlob* const blob = file_.find(layer.blob);
  if (!blob) {
    problems_.add(
        Error(Errc::not_found, layer.path + ": blob '" + layer.blob + "' with its weights is not in the file"));
    return false;
  }
  const auto all = values(layer.blob, plan.weights, layer.path);
  if (!all) return false;
  TypedWeightsV1 type{layer.path, blob->dtype, plan.weights, false, true};
  // One scale for all of a layer's weights there.
  const Encoding encoding(blob->dtype, Granularity::tensor);
  type.is_read = reads_values_;
  for (const ParameterV1& parameter : plan.parameters) {
    type.has_matrix = type.has_matrix || parameter.in != 0;
    if (!reads_values_) continue;
    std::vector<float> own(parameter.size());
    for (std::size_t i = 0; i < own.size(); ++i) {
      const std::size_t place = parameter.place ? parameter.place(i) : parameter.first + i;
      own[i] = place == ParameterV1::kZero ? 0.0f : (*all)[place];
    }
    if (parameter.in != 0) type.is_exact = type.is_exact && holds_exactly(encoding, parameter.out, parameter.in, own);
    Shape shape = parameter.in ? Shape{parameter.out, parameter.in} : Shape{parameter.out};
    made.tensors.push_back({parameter.name, std::move(shape), std::move(own)});
  }
  made.types.push_back(std::move(type));
  return true;
}

/// Gains of the norms of each head's queries and keys, which stand in blobs of their own.
bool TranslatorV1::add_head_norms(const LayerV1& layer, LayerPlanV1& plan, TranslatedV1& made) {
  const bool has_query = file_.find(layer.blob + ".q_norm"), has_key = file_.find(layer.blob + ".k_norm");
  if (plan.type != "attention" || (!has_query && !has_key)) return true;
  const auto head = static_cast<std::size_t>(std::get<double>(plan.options.at("head_dim")));
  if (has_query != has_key) {
    problems_.add(Error(Errc::unsupported, layer.path + ": blob '" + layer.blob + (has_query ? ".q_norm" : ".k_norm") +
                                               "': a norm of queries or of keys alone is not imported"));
    pass_over(layer);
    return false;
  }
  for (const auto& [end, name] : {std::pair{".q_norm", "query_gain"}, {".k_norm", "key_gain"}}) {
    auto gains = values(layer.blob + end, head, layer.path);
    if (!gains) return false;
    made.tensors.push_back({name, {head}, *std::move(gains)});
  }
  plan.options["qk_norm"] = std::string("rms");
  plan.options["epsilon"] = 1e-6;
  return true;
}

TranslatorV1::Made TranslatorV1::sequential(const LayerV1& layer, const Shape& before) {
  TranslatedV1 made;
  made.spec.type = "sequential";
  made.in = before;
  Value current{std::nullopt, before};
  std::optional<Value> skipped;  // what the layer before read
  bool is_whole = true;
  const auto name_of = [&](const Value& value) {
    if (!value.step) return std::string("input");
    LayerSpec& step = made.spec.layers[*value.step];
    if (step.name.empty()) step.name = "step" + std::to_string(*value.step);
    return step.name;
  };
  const auto go_on = [&](const Shape& shape, bool is_map) {
    skipped = std::exchange(current, {made.spec.layers.size() - 1, shape, is_map});
  };
  for (const LayerV1& inner : layer.inner) {
    if (inner.is_disabled) {
      pass_over(inner);
      note(inner, "is disabled there and left out");
      continue;
    }
    // There y = x + what the layer before read, where both have as many values.
    if (inner.type == "RESIDUAL" && skipped && !current.shape.empty() &&
        volume_of(current.shape) == volume_of(skipped->shape)) {
      std::string skip = name_of(*skipped);
      if (skipped->shape != current.shape) {
        LayerSpec view = identity_of(current.shape);
        view.from = {Source(skip)};
        view.name = skip = "step" + std::to_string(made.spec.layers.size());
        append(made, std::move(view));
      }
      LayerSpec sum;
      sum.type = "residual";
      sum.from = {Source(name_of(current)), Source(skip)};
      append(made, std::move(sum));
      go_on(Shape(current.shape), current.is_map);
      continue;
    }
    Made part = translate(inner, current.shape);
    if (part && part->passes()) {
      note(inner, "passes on what it reads, and is left out");
      skipped = current;
      continue;
    }
    if (!part) {  // the rest is looked at for what else is wrong
      is_whole = false;
      skipped.reset();
      current = {};
      continue;
    }
    if (made.in.empty()) made.in = current.shape = part->in;
    LayerSpec spec = std::move(part->spec);
    if (part->in != current.shape) spec.view = part->in;
    append(made, std::move(spec), &*part);
    go_on(part->out, part->is_map);
  }
  if (!is_whole) return std::nullopt;
  if (made.spec.layers.empty()) return TranslatedV1{};
  made.out = current.shape, made.is_map = current.is_map;
  return made;
}

std::optional<std::vector<TranslatedV1>> TranslatorV1::branches(const LayerV1& layer, const Shape& before) {
  std::vector<TranslatedV1> parts;
  Shape in = before;
  bool is_whole = true;
  for (const LayerV1& inner : layer.inner) {
    if (inner.is_disabled) {
      pass_over(inner);
      is_whole = refuse(inner, "is_disabled", "a branch that is switched off; take it out there").has_value();
      continue;
    }
    Made part = translate(inner, in);
    is_whole = is_whole && part;
    if (!part) continue;
    if (in.empty()) in = part->in;
    parts.push_back(*std::move(part));
  }
  if (!is_whole) return std::nullopt;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    TranslatedV1& part = parts[i];
    if (!part.passes()) {
      if (part.in != in) part.spec.view = part.in;
      continue;
    }
    if (in.empty()) {
      (void)refuse(layer.inner[i], "type", "passes on an input that nothing in the file describes");
      return std::nullopt;
    }
    part.spec = identity_of({});
    part.out = in;
  }
  if (!parts.empty()) parts.front().in = in;
  return parts;
}

/// Their outputs as `combine_mode` brings them together: row by row of all values that a sample has.
bool TranslatorV1::join(const LayerV1& layer, std::vector<TranslatedV1>& parts, TranslatedV1& made) {
  const bool joins = layer.combine_mode.empty() || layer.combine_mode == "concat" ||
                     layer.combine_mode == "grid_scatter";  // there they do the same
  const bool has_tokens = std::any_of(parts.begin(), parts.end(),
                                      [](const TranslatedV1& part) { return part.out.size() > 1 && !part.is_map; });
  const std::size_t width = volume_of(parts.front().out);
  if (joins && has_tokens && parts.size() > 1)
    return refuse(layer, "combine_mode",
                  "'" + layer.combine_mode + "' of several tokens joins them by an axis that the file does not name")
        .has_value();
  for (const TranslatedV1& part : parts)
    if (!joins && volume_of(part.out) != width)
      return refuse(layer, "combine_mode",
                    "'" + layer.combine_mode + "' of branches that give " + std::to_string(width) + " and " +
                        std::to_string(volume_of(part.out)) + " values",
                    Errc::shape_mismatch)
          .has_value();
  const bool is_same =
      std::all_of(parts.begin(), parts.end(), [&](const TranslatedV1& part) { return part.out == parts[0].out; });
  if (joins || !is_same)
    for (TranslatedV1& part : parts) flatten(part);
  made.out = parts.front().out;
  made.is_map = parts.front().is_map;
  if (joins)
    for (std::size_t i = 1; i < parts.size(); ++i) made.out.back() += parts[i].out.back();
  made.spec.options["merge"] = joins ? std::string("concat") : layer.combine_mode;
  return true;
}

TranslatorV1::Made TranslatorV1::parallel(const LayerV1& layer, const Shape& before) {
  const std::string& mode = layer.combine_mode;
  constexpr std::string_view kModes[] = {"", "concat", "grid_scatter", "add", "avg"};
  const bool is_known = std::find(std::begin(kModes), std::end(kModes), mode) != std::end(kModes);
  if (mode == "filter")
    (void)refuse(layer, "combine_mode", "'filter': the gate that weighs its experts is not in the file");
  else if (!is_known)
    (void)refuse(layer, "combine_mode", in_quotes(mode) + " is not known; known are concat, add, avg, grid_scatter",
                 Errc::unknown_name);
  auto parts = branches(layer, before);
  if (!parts || !is_known) return std::nullopt;
  if (parts->empty()) return TranslatedV1{};
  TranslatedV1 made;
  made.spec.type = "parallel";
  made.in = parts->front().in;
  if (!join(layer, *parts, made)) return std::nullopt;
  for (TranslatedV1& part : *parts) {
    LayerSpec spec = std::move(part.spec);
    append(made, std::move(spec), &part);
  }
  return made;
}

TranslatorV1::Made TranslatorV1::observed(const LayerV1& layer, const Shape& before) {
  Made made = layer.inner.empty() ? Made(TranslatedV1{}) : translate(layer.inner.front(), before);
  if (layer.rules == 0) return made;
  return refuse(layer, "meta_rules",
                std::to_string(layer.rules) +
                    " rules, which change the layer that they watch while it computes; without them it is imported");
}

void set_type_v1(const std::vector<TypedWeightsV1>& types, LayerSpec& spec, std::vector<std::string>& notes) {
  std::optional<Dtype> common;
  bool is_common = true;
  for (const TypedWeightsV1& type : types) {
    if (!type.has_matrix) continue;
    is_common = is_common && type.is_read && type.is_exact && common.value_or(type.dtype) == type.dtype;
    common = type.dtype;
  }
  is_common = is_common && common && *common != Dtype::float32;
  if (is_common) {
    spec.dtype = *common;
    if (has_scale(*common)) spec.granularity = Granularity::tensor;
  }
  for (const TypedWeightsV1& type : types) {
    if (type.dtype == Dtype::float32) continue;
    const std::string name(weft::name(type.dtype));
    const std::string what = type.path + ": " + std::to_string(type.weights) + " weights of " + name;
    if (!type.is_read)
      notes.push_back(what);
    else if (!type.has_matrix)
      notes.push_back(what + " are float32 here: vectors always are");
    else if (is_common)
      notes.push_back(what + (type.dtype == Dtype::float64 ? " keep their type, each as the nearest float32"
                                                           : " keep their type and every value"));
    else if (type.is_exact)
      notes.push_back(what + " are kept as float32, which holds them exactly; the layers of a container have one type");
    else
      notes.push_back(what + " are kept as float32, which holds them exactly; " + name +
                      " here would round them (weft morph --dtype " + name + ")");
  }
}

namespace {

class Importer {
 public:
  Importer(const formats::LoomEntityFile& file, bool reads_values)
      : file_(file), translator_(file, problems_, reads_values) {}

  Result<DescribedEntity> describe() {
    if (!file_.transformer().is_null())
      return fail(Errc::unsupported,
                  "transformer: is a language model; weft import makes a network of it, with its tokenizer");
    WEFT_CHECK(read_network());
    for (const auto& [index, layer] : layers_) add(index, layer);
    if (!last_ && problems_.empty())
      problems_.add(Error(Errc::unsupported, "network.layers: no layer is left to import"));
    if (is_read_whole_) translator_.refuse_unused();
    WEFT_CHECK(problems_.status());
    spec_.outputs.push_back({"out", *last_});
    WEFT_CHECK(file_.intact());
    return DescribedEntity{std::move(spec_), std::move(translator_.notes())};
  }
  Result<ImportedEntity> import() {
    WEFT_TRY(DescribedEntity described, describe());
    WEFT_TRY(const std::string text, write_network(described.spec));
    WEFT_TRY(const Json network, parse_json(text, "network"));
    WEFT_TRY(ByteBuffer bytes, formats::encode_entity(network, Json{{"extras", Json::object()}}, blobs_));
    WEFT_TRY(formats::EntityFile entity, formats::decode_entity(std::move(bytes), "import"));
    return ImportedEntity{std::move(described.spec), std::move(entity), std::move(described.notes)};
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
      auto layer = problems_.take(read_layer_v1(value, spec_.grid));
      is_read_whole_ = is_read_whole_ && layer;
      if (!layer) continue;
      const std::size_t index = spec_.grid.index(layer->at);
      const std::string path = layer->path;
      if (!layers_.emplace(index, *std::move(layer)).second)
        problems_.add(Error(Errc::duplicate_name,
                            path + ": another layer stands at " + weft::to_string(spec_.grid.coord(index))));
    }
    return {};
  }

  void add(std::size_t index, const LayerV1& layer) {
    const bool is_blank =
        layer.type == "DENSE" && layer.input_height == 0 && layer.output_height == 0 && !file_.find(layer.blob);
    if (layer.is_disabled || is_blank) {
      translator_.pass_over(layer);
      if (layer.is_disabled) translator_.note(layer, "is disabled there and left out");
      return;
    }
    if (layer.type == "RESIDUAL" && !last_ && shape_.empty()) return add_sum_of_inputs(layer);
    std::optional<TranslatedV1> made = translator_.translate(layer, shape_);
    if (!made) {
      shape_ = {};  // what follows is looked at for what else is wrong
      return;
    }
    if (made->passes())
      return translator_.note(layer, layer.type == "RESIDUAL"
                                         ? "passes on what it reads, and is left out: outside a Sequential nothing "
                                           "is added there"
                                         : "passes on what it reads, and is left out");
    LayerSpec spec = std::move(made->spec);
    spec.at = layer.at;
    spec.activations = Activations::float32;  // only weights are quantised there
    spec.shape = made->stated;
    if (last_) {
      spec.from = {Source(*last_)};
      if (shape_ != made->in) spec.view = made->in;
    } else {
      spec.from = {Source("in")};
      spec_.inputs.push_back({"in", made->in});
    }
    set_type_v1(made->types, spec, translator_.notes());
    for (TensorV1& tensor : made->tensors) add_tensor(layer.at, tensor.name, tensor.shape, std::move(tensor.values));
    if (layer.type == "DENSE") add_biases(index, layer, spec);
    finish(std::move(spec), std::move(made->out));
  }

  /// A sum that reads the input: planetbridging hands it what is added beside it, Loom itself nothing, which is 0.
  void add_sum_of_inputs(const LayerV1& layer) {
    if (layer.input_height == 0)
      return problems_.add(
          Error(Errc::out_of_range, layer.path + ".input_height: is 0 or left out; at least 1 is needed"));
    const std::size_t tokens = std::max<std::size_t>(layer.seq_length, 1);
    const Shape shape = tokens > 1 ? Shape{tokens, layer.input_height} : Shape{layer.input_height};
    LayerSpec spec;
    spec.at = layer.at;
    spec.type = "residual";
    spec.from = {Source("in"), Source("skip")};
    spec_.inputs = {{"in", shape}, {"skip", shape}};
    translator_.note(layer, "adds the input 'skip' to 'in'; without one it is 0");
    finish(std::move(spec), shape);
  }

  void finish(LayerSpec spec, Shape out) {
    last_ = spec.at;
    shape_ = std::move(out);
    spec_.layers.push_back(std::move(spec));
  }

  /// Loom's dense layers have no biases; files of planetbridging keep them in blobs of their own, by the layer's place
  /// in the grid.
  void add_biases(std::size_t index, const LayerV1& layer, LayerSpec& spec) {
    auto biases = translator_.values("bridge.dense." + std::to_string(index) + ".biases", spec.out, layer.path);
    if (!biases) return;
    spec.options["bias"] = true;
    if (!biases->empty()) add_tensor(layer.at, "bias", {spec.out}, *std::move(biases));
  }
  void add_tensor(Coord at, const std::string& name, Shape shape, std::vector<float> values) {
    const std::string base = "weights/" + std::to_string(at.z) + "," + std::to_string(at.y) + "," +
                             std::to_string(at.x) + "," + std::to_string(at.l) + "/";
    const std::vector<float>& kept = values_.emplace_back(std::move(values));
    blobs_.push_back(formats::make_tensor(base + name, std::move(shape), std::span<const float>(kept)));
  }

  const formats::LoomEntityFile& file_;
  ProblemsV1 problems_;
  TranslatorV1 translator_;
  NetworkSpec spec_;
  std::map<std::size_t, LayerV1> layers_;  // by index in the grid
  std::deque<std::vector<float>> values_;  // blobs point into them
  std::vector<formats::Tensor> blobs_;
  Shape shape_;                // what the last layer gives
  bool is_read_whole_ = true;  // else whose blobs there are is not known
  std::optional<Coord> last_;
};

}  // namespace

Result<ImportedEntity> import_loom_entity(const formats::LoomEntityFile& file) { return Importer(file, true).import(); }

Result<DescribedEntity> describe_loom_entity(const formats::LoomEntityFile& file) {
  return Importer(file, false).describe();
}

}  // namespace weft::mesh
