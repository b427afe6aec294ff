// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/views.hpp"

#include <cstdint>
#include <optional>
#include <string_view>

namespace weft::kernels {

/// Losses by the rows of kernels/formulas/losses.def; the row number is in files.
enum class Loss : int {
#define WEFT_LOSS(number, name, targets) name = number,
#include "kernels/formulas/losses.def"
#undef WEFT_LOSS
};
inline constexpr int kLossCount =
#define WEFT_LOSS(number, name, targets) 1 +
#include "kernels/formulas/losses.def"
#undef WEFT_LOSS
    0;
/// Targets of a loss: a label a row, a label for each head of a row, a number for each value.
enum class LossTargets : int { labels, head_labels, values };

std::string_view name(Loss loss) noexcept;
std::optional<Loss> parse_loss(std::string_view text) noexcept;
LossTargets targets_of(Loss loss) noexcept;

/// With e = exp(x - largest) and S = sum(e) along each row:
///   loss = log(S) - (x[label] - largest);  dx = e / S, less 1 at the label. dx may be logits.
/// @shape  logits, dx [rows, cols], labels [rows], each below cols; loss [rows] or null
/// @exact  the sum by rule R2
void cross_entropy(const ConstMatrixView& logits, const std::uint32_t* labels, float* loss,
                   const MatrixView& dx) noexcept;

/// The loss of each row, and its slope. With n = cols and l the loss of one value (kernels/formulas/losses/):
///   loss = sum(l(x, target, setting)) / n;  dx = l'(x, target, setting) / n. dx may be x or target.
/// @shape  x, target, dx [rows, cols]; loss [rows] or null. `kind` has values as targets; `setting`: delta, if it has
/// one
/// @exact  the sum by rule R2; divisions correctly rounded
void value_loss(Loss kind, float setting, const ConstMatrixView& x, const ConstMatrixView& target, float* loss,
                const MatrixView& dx) noexcept;

}  // namespace weft::kernels
