// SPDX-License-Identifier: Apache-2.0

#include "mesh/loom/internal/loom_layers.hpp"

#include "core/json_reader.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <utility>

namespace weft::mesh {
namespace {

// Larger extents are refused by our layers anyway; their products fit 64 bits.
constexpr std::uint32_t kMostExtent = 1u << 24;

std::string upper(std::string text) {
  for (char& c : text)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return text;
}

std::optional<std::string> parse_activation_v1(std::string_view text) {
  static constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"RELU", "relu"},   {"SILU", "silu"},       {"GELU", "gelu_tanh"},
      {"TANH", "tanh"},   {"SIGMOID", "sigmoid"}, {"LEAKYRELU", "leaky_relu"},
      {"RELU2", "relu2"}, {"LINEAR", "linear"}};
  const std::string name = upper(std::string(text));
  for (const auto& [theirs, ours] : kNames)
    if (theirs == name) return std::string(ours);
  return std::nullopt;
}
const std::vector<std::string_view> kActivations{"ReLU",    "Silu",      "GELU",  "Tanh",
                                                 "Sigmoid", "LeakyReLU", "ReLU2", "Linear"};

/// Sizes by their key.
struct SizeField {
  const char* key;
  std::size_t LayerV1::*member;
};
constexpr SizeField kSizes[] = {{"input_height", &LayerV1::input_height},
                                {"input_width", &LayerV1::input_width},
                                {"input_depth", &LayerV1::input_depth},
                                {"output_height", &LayerV1::output_height},
                                {"output_width", &LayerV1::output_width},
                                {"output_depth", &LayerV1::output_depth},
                                {"input_channels", &LayerV1::input_channels},
                                {"filters", &LayerV1::filters},
                                {"kernel_size", &LayerV1::kernel_size},
                                {"stride", &LayerV1::stride},
                                {"padding", &LayerV1::padding},
                                {"output_padding", &LayerV1::output_padding},
                                {"num_heads", &LayerV1::num_heads},
                                {"num_kv_heads", &LayerV1::num_kv_heads},
                                {"head_dim", &LayerV1::head_dim},
                                {"query_dim", &LayerV1::query_dim},
                                {"d_model", &LayerV1::d_model},
                                {"seq_length", &LayerV1::seq_length},
                                {"vocab_size", &LayerV1::vocab_size},
                                {"embedding_dim", &LayerV1::embedding_dim},
                                {"softmax_rows", &LayerV1::softmax_rows},
                                {"softmax_cols", &LayerV1::softmax_cols},
                                {"num_clusters", &LayerV1::num_clusters}};
// Keys of Loom that affect its speed, or that only refused layers read.
constexpr const char* kPassedOver[] = {"use_tiling", "tile_size", "gumbel_noise", "native", "scale", "dtype"};

/// The key of a container's layers.
struct InnerKey {
  const char *key, *type;
  ContainerV1 container;
};
constexpr InnerKey kInnerKeys[] = {{"parallel_branches", "PARALLEL", ContainerV1::parallel},
                                   {"sequential_layers", "SEQUENTIAL", ContainerV1::sequential},
                                   {"meta_observed_layer", "METACOGNITION", ContainerV1::observed}};

/// A key that is there and neither null nor an empty list.
std::optional<JsonValue> find_filled(JsonReader& reader, const char* key) {
  auto found = reader.find(key);
  if (found && (found->is_null() || (found->is_array() && found->raw().empty()))) found.reset();
  return found;
}

class Planner {
 public:
  Planner(const LayerV1& layer, const Shape& before) : layer_(layer), before_(before) {}

  Result<LayerPlanV1> plan() {
    WEFT_CHECK(dispatch());
    return std::move(plan_);
  }

