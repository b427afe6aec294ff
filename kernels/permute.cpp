// SPDX-License-Identifier: Apache-2.0

#include "kernels/permute.hpp"

#include <algorithm>
#include <cstring>

namespace weft::kernels {
namespace {

// Square tiles of the last two axes: both the lines that are read and those that are written stay in the first cache.
constexpr std::size_t kTile = 16;

struct Axis {
  std::size_t extent = 1, stride = 0;
};

/// y [outer][inner], row-major, from x with those strides.
void move_plane(const float* x, Axis outer, Axis inner, float* y) noexcept {
  if (inner.stride == 1) {
    for (std::size_t i = 0; i < outer.extent; ++i)
      std::memcpy(y + i * inner.extent, x + i * outer.stride, inner.extent * sizeof(float));
    return;
  }
  for (std::size_t top = 0; top < outer.extent; top += kTile)
    for (std::size_t left = 0; left < inner.extent; left += kTile)
      for (std::size_t i = top; i < std::min(top + kTile, outer.extent); ++i)
        for (std::size_t j = left; j < std::min(left + kTile, inner.extent); ++j)
          y[i * inner.extent + j] = x[i * outer.stride + j * inner.stride];
}

float* move_axes(const float* x, const Axis* axes, std::size_t rank, float* y) noexcept {
  if (rank == 2) {
    move_plane(x, axes[0], axes[1], y);
    return y + axes[0].extent * axes[1].extent;
  }
  for (std::size_t i = 0; i < axes[0].extent; ++i) y = move_axes(x + i * axes[0].stride, axes + 1, rank - 1, y);
  return y;
}

}  // namespace

AxisOrder AxisOrder::make(std::span<const std::size_t> shape, std::span<const std::size_t> order) noexcept {
  std::array<std::size_t, kMaxRank> strides{};
  std::size_t step = 1;
  for (std::size_t i = shape.size(); i-- > 0; step *= shape[i]) strides[i] = step;
  AxisOrder made;
  made.rank = order.size();
  for (std::size_t i = 0; i < order.size(); ++i) made.extent[i] = shape[order[i]], made.stride[i] = strides[order[i]];
  return made;
}

AxisOrder AxisOrder::inverse(std::span<const std::size_t> shape, std::span<const std::size_t> order) noexcept {
  std::array<std::size_t, kMaxRank> moved{}, back{};
  for (std::size_t i = 0; i < order.size(); ++i) moved[i] = shape[order[i]], back[order[i]] = i;
  return make({moved.data(), order.size()}, {back.data(), order.size()});
}

void permute(const ConstMatrixView& x, const AxisOrder& order, const MatrixView& y) noexcept {
  // Two axes of one value, then the order's own: those that are neighbours in the source too become one.
  std::array<Axis, AxisOrder::kMaxRank + 2> axes{};
  std::size_t count = 2;
  for (std::size_t i = 0; i < order.rank; ++i) {
    const Axis next{order.extent[i], order.stride[i]};
    Axis& last = axes[count - 1];
    if (next.extent == 1) continue;
    if (count > 2 && last.stride == next.stride * next.extent)
      last = {last.extent * next.extent, next.stride};
    else
      axes[count++] = next;
  }
  const std::size_t first = std::min<std::size_t>(2, count - 2);
  for (std::size_t b = 0; b < x.rows; ++b) move_axes(x.row(b), axes.data() + first, count - first, y.row(b));
}

}  // namespace weft::kernels
