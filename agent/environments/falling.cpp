// SPDX-License-Identifier: Apache-2.0

#include "agent/environments/grid_game.hpp"

#include <algorithm>

namespace weft::agent {
namespace {

/// Things fall from above, one a column at most: a paddle on the lowest row catches good ones, 1 each, and avoids bad
/// ones, which end the episode with -1.
/// In a step: the paddle moves; all things fall by a row, and those on the lowest one are caught or gone; in every
/// second step a column and a kind are drawn (one of three is bad), and where the column is empty a thing begins there.
/// @source original here
class FallingRules final : public GridRules {
 public:
  std::size_t numbers() const noexcept override { return kKinds + kSide; }
  std::uint64_t limit() const noexcept override { return 500; }

  void begin(Numbers s, RandomStream&) const override {
    std::fill(s.begin(), s.end(), 0);
    s[kPaddle] = kSide / 2;
    for (std::size_t c = 0; c < kSide; ++c) s[kRows + c] = kNone;
  }
  Outcome move(Numbers s, GridMove move, RandomStream& random) const override {
    Outcome outcome;
    s[kPaddle] = moved(s[kPaddle], GridMove::left, GridMove::right, move);
    for (std::size_t c = 0; c < kSide; ++c) {
      std::int32_t& row = s[kRows + c];
      if (row == kNone || ++row < GridPicture::kSide - 1) continue;
      row = kNone;
      if (static_cast<std::size_t>(s[kPaddle]) != c) continue;
      outcome.terminated = s[kKinds + c] == 1;
      outcome.reward = outcome.terminated ? -1.0 : 1.0;
    }
    if (outcome.terminated) return outcome;
    s[kClock] ^= 1;
    if (s[kClock] == 1) return outcome;
    const std::size_t column = random.next_below(kSide);
    const std::uint32_t kind = random.next_below(3);
    if (s[kRows + column] != kNone) return outcome;
    s[kRows + column] = 0;
    s[kKinds + column] = kind == 0;
    return outcome;
  }
  void draw(Seen s, GridPicture& to) const override {
    to.mark(GridPicture::own, s[kPaddle], GridPicture::kSide - 1);
    for (std::size_t c = 0; c < kSide; ++c)
      if (s[kRows + c] != kNone)
        to.mark(s[kKinds + c] == 1 ? GridPicture::bad : GridPicture::good, static_cast<std::int32_t>(c), s[kRows + c]);
  }
  bool is_possible(Seen s) const override {
    if (!is_within(s[kPaddle], 0, 9) || !is_within(s[kClock], 0, 1)) return false;
    for (std::size_t c = 0; c < kSide; ++c)
      if (!is_within(s[kRows + c], kNone, 8) || !is_within(s[kKinds + c], 0, 1)) return false;
    return true;
  }

 private:
  static constexpr std::size_t kSide = GridPicture::kSide;
  static constexpr std::int32_t kNone = -1;
  enum : std::size_t {
    kPaddle,
    kClock,
    kRows,
    kKinds = kRows + kSide
  };  // row and kind (1: bad) of each column's thing
};

}  // namespace

std::unique_ptr<GridRules> make_falling_rules() { return std::make_unique<FallingRules>(); }

std::unique_ptr<Environment> make_falling(const EnvironmentOptions&) {
  return std::make_unique<GridGame>(GridGameKind::falling);
}

}  // namespace weft::agent
