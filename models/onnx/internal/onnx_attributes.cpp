// SPDX-License-Identifier: Apache-2.0

// Attributes of operators. Defaults are those of ONNX's documentation and, of com.microsoft's operators, of
// onnxruntime's.

#include "models/onnx/internal/onnx_operators.hpp"

#include "core/printable.hpp"

#include <algorithm>
#include <cstdlib>
#include <type_traits>

namespace weft::models::onnx {
namespace {

using formats::OnnxValue;

/// An operator's attributes, with spaces between them. NAME is read, or changes nothing here; NAME=A|B is not read, and
/// computes as it does here where its value is one of these.
struct KnownAttributes {
  std::string_view type, names;
};
constexpr std::string_view kReduced = "axes keepdims noop_with_empty_axes",
                           kRecurrent =
                               "activation_alpha activation_beta activations clip direction hidden_size "
                               "input_forget layout linear_before_reset",
                           kNorm = "axis epsilon stash_type=1";
constexpr KnownAttributes kKnownAttributes[] = {
    {"Attention", "is_causal kv_num_heads q_num_heads qk_matmul_output_mode scale softcap softmax_precision"},
    {"AveragePool", "auto_pad ceil_mode count_include_pad dilations kernel_shape pads strides"},
    {"BatchNormalization", "epsilon momentum spatial=1 training_mode"},
    {"Cast", "round_mode=up saturate=1 to"},
    {"Concat", "axis"},
    {"Constant", "value value_float value_floats value_int value_ints value_string value_strings"},
    {"ConstantOfShape", "value"},
    {"Conv", "auto_pad dilations group kernel_shape pads strides"},
    {"ConvTranspose", "auto_pad dilations group kernel_shape output_padding output_shape pads strides"},
    {"DequantizeLinear", "axis block_size output_dtype=0|1"},
    {"Dropout", "ratio seed"},
    {"Elu", "alpha"},
    {"Flatten", "axis"},
    {"GRU", kRecurrent},
    {"Gather", "axis"},
    {"Gelu", "approximate"},
    {"Gemm", "alpha beta transA transB"},
    {"GroupNormalization", "epsilon num_groups stash_type=1"},
    {"GroupQueryAttention",
     "do_rotary k_quant_type=NONE kv_cache_bit_width=0 kv_num_heads local_window_size num_heads qk_output "
     "rotary_interleaved scale smooth_softmax softcap v_quant_type=NONE"},
    {"If", "else_branch then_branch"},
    {"InstanceNormalization", "epsilon"},
    {"LSTM", kRecurrent},
    {"LayerNormalization", kNorm},
    {"LeakyRelu", "alpha"},
    {"MaxPool", "auto_pad ceil_mode dilations kernel_shape pads storage_order strides"},
    {"Mod", "fmod=0"},
    {"MultiHeadAttention", "mask_filter_value num_heads scale unidirectional"},
    {"Pad", "mode pads value"},
    {"RMSNormalization", kNorm},
    {"RNN", kRecurrent},
    {"ReduceMax", kReduced},
    {"ReduceMean", kReduced},
    {"ReduceProd", kReduced},
    {"ReduceSum", kReduced},
    {"Reshape", "allowzero"},
    {"RotaryEmbedding", "interleaved is_packed_batching=0 num_heads rotary_embedding_dim scale"},
    {"Shape", "end start"},
    {"Slice", "axes ends starts"},
    {"Softmax", "axis"},
    {"Split", "axis num_outputs split"},
    {"Squeeze", "axes"},
    {"Swish", "alpha"},
    {"Transpose", "perm"},
    {"Trilu", "upper"},
    {"Unsqueeze", "axes"}};

/// A row's words, one after the other.
std::string_view next_word(std::string_view& rest, char end) {
  const std::size_t length = std::min(rest.find(end), rest.size());
  const std::string_view word = rest.substr(0, length);
  rest.remove_prefix(std::min(length + 1, rest.size()));
  return word;
}

template <class Number>
std::string list_of(const std::vector<Number>& values) {
  constexpr std::size_t kMost = 8;
  std::string text = "[";
  for (std::size_t i = 0; i < std::min(values.size(), kMost); ++i) {
    text += i == 0 ? "" : ", ";
    if constexpr (std::is_same_v<Number, std::string>)
      text += "'" + printable(values[i]) + "'";
    else
      text += std::to_string(values[i]);
  }
  return text + (values.size() > kMost ? ", ...]" : "]");
}

std::string value_text(const OnnxValue& value) {
  return std::visit(
      [](const auto& held) -> std::string {
        using Held = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<Held, float> || std::is_same_v<Held, std::int64_t>)
          return std::to_string(held);
        else if constexpr (std::is_same_v<Held, std::string>)
          return "'" + printable(held) + "'";
        else if constexpr (std::is_same_v<Held, formats::Tensor>)
          return "a tensor " + to_string(held.shape);
        else if constexpr (std::is_same_v<Held, std::shared_ptr<const formats::OnnxGraph>>)
          return "a graph";
        else
          return list_of(held);
      },
      value);
}

/// True for one of several values, A|B.
bool is_one_of(const OnnxValue& value, std::string_view wanted) {
  while (!wanted.empty()) {
    const std::string_view word = next_word(wanted, '|');
    const auto* const text = std::get_if<std::string>(&value);
    const auto* const number = std::get_if<std::int64_t>(&value);
    if ((text && *text == word) || (number && std::to_string(*number) == word)) return true;
  }
  return false;
}

}  // namespace

Status check_attributes(const formats::OnnxNode& node) {
  const auto* const row = std::find_if(std::begin(kKnownAttributes), std::end(kKnownAttributes),
                                       [&](const KnownAttributes& each) { return each.type == node.type; });
  std::string problems;
  for (const auto& [name, value] : node.attributes) {
    bool is_known = false;
    std::string_view rest = row == std::end(kKnownAttributes) ? std::string_view() : row->names, wanted;
    while (!rest.empty() && !is_known) {
      wanted = next_word(rest, ' ');
      is_known = next_word(wanted, '=') == name;
    }
    if (is_known && (wanted.empty() || is_one_of(value, wanted))) continue;
    problems += std::string(problems.empty() ? "" : ", ") + "attribute '" + printable(name) + "' is " +
                value_text(value) +
                (is_known ? ", expected " + std::string(wanted.substr(0, wanted.find('|'))) : " and not known");
  }
  if (problems.empty()) return {};
  return fail(Errc::unsupported, std::move(problems));
}

}  // namespace weft::models::onnx
