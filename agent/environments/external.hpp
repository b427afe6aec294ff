// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "agent/environments/environment.hpp"
#include "agent/external/answer.hpp"

#include <span>
#include <utility>

namespace weft::agent {

/// The place of an environment outside of this process: its last answer. Whoever drives it puts each answer in before
/// `reset` or `step`.
class ExternalEnvironment final : public Environment {
 public:
  explicit ExternalEnvironment(const EnvironmentOptions& options)
      : Environment({.observations = options.observations,
                     .choices = options.actions,
                     .values = options.values,
                     .state = options.observations}) {}
  void put(Answer answer) { answer_ = std::move(answer); }

 private:
  void begin(std::span<double> state, RandomStream&) const override;
  Outcome move(std::span<double> state, const Action&, std::uint64_t, RandomStream&) const override;
  void observe(std::span<const double> state, std::uint64_t, std::span<float> to) const override;
  bool is_possible(std::span<const double> state) const override;

  Answer answer_;
};

}  // namespace weft::agent
