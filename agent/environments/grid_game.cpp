// SPDX-License-Identifier: Apache-2.0

#include "agent/environments/grid_game.hpp"

#include "core/assert.hpp"

#include <algorithm>
#include <cmath>

namespace weft::agent {
namespace {

bool is_whole(double value) { return value == std::floor(value) && std::fabs(value) < 1e9; }

std::size_t most_numbers(const GridRules& one, const GridRules& other) {
  return std::max(one.numbers(), other.numbers());
}

}  // namespace

std::int32_t GridRules::moved(std::int32_t at, GridMove less, GridMove more, GridMove move) noexcept {
  return std::clamp(at + (move == more) - (move == less), 0, GridPicture::kSide - 1);
}

const std::vector<std::string_view>& grid_game_names() {
  static const std::vector<std::string_view> names{"falling", "lanes", "shooter", "snake"};
  return names;
}

std::unique_ptr<GridRules> make_grid_rules(GridGameKind kind) {
  switch (kind) {
    case GridGameKind::falling:
      return make_falling_rules();
    case GridGameKind::lanes:
      return make_lanes_rules();
    case GridGameKind::shooter:
      return make_shooter_rules();
    case GridGameKind::snake:
      return make_snake_rules();
  }
  WEFT_ASSERT(false, "a kind of grid game has rules");
  return nullptr;
}

GridGame::GridGame(GridGameKind kind)
    : Environment({.observations = GridPicture::kSize,
                   .choices = 5,
                   .limit = make_grid_rules(kind)->limit(),
                   .state = make_grid_rules(kind)->numbers()}),
      rules_{make_grid_rules(kind), nullptr} {}

GridGame::GridGame(GridGameKind first, GridGameKind second, std::uint64_t every)
    : Environment({.observations = GridPicture::kSize,
                   .choices = 5,
                   .state = kWorld + most_numbers(*make_grid_rules(first), *make_grid_rules(second))}),
      rules_{make_grid_rules(first), make_grid_rules(second)},
      every_(every) {}

const GridRules& GridGame::rules(std::span<const double> state) const {
  return *rules_[is_in_turn() && state[kWhich] == 1.0 ? 1 : 0];
}

std::span<double> GridGame::world(std::span<double> state) const {
  return state.subspan(is_in_turn() ? kWorld : 0, rules(state).numbers());
}

std::vector<std::int32_t> GridGame::numbers(std::span<const double> state) const {
  const auto own = state.subspan(is_in_turn() ? kWorld : 0, rules(state).numbers());
  return {own.begin(), own.end()};
}

void GridGame::begin(std::span<double> state, RandomStream& random) const {
  std::fill(state.begin(), state.end(), 0.0);
  if (is_in_turn()) {
    state[kWhich] = static_cast<double>(step_of_agent() / every_ % 2);
    state[kLeft] = static_cast<double>(every_ - step_of_agent() % every_);
  }
  std::vector<std::int32_t> s(rules(state).numbers());
  rules(state).begin(s, random);
  std::copy(s.begin(), s.end(), world(state).begin());
}

Outcome GridGame::move(std::span<double> state, const Action& action, std::uint64_t step, RandomStream& random) const {
  std::vector<std::int32_t> s = numbers(state);
  Outcome outcome = rules(state).move(s, static_cast<GridMove>(action.choice), random);
  std::copy(s.begin(), s.end(), world(state).begin());
  if (!is_in_turn()) return outcome;
  state[kLeft] = std::max(state[kLeft] - 1.0, 0.0);
  outcome.truncated = state[kLeft] == 0.0 || step + 1 >= rules(state).limit();
  return outcome;
}

void GridGame::observe(std::span<const double> state, std::uint64_t, std::span<float> to) const {
  std::fill(to.begin(), to.end(), 0.0f);
  GridPicture picture(to);
  rules(state).draw(numbers(state), picture);
}

bool GridGame::is_possible(std::span<const double> state) const {
  if (!std::all_of(state.begin(), state.end(), is_whole)) return false;
  if (is_in_turn() &&
      (state[kWhich] < 0.0 || state[kWhich] > 1.0 || state[kLeft] < 0.0 || state[kLeft] > static_cast<double>(every_)))
    return false;
  return rules(state).is_possible(numbers(state));
}

}  // namespace weft::agent
