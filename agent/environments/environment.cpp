// SPDX-License-Identifier: Apache-2.0

#include "agent/environments/environment.hpp"

#include "kernels/float_environment.hpp"

#include "core/assert.hpp"

#include <algorithm>
#include <cmath>

namespace weft::agent {

std::string_view name(EnvironmentKind kind) noexcept { return environment_names()[static_cast<std::size_t>(kind)]; }

const std::vector<std::string_view>& environment_names() {
  static const std::vector<std::string_view> names{
#define WEFT_ENVIRONMENT(name) #name,
#include "agent/environments/environments.def"
#undef WEFT_ENVIRONMENT
  };
  return names;
}

std::unique_ptr<Environment> make_environment(const EnvironmentOptions& options) {
  switch (options.kind) {
#define WEFT_ENVIRONMENT(name) \
  case EnvironmentKind::name:  \
    return make_##name(options);
#include "agent/environments/environments.def"
#undef WEFT_ENVIRONMENT
  }
  WEFT_ASSERT(false, "a kind of environment has a row");
  return nullptr;
}

double uniform(RandomStream& random, double low, double high) noexcept {
  return low + (high - low) * static_cast<double>(random.next_uniform());
}

Environment::Environment(EnvironmentShape shape)
    : shape_(shape), state_(shape.state), observation_(shape.observations) {}

RandomStream Environment::stream() const noexcept {
  RandomStream random(seed_, episode_, RandomPurpose::environment);
  random.seek(position_);
  return random;
}

void Environment::reset(std::uint64_t seed, std::uint64_t episode, std::uint64_t step) {
  const kernels::FlushSubnormals exact;
  step_of_agent_ = step;
  is_begun_ = true;
  seed_ = seed;
  episode_ = episode;
  position_ = steps_ = 0;
  RandomStream random = stream();
  begin(state_, random);
  position_ = random.position();
  observe(state_, steps_, observation_);
}

Outcome Environment::step(const Action& action) {
  const kernels::FlushSubnormals exact;
  RandomStream random = stream();
  Outcome outcome = move(state_, action, steps_, random);
  position_ = random.position();
  ++steps_;
  const bool is_at_limit = shape_.limit != 0 && steps_ >= shape_.limit;
  outcome.truncated = !outcome.terminated && (outcome.truncated || is_at_limit);
  observe(state_, steps_, observation_);
  return outcome;
}

template <class Self, class Archive>
void Environment::visit_fields(Self& self, Archive& archive) {
  archive(Field{"world", Scope::control}, std::span(self.state_));
  archive(Field{"seed", Scope::control}, self.seed_);
  archive(Field{"episode", Scope::control}, self.episode_);
  archive(Field{"position", Scope::control}, self.position_);
  archive(Field{"steps", Scope::control}, self.steps_);
}

void Environment::visit(OutArchive& archive) const { visit_fields(*this, archive); }

bool Environment::visit(InArchive& archive) {
  visit_fields(*this, archive);
  if (archive.has_failed() || (shape_.limit != 0 && steps_ > shape_.limit)) return false;
  if (!std::all_of(state_.begin(), state_.end(), [](double v) { return std::isfinite(v); })) return false;
  is_begun_ = is_possible(state_);
  if (!is_begun_) {
    std::fill(observation_.begin(), observation_.end(), 0.0f);
    const bool is_zero = std::all_of(state_.begin(), state_.end(), [](double v) { return v == 0.0; });
    return is_zero && position_ == 0 && steps_ == 0;
  }
  const kernels::FlushSubnormals exact;
  observe(state_, steps_, observation_);
  return true;
}

}  // namespace weft::agent
