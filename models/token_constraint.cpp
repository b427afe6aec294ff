// SPDX-License-Identifier: Apache-2.0

#include "models/token_constraint.hpp"

#include <utility>

namespace weft::models {

const std::string& TokenBytes::of(text::TokenId id) {
  static const std::string kNone;
  if (known_.empty()) known_.resize(tokenizer_.size());
  if (id >= known_.size()) return kNone;
  std::optional<std::string>& known = known_[id];
  if (!known) known = tokenizer_.is_special(id) ? std::string() : tokenizer_.token_bytes(id);
  return *known;
}

Sampler::Mask TokenConstraint::mask(std::function<bool(text::TokenId)> ends) {
  if (!state_) return nullptr;
  return [this, ends = std::move(ends)](text::TokenId id) {
    if (ends(id)) return state_->is_complete();
    const std::string& bytes = bytes_.of(id);
    return !bytes.empty() && state_->allows(bytes);
  };
}

std::string TokenConstraint::described() const {
  if (!state_) return {};
  return "; grammar '" + name_ + "'" +
         (state_->met_limit()
              ? " has more than 2^14 ways to go on at once, or 2^20 places for one token, which are not followed"
              : "");
}

}  // namespace weft::models
