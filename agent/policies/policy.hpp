// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "agent/environments/environment.hpp"

#include "core/philox.hpp"
#include "core/result.hpp"

#include <cstddef>
#include <memory>
#include <span>

namespace weft::agent {

/// An actor's policy: the distribution of actions that its output stands for, draws from it, and their gradients. What
/// it keeps lasts from a draw to the gradient of the same step, for each session.
/// @thread one at a time
/// @exact  the same bits everywhere: binary64 without fusing, kernels::math
class Policy {
 public:
  virtual ~Policy() = default;
  /// Numbers of the actor's output.
  virtual std::size_t width() const noexcept = 0;
  /// Draws the action of a session. Its values lie in the policy until the session's next draw.
  /// @shape outputs [width()]
  /// @error halted: an output that is not finite, where no action can be drawn
  virtual Result<Action> draw(std::size_t session, std::span<const float> outputs, RandomStream& random) = 0;
  /// The gradient of -(log p(a) + weight H(p)) by the outputs of the session's last draw, a being its action.
  /// @shape to [width()]
  virtual void find_gradient(std::size_t session, double weight, std::span<float> to) const noexcept = 0;
};

/// One of several choices, whose probabilities are the softmax of the outputs.
std::unique_ptr<Policy> make_softmax_policy(std::size_t sessions, std::size_t choices);

/// Real values, each of a normal distribution of its own. Of n values the first n outputs are the means m, the others r
/// give the standard deviations:
///   s = least_deviation + log(1 + exp(r));  a = m + s e, e of the standard normal distribution
///   log p(a) has the slopes e / s by m and (e^2 - 1) / s sigmoid(r) by r;  H(p) has 0 and sigmoid(r) / s
/// Values are kept from -1e18 to 1e18, so that they are finite in any environment.
/// @source Williams 1992, "Simple statistical gradient-following algorithms for connectionist reinforcement learning",
///         section 6; the draws: Box and Muller 1958, "A note on the generation of random normal deviates"
std::unique_ptr<Policy> make_gaussian_policy(std::size_t sessions, std::size_t values, double least_deviation);

/// One draw of the standard normal distribution, from two uniform numbers of 24 bits: |e| < 5.8.
double draw_normal(RandomStream& random) noexcept;

}  // namespace weft::agent
