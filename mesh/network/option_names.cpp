// SPDX-License-Identifier: Apache-2.0

#include "mesh/network/option_names.hpp"

#include "core/near_word.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace weft::mesh {
namespace {

using Pair = std::pair<std::string_view, std::string_view>;

/// Keys of Keras, PyTorch, ONNX and JAX, and the keys here.
constexpr std::array kElsewhere{
    Pair{"units", "out"},
    Pair{"neurons", "out"},
    Pair{"nodes", "out"},
    Pair{"width", "out"},
    Pair{"features", "out"},
    Pair{"out_features", "out"},
    Pair{"output", "out"},
    Pair{"outputs", "out"},
    Pair{"output_dim", "out"},
    Pair{"output_size", "out"},
    Pair{"hidden", "out"},
    Pair{"hidden_size", "out"},
    Pair{"channels", "out"},
    Pair{"out_channels", "out"},
    Pair{"filters", "out"},
    Pair{"classes", "out"},
    Pair{"num_classes", "out"},
    Pair{"embedding_dim", "out"},
    Pair{"kernel_size", "kernel"},
    Pair{"kernel_shape", "kernel"},
    Pair{"pool_size", "kernel"},
    Pair{"strides", "stride"},
    Pair{"pads", "padding"},
    Pair{"dilations", "dilation"},
    Pair{"group", "groups"},
    Pair{"act", "activation"},
    Pair{"activation_fn", "activation"},
    Pair{"nonlinearity", "activation"},
    Pair{"use_bias", "bias"},
    Pair{"initializer", "init"},
    Pair{"kernel_initializer", "init"},
    Pair{"p", "rate"},
    Pair{"prob", "rate"},
    Pair{"dropout", "rate"},
    Pair{"vocab", "vocabulary"},
    Pair{"vocab_size", "vocabulary"},
    Pair{"num_embeddings", "vocabulary"},
    Pair{"num_heads", "heads"},
    Pair{"n_heads", "heads"},
    Pair{"eps", "epsilon"},
};

}  // namespace

std::optional<std::string_view> meant_option(std::string_view given, std::span<const std::string_view> known) {
  for (const auto& [theirs, ours] : kElsewhere)
    if (theirs == given && (ours == "out" || std::find(known.begin(), known.end(), ours) != known.end())) return ours;
  return nearest_word(given, known);
}

}  // namespace weft::mesh