 private:
  Status dispatch() {
    static const std::vector<std::pair<std::string_view, Status (Planner::*)()>> kTypes{
        {"DENSE", &Planner::dense},
        {"RNN", &Planner::rnn},
        {"LSTM", &Planner::lstm},
        {"RMSNORM", &Planner::rms_norm},
        {"LAYERNORM", &Planner::layer_norm},
        {"SOFTMAX", &Planner::softmax},
        {"SWIGLU", &Planner::swiglu},
        {"CNN1", &Planner::conv1},
        {"CNN2", &Planner::conv2},
        {"CNN3", &Planner::conv3},
        {"CONVTRANSPOSED1D", &Planner::transposed1},
        {"CONVTRANSPOSED2D", &Planner::transposed2},
        {"CONVTRANSPOSED3D", &Planner::transposed3},
        {"EMBEDDING", &Planner::embedding},
        {"MULTIHEADATTENTION", &Planner::attention},
        {"MHA", &Planner::attention},
        {"ATTENTION", &Planner::attention},
        {"KMEANS", &Planner::kmeans}};
    for (const auto& [name, make] : kTypes)
      if (name == layer_.type) return (this->*make)();
    return fail(Errc::unknown_name, layer_.path + ".type: no layer type '" + layer_.type + "' is known");
  }

  Failure wrong(const char* key, const std::string& text, Errc code = Errc::unsupported) const {
    return fail(code, layer_.path + "." + key + ": " + text);
  }
  Result<std::size_t> needed(const char* key) const {
    for (const SizeField& field : kSizes)
      if (std::string_view(field.key) == key && layer_.*field.member != 0) return layer_.*field.member;
    return fail(Errc::out_of_range, layer_.path + "." + key + ": is 0 or left out; at least 1 is needed");
  }

  /// Reads `shape`; what the layer before gives must have as many values.
  Status reads(Shape shape) {
    WEFT_TRY(const std::size_t wanted, volume(shape));
    plan_.in = std::move(shape);
    if (before_.empty()) return {};
    WEFT_TRY(const std::size_t there, volume(before_));
    if (there == wanted) return {};
    return fail(Errc::shape_mismatch, layer_.path + ": reads " + std::to_string(wanted) + " values " +
                                          weft::to_string(plan_.in) + ", the layer before gives " +
                                          std::to_string(there) + " " + weft::to_string(before_));
  }
  /// Reads tokens of `width` values: as many as there are.
  Status reads_tokens(std::size_t width) {
    std::size_t tokens = std::max<std::size_t>(layer_.seq_length, 1);
    if (!before_.empty()) {
      WEFT_TRY(const std::size_t there, volume(before_));
      if (there % width != 0)
        return fail(Errc::shape_mismatch, layer_.path + ": reads values " + std::to_string(width) +
                                              " at a time, the layer before gives " + std::to_string(there));
      tokens = there / width;
    }
    return reads(tokens > 1 ? Shape{tokens, width} : Shape{width});
  }
  void gives_features(std::size_t width) {
    plan_.out_shape = plan_.in;
    plan_.out_shape.back() = width;
    plan_.out = width;
  }
  /// The next `out` (times `in`) weights of the blob.
  ParameterV1& parameter(std::string name, std::size_t out, std::size_t in = 0) {
    ParameterV1& made = plan_.parameters.emplace_back(ParameterV1{std::move(name), out, in, plan_.weights, {}});
    plan_.weights += made.size();
    return made;
  }
  Status kind(const char* name) {
    plan_.options["kind"] = std::string(name);
    return {};
  }

  Status dense() {
    WEFT_TRY(const std::size_t in, needed("input_height"));
    WEFT_TRY(const std::size_t out, needed("output_height"));
    WEFT_CHECK(reads({in}));
    gives_features(out);
    plan_.type = "dense";
    plan_.options = {{"activation", layer_.activation}, {"bias", false}};
    parameter("weight", out, in);
    return {};
  }

  /// Gates in their order there, each with its own matrices and bias, become rows of ours.
  Status recurrent(const char* type, std::size_t gates) {
    WEFT_TRY(const std::size_t in, needed("input_height"));
    WEFT_TRY(const std::size_t out, needed("output_height"));
    const std::size_t tokens = std::max<std::size_t>(layer_.seq_length, 1);
    WEFT_CHECK(reads(tokens > 1 ? Shape{tokens, in} : Shape{in}));
    gives_features(out);
    plan_.type = type;
    plan_.options = {{"stateful", false}};  // each call begins with zeros there
    const std::size_t gate = out * in + out * out + out;
    plan_.weights = gates * gate;
    // `each` values of every gate, from `first` on.
    const auto of_gates = [gate](std::size_t first, std::size_t each) {
      return [=](std::size_t i) { return i / each * gate + first + i % each; };
    };
    plan_.parameters = {{"weight_ih", gates * out, in, 0, of_gates(0, out * in)},
                        {"weight_hh", gates * out, out, 0, of_gates(out * in, out * out)},
                        {"bias_ih", gates * out, 0, 0, of_gates(out * in + out * out, out)},
                        {"bias_hh", gates * out, 0, 0, [](std::size_t) { return ParameterV1::kZero; }}};
    return {};
  }
  Status rnn() { return recurrent("rnn", 1); }
  Status lstm() { return recurrent("lstm", 4); }  // i, f, g, o there and here

