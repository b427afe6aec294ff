// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "agent/environments/environment.hpp"

#include "core/option_row.hpp"
#include "core/result.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft::agent {

/// All with eligibility traces and bounded steps. actor_critic: a policy and the value of its states; q, sarsa: the
/// value of each action, by the best next one or by the one that is taken.
enum class Algorithm : int { actor_critic, q, sarsa };
std::string_view name(Algorithm algorithm) noexcept;

/// The section "reinforcement" of a network file.
struct ReinforcementOptions {
  EnvironmentOptions environment{};
  std::uint32_t environments = 1;  // of that kind, each a session of the mesh
  Algorithm algorithm = Algorithm::actor_critic;
  double discount = 0.99;                          // gamma
  double lambda = 0.8;                             // of the traces
  double entropy = 0.01;                           // tau, weight of the policy's entropy
  double actor_bound = 3.0;                        // kappa of the steps of the actor's layers
  double critic_bound = 2.0;                       // and of the critic's
  double least_deviation = 0.01;                   // of each value of a policy of real values
  bool normalize = true;                           // observations, by their means and deviations so far
  bool scale_rewards = true;                       // by the deviation of the discounted rewards so far
  std::uint64_t seed = 0;                          // environment and exploration
  std::uint64_t steps = 0;                         // of a run of `weft live`; 0: until it is stopped
  std::string input{};                             // port of the observations; empty: the only one
  std::string actor{"policy"}, critic{"value"};    // outputs; q and sarsa have the critic alone
  double explore_begin = 1.0, explore_end = 0.01;  // share of actions at random (q, sarsa)
  std::uint64_t explore_steps = 10000;             // in which it falls in a straight line
};

/// Options of the section; each is declared in reinforcement_options.cpp.
const std::vector<OptionRow>& reinforcement_rows();

/// @error names the path ("reinforcement.discount")
Result<ReinforcementOptions> read_reinforcement(std::string_view json);
/// The section as JSON; reads back equal.
std::string write_reinforcement(const ReinforcementOptions& options);

}  // namespace weft::agent
