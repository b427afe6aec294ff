// SPDX-License-Identifier: Apache-2.0

#include "agent/environments/grid_game.hpp"

namespace weft::agent {
namespace {

/// A walker crosses eight lanes with a car each, 1 for each crossing; a car puts the walker back to the lowest row.
/// In a step: the walker moves, and is put back where a car stands; each car moves in every period-th step, round the
/// grid, and puts the walker back; on the highest row the crossing counts, and the next begins on the lowest.
/// @source original here
class LanesRules final : public GridRules {
 public:
  std::size_t numbers() const noexcept override { return kWaits + kLanes; }
  std::uint64_t limit() const noexcept override { return 500; }

  void begin(Numbers s, RandomStream& random) const override {
    s[kX] = GridPicture::kSide / 2;
    s[kY] = kLowest;
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      s[kCars + lane] = static_cast<std::int32_t>(random.next_below(GridPicture::kSide));
      s[kRight + lane] = static_cast<std::int32_t>(random.next_below(2));
      s[kPeriods + lane] = s[kWaits + lane] = 1 + static_cast<std::int32_t>(random.next_below(kSlowest));
    }
  }
  Outcome move(Numbers s, GridMove move, RandomStream&) const override {
    s[kX] = moved(s[kX], GridMove::left, GridMove::right, move);
    s[kY] = moved(s[kY], GridMove::up, GridMove::down, move);
    put_back(s);
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      if (--s[kWaits + lane] > 0) continue;
      s[kWaits + lane] = s[kPeriods + lane];
      s[kCars + lane] = next(s, lane);
    }
    put_back(s);
    if (s[kY] > 0) return {};
    s[kY] = kLowest;
    return {1.0, false, false};
  }
  void draw(Seen s, GridPicture& to) const override {
    to.mark(GridPicture::own, s[kX], s[kY]);
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const auto row = static_cast<std::int32_t>(lane) + 1;
      to.mark(GridPicture::bad, s[kCars + lane], row);
      // Behind it, longer for a fast one: direction and speed.
      std::int32_t tail = s[kCars + lane];
      for (std::int32_t length = kSlowest - s[kPeriods + lane]; length >= 0; --length) {
        tail = (tail + (s[kRight + lane] == 1 ? GridPicture::kSide - 1 : 1)) % GridPicture::kSide;
        to.mark(GridPicture::other, tail, row);
      }
    }
  }
  bool is_possible(Seen s) const override {
    if (!is_within(s[kX], 0, 9) || !is_within(s[kY], 1, kLowest)) return false;
    for (std::size_t lane = 0; lane < kLanes; ++lane)
      if (!is_within(s[kCars + lane], 0, 9) || !is_within(s[kRight + lane], 0, 1) ||
          !is_within(s[kPeriods + lane], 1, kSlowest) || !is_within(s[kWaits + lane], 1, s[kPeriods + lane]))
        return false;
    return true;
  }

 private:
  static constexpr std::size_t kLanes = 8;  // on the rows 1 to 8
  static constexpr std::int32_t kLowest = GridPicture::kSide - 1, kSlowest = 4;
  enum : std::size_t { kX, kY, kCars, kRight = kCars + kLanes, kPeriods = kRight + kLanes, kWaits = kPeriods + kLanes };

  static std::int32_t next(Seen s, std::size_t lane) {
    return (s[kCars + lane] + (s[kRight + lane] == 1 ? 1 : GridPicture::kSide - 1)) % GridPicture::kSide;
  }
  static void put_back(Numbers s) {
    if (s[kY] > 0 && s[kY] < kLowest && s[kCars + static_cast<std::size_t>(s[kY]) - 1] == s[kX]) s[kY] = kLowest;
  }
};

}  // namespace

std::unique_ptr<GridRules> make_lanes_rules() { return std::make_unique<LanesRules>(); }

std::unique_ptr<Environment> make_lanes(const EnvironmentOptions&) {
  return std::make_unique<GridGame>(GridGameKind::lanes);
}

}  // namespace weft::agent
