// SPDX-License-Identifier: Apache-2.0

#include "agent/environments/grid_game.hpp"

#include <algorithm>
#include <array>

namespace weft::agent {
namespace {

/// A snake grows by what it eats, 1 each; an edge or its own body ends the episode with -1, and so does, with 1, a full
/// grid.
/// In a step: the direction is that of the action, unless it is the opposite one; the head moves by a cell, and the
/// tail's last cell is free for it unless it eats there; food is drawn among the free cells in their order by rows.
/// @source original here
class SnakeRules final : public GridRules {
 public:
  std::size_t numbers() const noexcept override { return kBody + kCells; }
  std::uint64_t limit() const noexcept override { return 1000; }

  void begin(Numbers s, RandomStream& random) const override {
    std::fill(s.begin(), s.end(), kNone);
    s[kLength] = 3;
    s[kDirection] = 1;
    for (std::int32_t i = 0; i < 3; ++i) s[kBody + static_cast<std::size_t>(i)] = 55 - i;
    s[kFood] = free_cell(s, random);
  }
  Outcome move(Numbers s, GridMove move, RandomStream& random) const override {
    const std::int32_t wanted = static_cast<std::int32_t>(move) - 1;
    if (move != GridMove::stay && wanted != (s[kDirection] ^ 1)) s[kDirection] = wanted;
    const std::int32_t head = next(s[kBody], s[kDirection]);
    const bool eats = head == s[kFood];
    const auto length = static_cast<std::size_t>(s[kLength]), kept = eats ? length : length - 1;
    const auto body = s.subspan(kBody);
    if (head == kNone || std::find(body.begin(), body.begin() + static_cast<std::ptrdiff_t>(kept), head) !=
                             body.begin() + static_cast<std::ptrdiff_t>(kept))
      return {-1.0, true, false};
    std::copy_backward(body.begin(), body.begin() + static_cast<std::ptrdiff_t>(kept),
                       body.begin() + static_cast<std::ptrdiff_t>(kept) + 1);
    body[0] = head;
    if (!eats) return {};
    ++s[kLength];
    const bool is_full = s[kLength] == GridPicture::kCells;
    s[kFood] = is_full ? kNone : free_cell(s, random);
    return {1.0, is_full, false};
  }
  void draw(Seen s, GridPicture& to) const override {
    const auto length = static_cast<std::size_t>(s[kLength]);
    to.mark(GridPicture::own, s[kBody]);
    if (s[kFood] != kNone) to.mark(GridPicture::good, s[kFood]);
    for (std::size_t i = 1; i < length; ++i) to.mark(GridPicture::bad, s[kBody + i]);
    to.mark(GridPicture::other, s[kBody + length - 1]);
  }
  bool is_possible(Seen s) const override {
    if (!is_within(s[kLength], 3, GridPicture::kCells) || !is_within(s[kDirection], 0, 3)) return false;
    const bool is_full = s[kLength] == GridPicture::kCells;
    if (is_full ? s[kFood] != kNone : !is_within(s[kFood], 0, GridPicture::kCells - 1)) return false;
    const auto length = static_cast<std::size_t>(s[kLength]);
    std::array<bool, kCells> is_taken{};
    for (std::size_t i = 0; i < kCells; ++i) {
      const std::int32_t cell = s[kBody + i];
      if (i >= length ? cell != kNone : !is_within(cell, 0, GridPicture::kCells - 1)) return false;
      if (i >= length) continue;
      if (is_taken[static_cast<std::size_t>(cell)] || cell == s[kFood]) return false;
      is_taken[static_cast<std::size_t>(cell)] = true;
      if (i > 0 && !is_beside(cell, s[kBody + i - 1])) return false;
    }
    return true;
  }

 private:
  static constexpr std::size_t kCells = GridPicture::kCells;
  static constexpr std::int32_t kNone = -1;
  // Cells are numbered by rows; the body's from its head on. Directions: left, right, up, down.
  enum : std::size_t { kLength, kDirection, kFood, kBody };

  /// kNone: beyond the edge.
  static std::int32_t next(std::int32_t cell, std::int32_t direction) {
    constexpr std::int32_t kSide = GridPicture::kSide;
    const std::int32_t x = cell % kSide + (direction == 1) - (direction == 0),
                       y = cell / kSide + (direction == 3) - (direction == 2);
    return is_within(x, 0, kSide - 1) && is_within(y, 0, kSide - 1) ? y * kSide + x : kNone;
  }
  static bool is_beside(std::int32_t one, std::int32_t other) {
    for (std::int32_t direction = 0; direction < 4; ++direction)
      if (next(one, direction) == other) return true;
    return false;
  }
  static std::int32_t free_cell(Seen s, RandomStream& random) {
    std::uint32_t left = random.next_below(static_cast<std::uint32_t>(GridPicture::kCells - s[kLength]));
    const auto body = s.subspan(kBody, static_cast<std::size_t>(s[kLength]));
    for (std::int32_t cell = 0;; ++cell) {
      if (std::find(body.begin(), body.end(), cell) != body.end()) continue;
      if (left-- == 0) return cell;
    }
  }
};

}  // namespace

std::unique_ptr<GridRules> make_snake_rules() { return std::make_unique<SnakeRules>(); }

std::unique_ptr<Environment> make_snake(const EnvironmentOptions&) {
  return std::make_unique<GridGame>(GridGameKind::snake);
}

}  // namespace weft::agent
