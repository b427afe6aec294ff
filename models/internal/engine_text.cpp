// SPDX-License-Identifier: Apache-2.0

#include "models/internal/engine_text.hpp"

#include <algorithm>

namespace weft::models::internal {

std::vector<text::TokenId> EngineText::tokens(std::size_t count) const {
  const auto& prompt = request.prompt;
  std::vector<text::TokenId> all(prompt.begin(),
                                 prompt.begin() + static_cast<std::ptrdiff_t>(std::min(count, prompt.size())));
  all.insert(all.end(), ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(count - all.size()));
  return all;
}

std::size_t EngineText::most_reused() const noexcept {
  if (!ids.empty()) return to_take();
  return request.scores_prompt ? read : request.prompt.size() - 1;
}

}  // namespace weft::models::internal
