// SPDX-License-Identifier: Apache-2.0

#include "agent/environments/grid_game.hpp"

#include <algorithm>

namespace weft::agent {
namespace {

/// A block of 24 invaders comes down from side to side; a gun on the lowest row shoots one at a time, 1 each. A bomb on
/// the gun, or an invader on the lowest row, ends the episode.
/// In a step: the gun moves, or (up) shoots where no shot flies; the shot rises by a row and may hit; the bomb falls by
/// a row; in every fourth step the block moves by a column, or at the edge turns and comes down by a row, and the shot
/// may hit again; a block without invaders is followed by a new one; where no bomb flies, one of eight draws drops one
/// from the lowest invader of a column that is drawn, if that has any.
/// @source original here
class ShooterRules final : public GridRules {
 public:
  std::size_t numbers() const noexcept override { return kAlive + kInvaders; }
  std::uint64_t limit() const noexcept override { return 1000; }

  void begin(Numbers s, RandomStream& random) const override {
    s[kGun] = GridPicture::kSide / 2;
    s[kShotX] = s[kBombX] = 0;
    s[kShotY] = s[kBombY] = kNone;
    begin_wave(s, random);
  }
  Outcome move(Numbers s, GridMove move, RandomStream& random) const override {
    Outcome outcome;
    s[kGun] = moved(s[kGun], GridMove::left, GridMove::right, move);
    if (move == GridMove::up && s[kShotY] == kNone) {
      s[kShotX] = s[kGun];
      s[kShotY] = kLowest;
    }
    if (s[kShotY] != kNone) --s[kShotY];  // above the highest row it is gone
    outcome.reward += hit(s);
    if (s[kBombY] != kNone && ++s[kBombY] == kLowest) {
      s[kBombY] = kNone;
      outcome.terminated = s[kBombX] == s[kGun];
      if (outcome.terminated) return outcome;
    }
    if (--s[kWait] == 0) move_block(s);
    outcome.reward += hit(s);
    outcome.terminated = lowest_row(s) >= kLowest;
    if (outcome.terminated) return outcome;
    if (lowest_row(s) == kNone) begin_wave(s, random);
    if (s[kBombY] == kNone && random.next_below(8) == 0) drop(s, random.next_below(kColumns));
    return outcome;
  }
  void draw(Seen s, GridPicture& to) const override {
    to.mark(GridPicture::own, s[kGun], kLowest);
    for (std::size_t i = 0; i < kInvaders; ++i)
      if (s[kAlive + i]) to.mark(GridPicture::good, x_of(s, i), y_of(s, i));
    if (s[kBombY] != kNone) to.mark(GridPicture::bad, s[kBombX], s[kBombY]);
    if (s[kShotY] != kNone) to.mark(GridPicture::own, s[kShotX], s[kShotY]);
    // The block's next move: its direction by a side, and its time by a row.
    to.mark(GridPicture::other, s[kRight] == 1 ? GridPicture::kSide - 1 : 0, s[kWait]);
  }
  bool is_possible(Seen s) const override {
    return is_within(s[kGun], 0, 9) && is_within(s[kShotX], 0, 9) && is_within(s[kShotY], kNone, 8) &&
           is_within(s[kBombX], 0, 9) && is_within(s[kBombY], kNone, 8) && is_within(s[kLeft], 0, 4) &&
           is_within(s[kTop], 0, 9) && is_within(s[kRight], 0, 1) && is_within(s[kWait], 1, kPeriod) &&
           std::all_of(s.begin() + kAlive, s.end(), [](std::int32_t each) { return is_within(each, 0, 1); }) &&
           lowest_row(s) <= kLowest;
  }

 private:
  static constexpr std::size_t kRows = 4, kColumns = 6, kInvaders = kRows * kColumns;
  static constexpr std::int32_t kNone = -1, kLowest = GridPicture::kSide - 1, kPeriod = 4;
  // Of the block: column and row of its first invader, whether it goes right, steps until it moves.
  enum : std::size_t { kGun, kShotX, kShotY, kBombX, kBombY, kLeft, kTop, kRight, kWait, kAlive };

  static std::int32_t x_of(Seen s, std::size_t i) { return s[kLeft] + static_cast<std::int32_t>(i % kColumns); }
  static std::int32_t y_of(Seen s, std::size_t i) { return s[kTop] + static_cast<std::int32_t>(i / kColumns); }

  static void begin_wave(Numbers s, RandomStream& random) {
    s[kLeft] = static_cast<std::int32_t>(random.next_below(GridPicture::kSide - kColumns + 1));
    s[kTop] = 0;
    s[kRight] = static_cast<std::int32_t>(random.next_below(2));
    s[kWait] = kPeriod;
    std::fill(s.begin() + kAlive, s.end(), 1);
  }
  static double hit(Numbers s) {
    if (s[kShotY] == kNone) return 0.0;
    for (std::size_t i = 0; i < kInvaders; ++i) {
      if (!s[kAlive + i] || x_of(s, i) != s[kShotX] || y_of(s, i) != s[kShotY]) continue;
      s[kAlive + i] = 0;
      s[kShotY] = kNone;
      return 1.0;
    }
    return 0.0;
  }
  static void move_block(Numbers s) {
    s[kWait] = kPeriod;
    const bool is_at_edge =
        s[kRight] == 1 ? s[kLeft] == GridPicture::kSide - static_cast<std::int32_t>(kColumns) : s[kLeft] == 0;
    if (!is_at_edge) {
      s[kLeft] += s[kRight] == 1 ? 1 : -1;
      return;
    }
    s[kRight] ^= 1;
    ++s[kTop];
  }
  /// Of the lowest invader; kNone: there is none.
  static std::int32_t lowest_row(Seen s) {
    for (std::size_t i = kInvaders; i-- > 0;)
      if (s[kAlive + i]) return y_of(s, i);
    return kNone;
  }
  static void drop(Numbers s, std::uint32_t column) {
    for (std::size_t row = kRows; row-- > 0;) {
      const std::size_t i = row * kColumns + column;
      if (!s[kAlive + i]) continue;
      s[kBombX] = x_of(s, i);
      s[kBombY] = y_of(s, i);
      return;
    }
  }
};

}  // namespace

std::unique_ptr<GridRules> make_shooter_rules() { return std::make_unique<ShooterRules>(); }

std::unique_ptr<Environment> make_shooter(const EnvironmentOptions&) {
  return std::make_unique<GridGame>(GridGameKind::shooter);
}

}  // namespace weft::agent