  Result<std::size_t> norm_width() {
    WEFT_TRY(const std::size_t width, needed("input_height"));
    if (layer_.output_height != 0 && layer_.output_height != width)
      return wrong(
          "output_height",
          std::to_string(layer_.output_height) + ", a norm of " + std::to_string(width) + " values gives as many",
          Errc::shape_mismatch);
    return width;
  }
  Status rms_norm() {
    WEFT_TRY(const std::size_t width, norm_width());
    WEFT_CHECK(reads_tokens(width));
    gives_features(width);
    plan_.type = "rms_norm";
    plan_.options = {{"epsilon", 1e-6}};
    parameter("gain", width);
    return {};
  }
  Status layer_norm() {
    WEFT_TRY(const std::size_t width, norm_width());
    WEFT_CHECK(reads_tokens(width));
    gives_features(width);
    plan_.type = "layer_norm";
    plan_.options = {{"epsilon", 1e-5}};
    parameter("gain", width);
    parameter("bias", width);
    return {};
  }

  /// There p = softmax(-|x - c|^2 / (2 T^2)), of all values at once.
  Status kmeans() {
    WEFT_TRY(const std::size_t clusters, needed("num_clusters"));
    std::size_t features = layer_.input_height;
    if (!before_.empty()) {
      WEFT_TRY(features, volume(before_));
    } else if (features == 0) {
      WEFT_TRY(features, needed("input_height"));
    }
    WEFT_CHECK(reads({features}));
    const double own = layer_.kmeans_temperature == 0 ? 1 : layer_.kmeans_temperature;
    plan_.type = "kmeans";
    plan_.options = {{"clusters", static_cast<double>(clusters)}, {"temperature", 2 * own * own}};
    const bool gives_features = layer_.output_mode == "features";
    if (gives_features) plan_.options["output"] = std::string("features");
    gives_features ? this->gives_features(features) : this->gives_features(clusters);
    plan_.out = 0;
    // Probabilities are not negative.
    const bool is_none = !gives_features && (layer_.activation == "relu" || layer_.activation == "leaky_relu");
    if (layer_.activation != "linear" && !is_none) plan_.activation = layer_.activation;
    parameter("centres", clusters, features);
    return {};
  }

  Status softmax() {
    std::size_t width = layer_.input_height;
    if (!before_.empty()) {
      WEFT_TRY(width, volume(before_));
    } else if (width == 0) {
      WEFT_TRY(width, needed("input_height"));
    }
    WEFT_CHECK(reads({width}));
    gives_features(width);
    plan_.type = "softmax";
    if (layer_.temperature != 0) plan_.options["temperature"] = layer_.temperature;
    const std::string type = upper(layer_.softmax);
    if (type == "STANDARD" || type == "TEMPERATURE" || type.empty()) return {};
    if (type == "SPARSE") return kind("sparsemax");
    if (type == "GUMBEL") return kind("gumbel");
    if (type == "GRID" || type == "HIERARCHICAL") {
      // Rows of columns, each a softmax of its own; levels of a hierarchy are not in the file.
      if (layer_.softmax_rows == 0 || layer_.softmax_cols == 0) return {};
      if (layer_.softmax_rows * layer_.softmax_cols != width)
        return wrong("softmax_rows",
                     std::to_string(layer_.softmax_rows) + " rows of " + std::to_string(layer_.softmax_cols) +
                         " are not the " + std::to_string(width) + " values that it reads",
                     Errc::shape_mismatch);
      plan_.options["groups"] = static_cast<double>(layer_.softmax_rows);
      return {};
    }
    if (type == "ENTMAX") {
      const double alpha = layer_.entmax_alpha == 0 ? 1.5 : layer_.entmax_alpha;
      if (alpha <= 1) return {};
      if (alpha >= 2) return kind("sparsemax");
      return wrong("softmax_type", "Entmax between 1 and 2 is a blend there, not entmax; it is not imported");
    }
    if (type == "MASKED") return wrong("softmax_type", "the mask is not in the file");
    return wrong("softmax_type", "'" + layer_.softmax +
                                     "' is not imported; known are Standard, Temperature, Grid, "
                                     "Hierarchical, Gumbel, Sparse, Entmax");
  }

