// SPDX-License-Identifier: Apache-2.0

#include "models/internal/decoding_passes.hpp"

#include "models/decoding_batch.hpp"

#include "mesh/mesh_access.hpp"

#include "scheduler/executor.hpp"

#include <algorithm>
#include <utility>

namespace weft::models::internal {
namespace {

/// Tokens of a prompt that pass the layers at once, and of what is left of it: each pass reads and unpacks all weights.
/// Of 135 million weights prompts take 5 to 30 % less time with 128 than with 32 (two cores of a Xeon), 6 % less with
/// 256 than with 128, and 20 % more with 512, whose rows leave the caches (int4 and int8, two cores of a Zen 5).
constexpr std::size_t kWideTokens = 256, kNarrowTokens = 128, kBlockTokens = 32, kSmallTokens = 8;
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
  passes.widest_tokens_ = std::min({may_have_device ? kDeviceTokens : kWideTokens, most, context});
  using Logits = DecodingPass::Logits;
  const auto add = [&](std::size_t tokens, std::size_t rows, Logits logits) -> Status {
    WEFT_TRY(DecodingPass pass, passes.make_pass(std::min(tokens, context), rows, logits));
    passes.all_.push_back(std::move(pass));
    return {};
  };
  // As Place has them.
  WEFT_CHECK(add(1, sequences, Logits::each));
  if (!may_have_device) return passes;
  WEFT_CHECK(add(kSmallTokens, 1, Logits::each));
  WEFT_CHECK(add(kBlockTokens, 1, Logits::each));
  WEFT_CHECK(add(passes.widest_tokens_, 1, Logits::none_apart));
  for (const std::size_t few : kFewTokens) WEFT_CHECK(add(few, 1, Logits::each));
  return passes;
}

Result<DecodingPass> DecodingPasses::make_pass(std::size_t tokens, std::size_t rows,
                                               DecodingPass::Logits logits) const {
  return DecodingPass::make(*spec_, tokens, context_, rows, sharing_, logits);
}

Result<bool> DecodingPasses::narrow() {
  if (!has_all() || widest_tokens_ <= kNarrowTokens) return false;
  WEFT_TRY(all_[kWidest], make_pass(kNarrowTokens, 1, DecodingPass::Logits::none_apart));
  widest_tokens_ = kNarrowTokens;
  return true;
}

Result<DecodingPass*> DecodingPasses::widest_within(std::size_t tokens) {
  const std::size_t most = std::min(tokens, context_);
  const auto fits = [&](std::size_t width) { return width <= most; };
  const std::size_t shorter = fits(kBlockTokens) ? kBlockTokens : fits(kSmallTokens) ? kSmallTokens : 1;
  if (has_all() && fits(widest_tokens_) && widest_tokens_ > shorter) return &all_[kWidest];
  for (const std::size_t width : {widest_tokens_, std::min(widest_tokens_, kNarrowTokens)})
    if (!has_all() && fits(width) && width > shorter)
      return made_once(for_body_, width, DecodingPass::Logits::none_apart);
  return exactly(shorter);
}

Result<DecodingPass*> DecodingPasses::made_once(std::map<std::size_t, DecodingPass>& passes, std::size_t tokens,
                                                DecodingPass::Logits logits) const {
  const auto found = passes.find(tokens);
  if (found != passes.end()) return &found->second;
  WEFT_TRY(DecodingPass made, make_pass(tokens, 1, logits));
  return &passes.emplace(tokens, std::move(made)).first->second;
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
  for (std::size_t i = 0; i < std::min<std::size_t>(all_.size(), kWidest); ++i)
    if (all_[i].tokens() == tokens) return &all_[i];
  return made_once(exact_, tokens, DecodingPass::Logits::each);
}

Result<DecodingPass*> DecodingPasses::together() {
  if (!together_) {
    WEFT_TRY(together_, make_pass(1, DecodingBatch::kMostTogether));
  }
  return &*together_;
}

}  // namespace weft::models::internal
