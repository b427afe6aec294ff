// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "agent/environments/environment.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace weft::agent {

/// Actions of all grid games, in the order of their numbers.
enum class GridMove : std::uint32_t { stay, left, right, up, down };

/// A grid of 10 by 10 in four planes of zeros and ones: what an agent sees of a grid game. Rows from above.
class GridPicture {
 public:
  static constexpr std::int32_t kSide = 10, kCells = kSide * kSide;
  static constexpr std::size_t kPlanes = 4, kSize = kPlanes * kCells;
  enum Plane : std::size_t { own, good, bad, other };

  explicit GridPicture(std::span<float> to) : to_(to) {}
  void mark(Plane plane, std::int32_t x, std::int32_t y) { mark(plane, y * kSide + x); }
  void mark(Plane plane, std::int32_t cell) { to_[plane * kCells + static_cast<std::size_t>(cell)] = 1.0f; }

 private:
  std::span<float> to_;
};

/// Rules of a game on a grid, over whole numbers.
/// @exact the same numbers everywhere; what is decided in which order stands beside each
class GridRules {
 public:
  using Numbers = std::span<std::int32_t>;
  using Seen = std::span<const std::int32_t>;

  virtual ~GridRules() = default;
  virtual std::size_t numbers() const noexcept = 0;
  /// Steps after which an episode is truncated.
  virtual std::uint64_t limit() const noexcept = 0;
  virtual void begin(Numbers s, RandomStream& random) const = 0;
  virtual Outcome move(Numbers s, GridMove move, RandomStream& random) const = 0;
  virtual void draw(Seen s, GridPicture& to) const = 0;
  /// Numbers that the rules could have left.
  virtual bool is_possible(Seen s) const = 0;

 protected:
  static bool is_within(std::int32_t value, std::int32_t low, std::int32_t high) noexcept {
    return value >= low && value <= high;
  }
  /// A place moved within the grid's edges.
  static std::int32_t moved(std::int32_t at, GridMove less, GridMove more, GridMove move) noexcept;
};

std::unique_ptr<GridRules> make_grid_rules(GridGameKind kind);
std::unique_ptr<GridRules> make_falling_rules();
std::unique_ptr<GridRules> make_lanes_rules();
std::unique_ptr<GridRules> make_shooter_rules();
std::unique_ptr<GridRules> make_snake_rules();

/// One game, or two in turn: a number of steps the one, the same number the other, and so on. An episode that is under
/// way at the end of a turn is truncated. The games share observations and actions, and the agent is told nothing.
class GridGame final : public Environment {
 public:
  explicit GridGame(GridGameKind kind);
  GridGame(GridGameKind first, GridGameKind second, std::uint64_t every);

 private:
  // Of two games: which one it is, and steps until the end of its turn. Then the game's own numbers.
  static constexpr std::size_t kWhich = 0, kLeft = 1, kWorld = 2;
  void begin(std::span<double> state, RandomStream& random) const override;
  Outcome move(std::span<double> state, const Action& action, std::uint64_t step, RandomStream& random) const override;
  void observe(std::span<const double> state, std::uint64_t step, std::span<float> to) const override;
  bool is_possible(std::span<const double> state) const override;
  bool is_in_turn() const noexcept { return rules_[1] != nullptr; }
  const GridRules& rules(std::span<const double> state) const;
  /// The game's numbers, among those of the state.
  std::span<double> world(std::span<double> state) const;
  std::vector<std::int32_t> numbers(std::span<const double> state) const;

  std::array<std::unique_ptr<GridRules>, 2> rules_;
  std::uint64_t every_ = 0;
};

}  // namespace weft::agent