  Status swiglu() {
    WEFT_TRY(const std::size_t width, needed("input_height"));
    WEFT_TRY(const std::size_t hidden, needed("output_height"));  // the width between, there
    WEFT_CHECK(reads_tokens(width));
    gives_features(width);
    plan_.type = "swiglu";
    plan_.options = {{"hidden", static_cast<double>(hidden)}, {"bias", true}};
    if (layer_.activation == "relu2") plan_.options["gate"] = std::string("relu2");
    parameter("gate", hidden, width);
    parameter("up", hidden, width);
    parameter("down", width, hidden);
    parameter("gate_bias", hidden);
    parameter("up_bias", hidden);
    parameter("down_bias", width);
    return {};
  }

  struct Window {
    std::size_t channels, filters, kernel;
    std::size_t taps = 1;  // of one filter on one channel
    Shape in, out;
  };
  Result<Window> window(int axes) {
    Window w{};
    WEFT_TRY(w.channels, needed("input_channels"));
    WEFT_TRY(w.filters, needed("filters"));
    WEFT_TRY(w.kernel, needed("kernel_size"));
    WEFT_TRY(const std::size_t stride, needed("stride"));
    w.in = {w.channels};
    w.out = {w.filters};
    // Axes in the order depth, height, width; of one axis it is the height.
    const std::pair<const char*, const char*> names[] = {
        {"input_depth", "output_depth"}, {"input_height", "output_height"}, {"input_width", "output_width"}};
    for (int axis = axes == 3 ? 0 : 1; axis < (axes == 1 ? 2 : 3); ++axis) {
      WEFT_TRY(const std::size_t in, needed(names[axis].first));
      WEFT_TRY(const std::size_t out, needed(names[axis].second));
      w.in.push_back(in);
      w.out.push_back(out);
      w.taps *= w.kernel;
      if (w.taps > kMostExtent) return fail(Errc::too_large, layer_.path + ".kernel_size: more than 2^24 taps");
    }
    WEFT_CHECK(reads(w.in));
    plan_.out = w.filters;
    plan_.out_shape = w.out;
    plan_.states_shape = true;
    plan_.options = {{"kernel", static_cast<double>(w.kernel)},
                     {"stride", static_cast<double>(stride)},
                     {"padding", static_cast<double>(layer_.padding)},
                     {"activation", layer_.activation},
                     {"bias", false}};
    return w;
  }
  Status conv(const char* type, int axes) {
    WEFT_TRY(const Window w, window(axes));
    plan_.type = type;
    parameter("weight", w.filters, w.channels * w.taps);
    return {};
  }
  Status conv1() { return conv("conv1d", 1); }
  Status conv2() { return conv("conv2d", 2); }
  Status conv3() { return conv("conv3d", 3); }

  /// There [filters, channels, taps], here [channels, filters, taps].
  Status transposed(const char* type, int axes) {
    WEFT_TRY(const Window w, window(axes));
    plan_.type = type;
    if (layer_.output_padding != 0) plan_.options["output_padding"] = static_cast<double>(layer_.output_padding);
    ParameterV1& weight = parameter("weight", w.channels, w.filters * w.taps);
    weight.place = [channels = w.channels, filters = w.filters, taps = w.taps](std::size_t i) {
      const std::size_t tap = i % taps, filter = i / taps % filters, channel = i / taps / filters;
      return (filter * channels + channel) * taps + tap;
    };
    return {};
  }
  Status transposed1() { return transposed("conv_transposed1d", 1); }
  Status transposed2() { return transposed("conv_transposed2d", 2); }
  Status transposed3() { return transposed("conv_transposed3d", 3); }

