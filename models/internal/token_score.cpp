// SPDX-License-Identifier: Apache-2.0

#include "models/internal/token_score.hpp"

#include "kernels/float_environment.hpp"
#include "kernels/math.hpp"

#include <algorithm>
#include <vector>

namespace weft::models::internal {
namespace {

/// Logarithms of shares: a logit less this.
float log_total(std::span<const float> logits) {
  const float largest = *std::max_element(logits.begin(), logits.end());
  double total = 0;
  for (const float logit : logits) total += static_cast<double>(kernels::math::exp(logit - largest));
  return largest + kernels::math::log(static_cast<float>(total));
}

}  // namespace

TokenScore score_of(std::span<const float> logits, text::TokenId id, std::size_t likeliest) {
  const kernels::FlushSubnormals exact;
  const float total = log_total(logits);
  TokenScore score{id, logits[id] - total, {}};
  std::vector<text::TokenId> order(logits.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<text::TokenId>(i);
  const auto most = static_cast<std::ptrdiff_t>(std::min(likeliest, order.size()));
  std::partial_sort(order.begin(), order.begin() + most, order.end(), [&](text::TokenId a, text::TokenId b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  });
  for (auto each = order.begin(); each != order.begin() + most; ++each)
    score.likeliest.push_back({*each, logits[*each] - total});
  return score;
}

}  // namespace weft::models::internal
