// SPDX-License-Identifier: Apache-2.0

#include "models/internal/loom_model.hpp"

#include "models/config_reader.hpp"
#include "models/internal/loom_tensors.hpp"
#include "models/tensor_layout.hpp"

#include "core/printable.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::models::internal {
namespace {

using formats::LoomBlob;

constexpr std::size_t kContext = 2048;  // what Loom gives a language model; the file does not say
// Keys of matrices in blocks, and what is added to a matrix' offset for the key of a ternary one.
constexpr std::size_t kQueryBlocks = 200, kGateBlocks = 100, kTernaryKey = 10000;

struct Sizes {
  std::size_t vocabulary = 0, width = 0, blocks = 0, heads = 1, kv_heads = 1, head_dim = 0, hidden = 0;
  double epsilon = 1e-6, theta = 10000;
  std::string activation = "silu";
  bool is_tied = false;

  std::size_t queries() const { return heads * head_dim; }
  std::size_t keys() const { return kv_heads * head_dim; }
};

/// A matrix or vector among a layer's weights.
struct Part {
  std::string_view name;  // as PartName::gguf
  std::size_t out, in;    // in 0: a bias
};

std::size_t size_of(const Part& part) { return part.out * std::max<std::size_t>(part.in, 1); }

enum class Form { numbers, blocks, ternary };

class ModelReader {
 public:
  ModelReader(const formats::LoomEntityFile& file, const std::string& path)
      : file_(file), path_(path), tensors_(std::make_shared<LoomTensors>(file)) {}

  Result<ModelFiles> read() {
    read_sizes();
    if (problems_.empty()) check_layers();
    if (!problems_.empty()) return problems_.failure(Errc::corrupt, path_);
    find_forms();
    choose_family();
    add_globals();
    for (std::size_t block = 0; block < sizes_.blocks; ++block) add_block(block);
    for (const LoomBlob& blob : file_.blobs())
      if (!used_.contains(blob.path))
        problems_.add("blob '" + printable(blob.path) + "' belongs to no part of a language model");
    if (!problems_.empty()) return problems_.failure(Errc::corrupt, path_);
    WEFT_CHECK(file_.intact());
    ModelFiles opened;
    opened.path = path_;
    opened.family = family_;
    opened.config = config();
    opened.tensors = std::move(tensors_);
    opened.warnings = std::move(warnings_);
    return opened;
  }

