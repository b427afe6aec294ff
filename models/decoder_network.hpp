// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "models/decoder.hpp"

#include "mesh/network/network.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::models {

/// A parameter of a decoder's network and the part of the model that it is.
struct ParameterPlace {
  std::uint32_t z = 0;    // its layer stands at [z, 0, 0, 0]
  std::string parameter;  // "layers[1].query"
  std::string_view part;  // as GGUF calls it, "attn_q"
  bool is_bias = false;
  std::optional<std::size_t> block;
  std::size_t out = 0, in = 0;          // in 0: a vector
  std::size_t first_row = 0, rows = 0;  // where its rows stand among those of the part's tensor
  std::size_t heads = 0;                // of queries and keys: whose rows GGUF may reorder
  bool is_transposed = false;           // the files hold [in, out]
};

/// The network of a decoder: input "tokens" [tokens], output "logits" [tokens, vocabulary]; the embedding at z = 0, a
/// cell a block, then the last norm and the head.
struct DecoderNetwork {
  mesh::NetworkSpec spec;
  std::vector<ParameterPlace> places;
};
DecoderNetwork decoder_network(const Decoder& decoder, const std::string& name, std::size_t tokens);

}  // namespace weft::models
