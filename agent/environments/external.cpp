// SPDX-License-Identifier: Apache-2.0

#include "agent/environments/external.hpp"

#include "core/assert.hpp"

#include <algorithm>
#include <cfloat>
#include <cmath>

namespace weft::agent {

void ExternalEnvironment::begin(std::span<double> state, RandomStream&) const {
  WEFT_ASSERT(answer_.observation.size() == state.size(), "an answer is put in before a reset or a step");
  std::copy(answer_.observation.begin(), answer_.observation.end(), state.begin());
}

Outcome ExternalEnvironment::move(std::span<double> state, const Action&, std::uint64_t, RandomStream& random) const {
  begin(state, random);
  return answer_.outcome;
}

void ExternalEnvironment::observe(std::span<const double> state, std::uint64_t, std::span<float> to) const {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = static_cast<float>(state[i]);
}

bool ExternalEnvironment::is_possible(std::span<const double> state) const {
  return std::all_of(state.begin(), state.end(), [](double value) { return std::fabs(value) <= FLT_MAX; });
}

std::unique_ptr<Environment> make_external(const EnvironmentOptions& options) {
  return std::make_unique<ExternalEnvironment>(options);
}

}  // namespace weft::agent