  /// There [entries, width], here [width, entries].
  Status embedding() {
    WEFT_TRY(const std::size_t entries, needed("vocab_size"));
    WEFT_TRY(const std::size_t width, needed("embedding_dim"));
    if (layer_.activation != "linear")
      plan_.note = "the activation " + layer_.activation + " after the table is left out";
    if (!before_.empty()) return wrong("type", "an embedding reads an input only, and another layer stands before it");
    const std::size_t tokens = std::max<std::size_t>(layer_.seq_length, 1);
    WEFT_CHECK(reads({tokens}));
    plan_.type = "embedding";
    plan_.out = width;
    plan_.out_shape = tokens > 1 ? Shape{tokens, width} : Shape{width};
    plan_.options = {{"vocabulary", static_cast<double>(entries)}};
    parameter("table", width, entries).place = [=](std::size_t i) { return i % entries * width + i / entries; };
    return {};
  }

  Status attention() {
    WEFT_TRY(const std::size_t width, needed("d_model"));
    WEFT_TRY(const std::size_t heads, needed("num_heads"));
    const std::size_t kv_heads = layer_.num_kv_heads ? layer_.num_kv_heads : heads;
    const std::size_t head = layer_.head_dim ? layer_.head_dim : width / heads;
    const std::size_t query = heads * head, key = kv_heads * head;
    if (head == 0 || head % 2 != 0)
      return wrong("head_dim", std::to_string(head) + ": positions turn pairs of values, so it must be even",
                   Errc::out_of_range);
    if (layer_.query_dim != 0 && layer_.query_dim != query)
      return wrong("query_dim",
                   std::to_string(layer_.query_dim) + ", " + std::to_string(heads) + " heads of " +
                       std::to_string(head) + " are " + std::to_string(query),
                   Errc::shape_mismatch);
    WEFT_CHECK(reads_tokens(width));
    gives_features(width);
    plan_.type = "attention";
    plan_.options = {{"heads", static_cast<double>(heads)},
                     {"kv_heads", static_cast<double>(kv_heads)},
                     {"head_dim", static_cast<double>(head)},
                     {"rope", std::string("half")},
                     {"rope_theta", layer_.rope_freq_base > 0 ? layer_.rope_freq_base : 10000.0},
                     {"causal", true}};
    if (plan_.in.size() == 1) {
      // One token a call: keys and values are kept there, by default so many.
      plan_.options["context"] = 512.0;
      plan_.note = "remembers 512 tokens, Loom's default: the file does not say how many";
    }
    parameter("query", query, width);
    parameter("key", key, width);
    parameter("value", key, width);
    parameter("output", width, query);
    parameter("query_bias", query);
    parameter("key_bias", key);
    parameter("value_bias", key);
    parameter("output_bias", width);
    return {};
  }

  const LayerV1& layer_;
  const Shape& before_;
  LayerPlanV1 plan_;
};

}  // namespace

