// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "models/internal/decoding_pass.hpp"

#include "mesh/mesh.hpp"

#include "core/result.hpp"

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace weft::models::internal {

/// The passes of a batch: a token of each sequence, some numbers of tokens of one, and one token a row of any. Those of
/// `all` may be a device's too, and stay where they are. Without a device all but the first are made when they are
/// needed: each takes about a millisecond, which a first token would else wait for.
class DecodingPasses {
 public:
  /// @error as DecodingPass::make
  static Result<DecodingPasses> make(const mesh::Mesh& mesh, std::size_t sequences, std::size_t context);

  /// A token of each sequence, with its logits.
  DecodingPass& step() noexcept { return all_[kStep]; }
  const DecodingPass& step() const noexcept { return all_[kStep]; }
  /// The most tokens of one sequence that pass at once, for the body alone where the head can be run apart.
  std::size_t widest_tokens() const noexcept { return widest_tokens_; }
  /// Replaces it by one of kNarrowTokens, before a device has it. False: it has no more. @error as DecodingPass::make
  Result<bool> narrow();
  /// Of those that so many tokens of one sequence fill, the one of most tokens. @pre tokens > 0
  /// @error as DecodingPass::make
  Result<DecodingPass*> widest_within(std::size_t tokens);
  /// Of those that hold so many tokens of one sequence, with the logits after each, the one of fewest; null: none.
  DecodingPass* narrowest_for(std::size_t tokens) noexcept;
  /// That of exactly so many tokens of one sequence, with the logits after each, made when it is asked for first.
  /// @error as DecodingPass::make
  Result<DecodingPass*> exactly(std::size_t tokens);
  /// That of one token a row, of DecodingBatch::kMostTogether rows, made when it is asked for first.
  /// @error as DecodingPass::make
  Result<DecodingPass*> together();

  /// The first, and those of a device.
  std::span<DecodingPass> all() noexcept { return all_; }
  /// Place of a pass of `all` there.
  std::size_t number_of(const DecodingPass& pass) const noexcept {
    return static_cast<std::size_t>(&pass - all_.data());
  }

 private:
  enum Place : std::size_t { kStep, kSmall, kBlock, kWidest, kFirstOfDevice };
  DecodingPasses(const mesh::NetworkSpec& spec, std::size_t context, const DecodingPass::Sharing& sharing)
      : spec_(&spec), context_(context), sharing_(sharing) {}
  /// That of so many tokens among `passes`, made if it is not there.
  Result<DecodingPass*> made_once(std::map<std::size_t, DecodingPass>& passes, std::size_t tokens,
                                  DecodingPass::Logits logits) const;
  bool has_all() const noexcept { return all_.size() > kWidest; }
  Result<DecodingPass> make_pass(std::size_t tokens, std::size_t rows = 1,
                                 DecodingPass::Logits logits = DecodingPass::Logits::each) const;

  const mesh::NetworkSpec* spec_;
  std::size_t context_, widest_tokens_ = 1;
  DecodingPass::Sharing sharing_;
  std::vector<DecodingPass> all_{};
  std::map<std::size_t, DecodingPass> exact_{};     // by tokens
  std::map<std::size_t, DecodingPass> for_body_{};  // by tokens
  std::optional<DecodingPass> together_{};
};

}  // namespace weft::models::internal
