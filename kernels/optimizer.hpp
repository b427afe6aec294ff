// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/rate_schedule.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace weft::kernels {

/// An optimiser; rows and formulas in kernels/formulas/optimizers.def.
enum class OptimizerKind : int {
#define WEFT_OPTIMIZER(number, name, arrays, used, corrects, defaults, takes) name = number,
#include "kernels/formulas/optimizers.def"
#undef WEFT_OPTIMIZER
};
/// Names by number.
std::span<const std::string_view> optimizer_names() noexcept;
/// The options that count for each, by number: their keys, with spaces between, as in its row.
std::span<const std::string_view> optimizer_options() noexcept;

/// Limits on gradients, before all else: on each value, on the norm of a layer's, on the norm of all layers'.
enum class Clip : int { none, value, norm, global_norm };

/// Shares of a step (momentum): velocity_share velocity + gradient_share gradient. They take the place of `nesterov`
/// where one is not 0.
struct StepShares {
  float velocity = 0.0f, gradient = 0.0f;
  bool operator==(const StepShares&) const = default;
};

/// Parameter | default | meaning
/// lr | by rule | learning rate
/// momentum | 0.9, rmsprop 0 | share of the old velocity (momentum, rmsprop)
/// dampening | = momentum | velocity = momentum velocity + (1 - dampening) gradient (momentum)
/// nesterov | false | look-ahead form (momentum)
/// beta1, beta2, epsilon | 0.9, 0.999, 1e-8; lion 0.9, 0.99 | means of gradients (adamw, lion)
/// alpha | 0.99 | share of the old mean of squares (rmsprop)
/// centered | false | divides by the standard deviation (rmsprop)
/// weight_decay | 0 | L2 (sgd, momentum, rmsprop) or decoupled (adamw, lion); biases and gains are spared
/// clip, clip_limit | none, 1 | what is limited, and to what
/// shares | none | of a step whose gradients come late (momentum)
struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::momentum;
  float lr = 0.0f;  // 0: the rule's default
  float momentum = 0.9f, dampening = 0.9f;
  bool nesterov = false;
  float beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-8f;
  float weight_decay = 0.0f;
  float alpha = 0.99f;
  bool centered = false;
  Clip clip = Clip::none;
  float clip_limit = 1.0f;
  StepShares shares{};
  bool operator==(const OptimizerOptions&) const = default;
};

/// The shares of a step with these options; both 0: the velocity alone is the step.
inline StepShares step_shares(const OptimizerOptions& o) noexcept {
  if (o.kind != OptimizerKind::momentum) return {};
  if (o.shares != StepShares{}) return o.shares;
  return o.nesterov ? StepShares{o.momentum, 1.0f} : StepShares{};
}

/// Options with the defaults of an optimiser.
OptimizerOptions default_options(OptimizerKind kind) noexcept;
/// Arrays of state beside each parameter.
std::size_t arrays_of(const OptimizerOptions& options) noexcept;
/// True where an update depends on the number of updates before it.
bool counts_updates(const OptimizerOptions& options) noexcept;

/// One update of n weights.
struct OptimizerArguments {
  std::size_t n = 0;
  float* w = nullptr;
  float *first = nullptr, *second = nullptr, *third = nullptr;  // arrays of state; null: the optimiser has none
  const float* g = nullptr;
  /// As `optimizer_factors` set them; null: the rate is options.lr, and there are no corrections.
  const float* factors = nullptr;
  const float* squares = nullptr;  // one value, the sum of squares of a norm that is limited; null: none is
};

/// Moves weights by their gradients, which are clipped first. Formulas: kernels/formulas/.
/// @shape  w, g, first, second, third [n]
/// @exact  same bits on every ISA
void optimizer_step(const OptimizerArguments& of, const OptimizerOptions& options) noexcept;

/// Errors and inputs of one row whose outer product is the gradient of a matrix [out, in], and the errors that of its
/// bias.
struct OuterProduct {
  const float* dy = nullptr;  // [out]
  const float* x = nullptr;   // [in]; null: of a bias
  std::size_t out = 0, in = 0;
};

/// The update by such gradients, fma(dy[o], x[k], 0), which stay in registers; of a bias dy[o] + 0. `of` is as for
/// `optimizer_step`: arrays are panels, `n` is all of them; it has no `g` and no `squares`.
/// @shape  panels [first, first + count) of a matrix; of a bias all
/// @exact  the bits of `fill` by 0, `outer_accumulate` or `column_accumulate`, then `optimizer_step`
void outer_step(const OptimizerArguments& of, const OuterProduct& product, const OptimizerOptions& options,
                std::size_t first, std::size_t count) noexcept;

/// Numbers of one update that are the same for all weights of a layer.
inline constexpr std::size_t kOptimizerFactors = 3;

/// factors = {lr rate_share(schedule, *updates), 1 - beta1^n, 1 - beta2^n} with n = *updates + 1;  *updates = n. Powers
/// by `math::power` in binary64, 1 - that rounded to binary32: no libm.
void optimizer_factors(std::uint64_t* updates, float lr, float beta1, float beta2, const RateSchedule& schedule,
                       float* factors) noexcept;

}  // namespace weft::kernels
