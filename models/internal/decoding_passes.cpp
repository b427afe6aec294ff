// SPDX-License-Identifier: Apache-2.0

#include "models/internal/decoding_passes.hpp"

#include "models/decoding_batch.hpp"

#include "mesh/mesh_access.hpp"

#include "scheduler/executor.hpp"

#include <algorithm>
#include <utility>

namespace weft::models::internal {
namespace {

/// Tokens of a prompt that pass the layers at once, and of what is left of it: each pass reads all weights. Between 32
/// and 128 prompts take 5 to 30 % less time, with 256 no less than with 128 (two cores of a Xeon, 135 million weights).
constexpr std::size_t kBlockTokens = 32, kSmallTokens = 8, kNarrowTokens = 128;
/// The same of a device, whose products want many rows, and tokens of its other passes: those of accept_each.
constexpr std::size_t kDeviceTokens = 512;
constexpr std::size_t kFewTokens[] = {2, 4, 16}, kTile = 64;

/// Logits of a token.
std::size_t vocabulary_of(const mesh::Mesh& mesh) {
  const mesh::Graph& graph = mesh.graph();
  if (graph.outputs().empty()) return 1;
  const mesh::Node& logits = graph.nodes()[graph.outputs().front()];
  return logits.layer ? logits.layer->out_shape().back() : logits.width;
}

}  // namespace

Result<DecodingPasses> DecodingPasses::make(const mesh::Mesh& mesh, std::size_t sequences, std::size_t context) {
  const bool may_have_device = mesh::MeshAccess::copies_on_device(mesh);
  DecodingPasses passes(mesh.spec(), context,
                        {mesh::MeshAccess::executor(mesh).concurrency(), mesh.options().wide_from, !may_have_device});
  // The logits of all tokens of a pass are one layer's values.
  const std::size_t fits = std::max<std::size_t>(mesh::kMaxWidth / vocabulary_of(mesh), 1),
                    most = fits < kTile ? fits : fits / kTile * kTile;
  using Logits = DecodingPass::Logits;
  const auto add = [&](std::size_t tokens, std::size_t rows, Logits logits) -> Status {
    WEFT_TRY(DecodingPass pass, passes.make_pass(std::min(tokens, context), rows, logits));
    passes.all_.push_back(std::move(pass));
    return {};
  };
  // As Place has them.
  WEFT_CHECK(add(1, sequences, Logits::each));
  WEFT_CHECK(add(kSmallTokens, 1, Logits::each));
  WEFT_CHECK(add(kBlockTokens, 1, Logits::each));
  WEFT_CHECK(add(std::min(may_have_device ? kDeviceTokens : kNarrowTokens, most), 1, Logits::none_apart));
  if (may_have_device)
    for (const std::size_t few : kFewTokens) WEFT_CHECK(add(few, 1, Logits::each));
  return passes;
}

Result<DecodingPass> DecodingPasses::make_pass(std::size_t tokens, std::size_t rows,
                                               DecodingPass::Logits logits) const {
  return DecodingPass::make(*spec_, tokens, context_, rows, sharing_, logits);
}

Result<bool> DecodingPasses::narrow() {
  if (widest().tokens() <= kNarrowTokens) return false;
  WEFT_TRY(all_[kWidest], make_pass(kNarrowTokens, 1, DecodingPass::Logits::none_apart));
  return true;
}

DecodingPass& DecodingPasses::widest_within(std::size_t tokens) noexcept {
  DecodingPass* widest = &all_[kStep];
  for (const Place each : {kSmall, kBlock, kWidest})
    if (all_[each].tokens() <= tokens && all_[each].tokens() > widest->tokens()) widest = &all_[each];
  return *widest;
}

DecodingPass* DecodingPasses::narrowest_for(std::size_t tokens) noexcept {
  DecodingPass* narrowest = nullptr;
  for (std::size_t i = 0; i < all_.size(); ++i) {
    DecodingPass& each = all_[i];
    if (i == kWidest || each.tokens() < tokens) continue;
    if (!narrowest || each.tokens() < narrowest->tokens()) narrowest = &each;
  }
  return narrowest;
}

Result<DecodingPass*> DecodingPasses::exactly(std::size_t tokens) {
  for (const Place each : {kStep, kSmall, kBlock})
    if (all_[each].tokens() == tokens) return &all_[each];
  const auto found = exact_.find(tokens);
  if (found != exact_.end()) return &found->second;
  WEFT_TRY(DecodingPass made, make_pass(tokens));
  return &exact_.emplace(tokens, std::move(made)).first->second;
}

Result<DecodingPass*> DecodingPasses::together() {
  if (!together_) {
    WEFT_TRY(together_, make_pass(1, DecodingBatch::kMostTogether));
  }
  return &*together_;
}

}  // namespace weft::models::internal
