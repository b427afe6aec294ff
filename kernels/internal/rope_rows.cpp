// SPDX-License-Identifier: Apache-2.0

#include "kernels/internal/rope_rows.hpp"

#include "core/aligned_buffer.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>
#include <vector>

namespace weft::kernels::detail {
namespace {

constexpr std::size_t kKeptPositions = 256, kMostDims = 512;

class RopeRows {
 public:
  bool is_of(const Rope& rope) const noexcept {
    return turns_.size() == rope.dims() / 2 && std::equal(turns_.begin(), turns_.end(), rope.turns) &&
           pairs_ == rope.pairs && gain_ == rope.gain;
  }
  void begin(const Rope& rope) {
    turns_.assign(rope.turns, rope.turns + rope.dims() / 2);
    pairs_ = rope.pairs, gain_ = rope.gain;
    if (rows_.size() < kKeptPositions * 2 * rope.dims()) rows_ = AlignedBuffer<float>(kKeptPositions * 2 * rope.dims());
    next_.assign(kKeptPositions, 0);
  }
  const float* row(const Rope& rope, std::uint64_t position) noexcept {
    const std::size_t slot = position % kKeptPositions;
    float* const row = rows_.data() + slot * 2 * rope.dims();
    if (std::exchange(next_[slot], position + 1) != position + 1) rope_row(rope, position, row);
    return row;
  }

 private:
  std::vector<std::uint64_t> turns_{};
  RopePairs pairs_ = RopePairs::half;
  double gain_ = 1;
  AlignedBuffer<float> rows_{};
  std::vector<std::uint64_t> next_{};  // of each slot: 1 + its position; 0: none
};

}  // namespace

const float* known_rope_row(const Rope& rope, std::uint64_t position, float* workspace) noexcept {
  if (rope.dims() > kMostDims) {
    rope_row(rope, position, workspace);
    return workspace;
  }
  thread_local std::array<RopeRows, 2> all;
  thread_local std::size_t last = 0;
  if (!all[last].is_of(rope)) {
    last = 1 - last;
    if (!all[last].is_of(rope)) all[last].begin(rope);
  }
  return all[last].row(rope, position);
}

}  // namespace weft::kernels::detail