namespace {

Result<LayerV1> read_layer(const JsonValue& value, const GridShape* grid, const std::string& blob);

/// The layers inside a layer. @error unsupported: in one of another type
Status read_inner(JsonReader& reader, LayerV1& layer) {
  for (const InnerKey& row : kInnerKeys) {
    if (layer.type == row.type) layer.container = row.container;
    const auto found = find_filled(reader, row.key);
    if (!found) continue;
    if (layer.type != row.type)
      return fail(Errc::unsupported, found->path() + ": layers inside a layer of type " + layer.type +
                                         "; only those of type " + row.type + " have them");
    if (row.container == ContainerV1::observed) {
      WEFT_TRY(LayerV1 inner, read_layer(*found, nullptr, layer.blob + "." + row.key));
      layer.inner.push_back(std::move(inner));
      continue;
    }
    WEFT_TRY(const auto values, found->array());
    for (std::size_t i = 0; i < values.size(); ++i) {
      WEFT_TRY(LayerV1 inner, read_layer(values[i], nullptr, layer.blob + "." + row.key + "." + std::to_string(i)));
      layer.inner.push_back(std::move(inner));
    }
  }
  const auto rules = find_filled(reader, "meta_rules");
  if (!rules) return {};
  if (layer.container != ContainerV1::observed)
    return fail(Errc::unsupported, rules->path() + ": rules, which a layer of type " + layer.type + " does not have");
  WEFT_TRY(const auto values, rules->array());
  layer.rules = values.size();
  return {};
}

/// Its place in the grid. Layers inside others state one too, which means nothing.
Status read_place(JsonReader& reader, const GridShape* grid, Coord& at) {
  const auto last = [&](std::uint32_t GridShape::*extent) { return grid ? grid->*extent - 1 : UINT32_MAX; };
  WEFT_TRY(at.z, reader.u32("z", 0, last(&GridShape::z)));
  WEFT_TRY(at.y, reader.u32("y", 0, last(&GridShape::y)));
  WEFT_TRY(at.x, reader.u32("x", 0, last(&GridShape::x)));
  WEFT_TRY(at.l, reader.u32("l", 0, last(&GridShape::layers)));
  return {};
}

/// `grid`: null for a layer inside another one. `blob`: empty for one of the grid, whose place says it.
Result<LayerV1> read_layer(const JsonValue& value, const GridShape* grid, const std::string& blob) {
  WEFT_TRY(JsonReader reader, value.object());
  LayerV1 layer;
  layer.path = value.path();
  WEFT_CHECK(read_place(reader, grid, layer.at));
  layer.blob = grid ? "layers." + std::to_string(grid->index(layer.at)) : blob;
  WEFT_TRY(layer.type, reader.string("type", 64));
  layer.type = upper(std::move(layer.type));
  WEFT_TRY(layer.activation, reader.one_of_or("activation", std::string("linear"), parse_activation_v1, kActivations));
  WEFT_TRY(layer.softmax, reader.string_or("softmax_type", "Standard", 64));
  WEFT_TRY(layer.is_disabled, reader.boolean_or("is_disabled", false));
  WEFT_TRY(layer.output_mode, reader.string_or("output_mode", "", 64));
  WEFT_TRY(layer.combine_mode, reader.string_or("combine_mode", "", 64));
  for (const SizeField& field : kSizes) {
    WEFT_TRY(layer.*field.member, reader.u32_or(field.key, 0, 0, kMostExtent));
  }
  WEFT_TRY(layer.rope_freq_base, reader.f64_or("rope_freq_base", 0, 0, 1e12));
  WEFT_TRY(layer.temperature, reader.f64_or("temperature", 0, 0, 1e6));
  WEFT_TRY(layer.entmax_alpha, reader.f64_or("entmax_alpha", 0, 0, 1e6));
  WEFT_TRY(layer.kmeans_temperature, reader.f64_or("kmeans_temperature", 0, -700, 700));
  for (const char* key : kPassedOver) (void)reader.find(key);
  WEFT_CHECK(read_inner(reader, layer));
  if (const auto weights = reader.find("weights"); weights && !weights->string(0).has_value())
    return fail(Errc::unsupported, reader.path_of("weights") + ": weights in the header are not imported");
  WEFT_CHECK(reader.finish());
  return layer;
}

}  // namespace

Result<LayerV1> read_layer_v1(const JsonValue& value, const GridShape& grid) { return read_layer(value, &grid, ""); }

Result<LayerPlanV1> plan_layer_v1(const LayerV1& layer, const Shape& before) { return Planner(layer, before).plan(); }

Status check_window_v1(const LayerV1& layer, const LayerPlanV1& plan) {
  if (!plan.states_shape) return {};
  const bool is_transposed = plan.type.find("transposed") != plan.type.npos;
  for (std::size_t axis = 1; axis < plan.in.size(); ++axis) {
    const auto in = static_cast<std::int64_t>(plan.in[axis]), kernel = static_cast<std::int64_t>(layer.kernel_size),
               stride = static_cast<std::int64_t>(layer.stride), padding = static_cast<std::int64_t>(layer.padding);
    const std::int64_t room = in + 2 * padding - kernel;
    const std::int64_t gives =
        is_transposed ? (in - 1) * stride - 2 * padding + kernel + static_cast<std::int64_t>(layer.output_padding)
        : room < 0    ? 0
                      : room / stride + 1;
    if (gives != static_cast<std::int64_t>(plan.out_shape[axis]))
      return fail(Errc::shape_mismatch, layer.path + ": gives " + std::to_string(gives) + " values along axis " +
                                            std::to_string(axis) + ", the header says " +
                                            weft::to_string(plan.out_shape));
  }
  return {};
}

}  // namespace weft::mesh