 private:
  void read_sizes() {
    ConfigReader top(file_.transformer(), "transformer");
    if (const std::string kind = top.text("architecture", ""); kind != "llama_style_decoder")
      top.refuse("architecture", "found " + in_quotes(kind) + ", expected llama_style_decoder");
    sizes_.vocabulary = top.size("vocab_size");
    sizes_.width = top.size("hidden_size");
    sizes_.is_tied = top.flag("lm_head_tied", false);
    if (!top.flag("has_final_norm", false))
      top.refuse("has_final_norm", "no norm before the head; only models that have one are imported");
    if (const Json* const found = top.object("dims"); found) {
      ConfigReader dims = top.inside(*found, "dims");
      sizes_.blocks = dims.size("num_layers", std::nullopt, 4096);
      sizes_.heads = dims.size("num_heads", std::nullopt, 65536);
      sizes_.kv_heads = dims.size("num_kv_heads", sizes_.heads, 65536);
      sizes_.head_dim = dims.size("head_dim");
      sizes_.hidden = dims.size("intermediate_size");
      sizes_.epsilon = dims.number("rms_norm_eps", 1e-6);
      sizes_.theta = dims.number("rope_freq_base", 10000);
      std::string activation = dims.text("activation", "silu");
      std::transform(activation.begin(), activation.end(), activation.begin(),
                     [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
      if (activation != "silu" && activation != "relu2")
        dims.refuse("activation", "found " + in_quotes(activation) + ", expected Silu or ReLU2");
      sizes_.activation = activation;
      if (dims.size("query_dim", sizes_.queries()) != sizes_.queries() ||
          dims.size("kv_dim", sizes_.keys()) != sizes_.keys())
        dims.refuse("query_dim", "queries and keys are not as wide as their heads of head_dim");
      top.take(dims);
    } else {
      top.refuse("dims", "is not there");
    }
    for (const std::string& text : top.problems().texts()) problems_.add(text);
  }

  /// The network must be blocks of a norm, attention, a norm and a gated unit, as the sizes say.
  void check_layers() {
    const Json& layers = file_.network()["layers"];
    const std::size_t wanted = 4 * sizes_.blocks;
    if (!layers.is_array() || layers.size() != wanted)
      return problems_.add("network.layers: " + std::to_string(layers.is_array() ? layers.size() : 0) +
                           " layers, expected " + std::to_string(wanted) + ", four a block");
    struct Wanted {
      std::string_view key;
      std::size_t value;
    };
    const std::vector<Wanted> norm{{"input_height", sizes_.width}},
        attention{{"d_model", sizes_.width},
                  {"num_heads", sizes_.heads},
                  {"num_kv_heads", sizes_.kv_heads},
                  {"head_dim", sizes_.head_dim}},
        gated{{"input_height", sizes_.width}, {"output_height", sizes_.hidden}};
    constexpr std::array<std::string_view, 4> kTypes{"RMSNORM", "MULTIHEADATTENTION", "RMSNORM", "SWIGLU"};
    for (std::size_t i = 0; i < wanted; ++i) {
      const Json& layer = layers[i];
      const std::string path = "network.layers[" + std::to_string(i) + "]";
      std::string type = layer.is_object() && layer["type"].is_string() ? layer["type"].text() : "";
      for (char& c : type)
        if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
      if (type == "MHA" || type == "ATTENTION") type = kTypes[1];
      if (type != kTypes[i % 4])
        return problems_.add(path + ".type: " + in_quotes(type) + ", expected " + std::string(kTypes[i % 4]));
      if (const Json* const disabled = layer.find("is_disabled"); disabled && disabled->is_bool() && *disabled == true)
        problems_.add(path + ".is_disabled: a part of a language model that is switched off");
      for (const Wanted& row : i % 4 == 1 ? attention : i % 4 == 3 ? gated : norm)
        if (const Json* const found = layer.find(row.key); found && *found != row.value && *found != 0)
          problems_.add(path + "." + std::string(row.key) + ": " + printable(found->dump(), 40) +
                        ", transformer.dims says " + std::to_string(row.value));
    }
  }

  const LoomBlob* find(const std::string& path) {
    const LoomBlob* const blob = file_.find(path);
    if (blob) used_.insert(path);
    return blob;
  }
  static std::string layer_path(std::size_t block, std::size_t part) {
    return "layers." + std::to_string(4 * block + part);
  }

  /// Attention's or the gated unit's weights, in the order of their blob.
  std::vector<Part> parts_of(std::size_t part) const {
    const std::size_t d = sizes_.width, q = sizes_.queries(), k = sizes_.keys(), h = sizes_.hidden;
    if (part == 1)
      return {{"attn_q", q, d}, {"attn_k", k, d}, {"attn_v", k, d}, {"attn_output", d, q},
              {"attn_q", q, 0}, {"attn_k", k, 0}, {"attn_v", k, 0}, {"attn_output", d, 0}};
    return {{"ffn_gate", h, d}, {"ffn_up", h, d}, {"ffn_down", d, h},
            {"ffn_gate", h, 0}, {"ffn_up", h, 0}, {"ffn_down", d, 0}};
  }
  static std::size_t matrices(std::size_t part) { return part == 1 ? 4 : 3; }

  Form form_of(std::size_t block, std::size_t part) const {
    const std::string path = layer_path(block, part);
    const std::string first = std::to_string(part == 1 ? kQueryBlocks : kGateBlocks);
    if (file_.find(path + ".q4_0." + first)) return Form::blocks;
    return file_.find(path + ".bitnet_ternary." + std::to_string(kTernaryKey)) ? Form::ternary : Form::numbers;
  }

  /// The biases of a part: the blob that holds them, and where; null where all are 0.
  struct Biases {
    const LoomBlob* blob = nullptr;
    std::size_t count = 0, first = 0;
  };
  Biases biases_of(std::size_t block, std::size_t part) {
    std::size_t weights = 0, all = 0;
    const std::vector<Part> parts = parts_of(part);
    for (std::size_t i = 0; i < parts.size(); ++i) (i < matrices(part) ? weights : all) += size_of(parts[i]);
    if (form_of(block, part) == Form::numbers) return {find(layer_path(block, part)), weights + all, weights};
    return {find(layer_path(block, part) + ".biases"), all, 0};
  }
  /// True where a bias has a value that is not 0; false where it cannot be read, which is told later.
  bool has_bias(const Biases& biases, std::size_t first, std::size_t count) const {
    if (!biases.blob) return false;
    std::vector<float> values(count);
    if (!formats::decode_weights_v1(*biases.blob, biases.count, biases.first + first, values)) return false;
    return std::any_of(values.begin(), values.end(), [](float value) { return value != 0; });
  }

  void find_forms() {
    std::size_t ternary = 0;
    for (std::size_t block = 0; block < sizes_.blocks; ++block) {
      for (const std::size_t part : {1, 3}) {
        ternary += form_of(block, part) == Form::ternary;
        const Biases biases = biases_of(block, part);
        std::size_t first = 0;
        const std::vector<Part> parts = parts_of(part);
        for (std::size_t i = matrices(part); i < parts.size(); first += parts[i++].out)
          if (has_bias(biases, first, parts[i].out))
            (part == 3 ? has_mlp_bias_ : i + 1 == parts.size() ? has_out_bias_ : has_qkv_bias_) = true;
      }
      has_head_norms_ = has_head_norms_ || file_.find(layer_path(block, 1) + ".q_norm");
      has_inner_norms_ = has_inner_norms_ || file_.find(layer_path(block, 1) + ".inner_norm");
    }
    is_ternary_ = ternary != 0;
    if (is_ternary_ && ternary != 2 * sizes_.blocks)
      problems_.add("blobs: " + std::to_string(ternary) + " of " + std::to_string(2 * sizes_.blocks) +
                    " layers have ternary matrices; all or none must");
  }

  void choose_family() {
    const char* name = "llama";
    if (is_ternary_ || has_inner_norms_)
      name = "bitnet";
    else if (has_head_norms_)
      name = "qwen3";
    else if (has_qkv_bias_ && !has_out_bias_ && !has_mlp_bias_)
      name = "qwen2";
    family_ = find_family(name);
    const bool is_bitnet = family_->name == "bitnet";
    if (has_mlp_bias_ && family_->name != "llama")
      problems_.add("biases of gated units do not go with norms of queries and keys, or inner ones");
    if (is_bitnet && (has_qkv_bias_ || has_out_bias_ || has_head_norms_))
      problems_.add("biases and norms of queries and keys do not go with ternary matrices");
    if (!is_bitnet && sizes_.activation != "silu")
      problems_.add("transformer.dims.activation: " + sizes_.activation + " is of models with ternary matrices alone");
  }

  std::string name_of(std::string_view part, const std::optional<std::size_t>& block, bool is_bias = false) const {
    return tensor_name(*family_, false, true, part, block, is_bias);
  }
  void take(const Status& status) {
    if (!status) problems_.add(status.error().text());
  }
  /// A blob that holds one tensor.
  void add_whole(const std::string& path, std::string name, const Shape& shape) {
    const LoomBlob* const blob = find(path);
    if (!blob) return problems_.add("blob '" + path + "' is not there");
    std::size_t count = 1;
    for (const std::size_t extent : shape) count *= extent;
    take(tensors_->add_numbers(std::move(name), shape, *blob, count, 0));
  }

  void add_globals() {
    add_whole("transformer.embeddings", name_of("token_embd", std::nullopt), {sizes_.vocabulary, sizes_.width});
    if (!sizes_.is_tied)
      add_whole("transformer.lm_head", name_of("output", std::nullopt), {sizes_.vocabulary, sizes_.width});
    add_whole("transformer.final_norm", name_of("output_norm", std::nullopt), {sizes_.width});
    if (find("transformer.lm_head.q4_0"))
      warnings_.emplace_back("the head's matrix is read as float32; its copy in blocks is passed over");
  }

  void add_block(std::size_t block) {
    add_whole(layer_path(block, 0), name_of("attn_norm", block), {sizes_.width});
    add_parts(block, 1);
    if (has_head_norms_) {
      add_whole(layer_path(block, 1) + ".q_norm", name_of("attn_q_norm", block), {sizes_.head_dim});
      add_whole(layer_path(block, 1) + ".k_norm", name_of("attn_k_norm", block), {sizes_.head_dim});
    }
    add_whole(layer_path(block, 2), name_of("ffn_norm", block), {sizes_.width});
    add_parts(block, 3);
    if (family_->name != "bitnet") return;
    add_inner_norm(layer_path(block, 1), name_of("attn_sub_norm", block), sizes_.queries());
    add_inner_norm(layer_path(block, 3), name_of("ffn_sub_norm", block), sizes_.hidden);
  }
  /// There a norm without gains is one with gains of 1.
  void add_inner_norm(const std::string& layer, std::string name, std::size_t count) {
    if (file_.find(layer + ".inner_norm")) return add_whole(layer + ".inner_norm", std::move(name), {count});
    tensors_->add_ones(std::move(name), count);
  }

  bool has_bias_tensor(std::string_view part) const {
    if (part.starts_with("ffn")) return has_mlp_bias_;
    if (part == "attn_output") return has_out_bias_ || (family_->name != "qwen2" && has_qkv_bias_);
    return has_qkv_bias_ || has_out_bias_;
  }

  void add_parts(std::size_t block, std::size_t part) {
    const std::vector<Part> parts = parts_of(part);
    const Biases biases = biases_of(block, part);
    std::size_t offset = 0, bias_at = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const bool is_bias = parts[i].in == 0;
      if (!is_bias) {
        add_matrix(block, part, i, parts[i], offset, biases);
        offset += size_of(parts[i]);
        continue;
      }
      if (biases.blob && has_bias_tensor(parts[i].name))
        take(tensors_->add_numbers(name_of(parts[i].name, block, true), {parts[i].out}, *biases.blob, biases.count,
                                   biases.first + bias_at));
      bias_at += parts[i].out;
    }
  }

  void add_matrix(std::size_t block, std::size_t part, std::size_t index, const Part& matrix, std::size_t offset,
                  const Biases& whole) {
    const std::string path = layer_path(block, part);
    std::string name = name_of(matrix.name, block);
    const Shape shape{matrix.out, matrix.in};
    const Form form = form_of(block, part);
    if (form == Form::numbers) {
      if (whole.blob) return take(tensors_->add_numbers(std::move(name), shape, *whole.blob, whole.count, offset));
      if (index == 0) problems_.add("blob '" + path + "' is not there");
      return;
    }
    const std::string own = form == Form::blocks
                                ? path + ".q4_0." + std::to_string((part == 1 ? kQueryBlocks : kGateBlocks) + index)
                                : path + ".bitnet_ternary." + std::to_string(kTernaryKey + offset);
    const LoomBlob* const blob = find(own);
    if (!blob) return problems_.add("blob '" + own + "' is not there");
    take(form == Form::blocks ? tensors_->add_blocks(std::move(name), shape, *blob)
                              : tensors_->add_ternary(name, shape, *blob));
  }

  Json config() const {
    Json config{{"model_type", std::string(family_->name)},
                {"vocab_size", sizes_.vocabulary},
                {"hidden_size", sizes_.width},
                {"intermediate_size", sizes_.hidden},
                {"num_hidden_layers", sizes_.blocks},
                {"num_attention_heads", sizes_.heads},
                {"num_key_value_heads", sizes_.kv_heads},
                {"head_dim", sizes_.head_dim},
                {"max_position_embeddings", kContext},
                {"rms_norm_eps", sizes_.epsilon},
                {"rope_theta", sizes_.theta},
                {"hidden_act", sizes_.activation},
                {"tie_word_embeddings", sizes_.is_tied}};
    const bool states_biases = family_->name == "llama" || family_->name == "qwen3";
    if (states_biases && (has_qkv_bias_ || has_out_bias_)) config["attention_bias"] = true;
    if (has_mlp_bias_) config["mlp_bias"] = true;
    // Its matrices are multiplied with their scales.
    if (is_ternary_)
      config["quantization_config"] = Json{{"quant_method", "bitnet"}, {"linear_class", "autobitlinear"}};
    return config;
  }

  const formats::LoomEntityFile& file_;
  const std::string& path_;
  std::shared_ptr<LoomTensors> tensors_;
  const Family* family_ = nullptr;
  Sizes sizes_;
  bool has_qkv_bias_ = false, has_out_bias_ = false, has_mlp_bias_ = false;
  bool has_head_norms_ = false, has_inner_norms_ = false, is_ternary_ = false;
  std::set<std::string> used_;
  std::vector<std::string> warnings_{"positions to 2048, Loom's default: the file does not say how many"};
  Problems problems_;
};

}  // namespace

Result<ModelFiles> loom_model(const formats::LoomEntityFile& file, const std::string& path) {
  if (file.transformer().is_null())
    return fail(Errc::unsupported, path + ": a network of Loom and no language model; other commands take it as it is");
  return ModelReader(file, path).read();
}

}  // namespace weft::models::internal
