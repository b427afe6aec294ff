// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "bridge/internal/plan_writer.hpp"

#include <cstddef>

namespace weft::bridge::internal {

/// Reads one layer of a payload and places it. Layers of sequences read [tokens, features]; `tokens` is 0 for others.
/// @error naming layer and field
using PlaceKind = Status (*)(PlanWriter& writer, const Fields& layer, std::size_t tokens);

Status place_dense(PlanWriter& writer, const Fields& layer, std::size_t tokens);
Status place_cnn1(PlanWriter& writer, const Fields& layer, std::size_t tokens);
Status place_cnn2(PlanWriter& writer, const Fields& layer, std::size_t tokens);
Status place_cnn3(PlanWriter& writer, const Fields& layer, std::size_t tokens);
Status place_mha(PlanWriter& writer, const Fields& layer, std::size_t tokens);
Status place_lstm(PlanWriter& writer, const Fields& layer, std::size_t tokens);
Status place_rnn(PlanWriter& writer, const Fields& layer, std::size_t tokens);
Status place_layernorm(PlanWriter& writer, const Fields& layer, std::size_t tokens);
/// Reads the port that was chosen last, and makes its values token ids.
Status place_embedding(PlanWriter& writer, const Fields& layer, std::size_t tokens);
Status place_rmsnorm(PlanWriter& writer, const Fields& layer, std::size_t tokens);
Status place_swiglu(PlanWriter& writer, const Fields& layer, std::size_t tokens);

/// The field that tells how wide the values of a token are that a layer of this kind reads; empty: it reads no tokens.
std::string_view token_width_field(Bedrock kind) noexcept;
/// Null: `residual` and `mixer`, which are no kinds of chains.
PlaceKind place_of(Bedrock kind) noexcept;

/// @error parse_failed, out_of_range: layer i says that it is another one, or of another kind
Status check_index_and_kind(const Fields& layer, std::size_t index, Bedrock kind);

/// The networks of the bedrock `mixer`.
Result<NetworkPlan> plan_mixer(const Fields& payload, const Json& layers);

}  // namespace weft::bridge::internal
