// SPDX-License-Identifier: Apache-2.0

// Softmaxes over some axes of a tensor, and over some entries of an axis.

#include "mesh/layers/softmax_kinds.hpp"
#include "mesh/layers/tokens.hpp"

#include "kernels/permute.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace weft::mesh {
namespace {

using kernels::AxisOrder;
using kernels::ConstMatrixView;
using kernels::MatrixView;

/// One softmax for each place on the other axes. The axes are brought to the end in the workspace, a session at a time,
/// where they are not there already.
class GridSoftmax final : public Layer {
 public:
  GridSoftmax(const Shape& shape, const Shape& order, std::size_t width, float temperature)
      : Layer(shape, shape),
        groups_(in(), width),
        there_(AxisOrder::make(shape, order)),
        back_(AxisOrder::inverse(shape, order)),
        is_in_place_(std::is_sorted(order.begin(), order.end())),
        width_(width),
        temperature_(temperature) {}

  std::size_t workspace_size() const noexcept override { return is_in_place_ ? 0 : 2 * padded(); }

  void forward(kernels::OpStream& stream, const ForwardArgs& args) const override {
    if (is_in_place_)
      return groups_.each(args.x.rows, [&](const auto& part) {
        stream.softmax({part(args.x), temperature_, part(args.y)});
      });
    for (std::size_t b = 0; b < args.x.rows; ++b) {
      const MatrixView moved = scratch_row(args.workspace, 0);
      stream.permute({row(args.x, b), there_, moved});
      stream.softmax({groups_of(moved), temperature_, groups_of(moved)});
      stream.permute({moved, back_, row(args.y, b)});
    }
  }
  void backward(kernels::OpStream& stream, const BackwardArgs& args) const override {
    if (!args.dx.data) return;
    if (is_in_place_)
      return groups_.each(args.dy.rows, [&](const auto& part) {
        stream.softmax_backward({part(args.y), part(args.dy), temperature_, part(args.dx)});
      });
    for (std::size_t b = 0; b < args.dy.rows; ++b) {
      const MatrixView y = scratch_row(args.workspace, 0), d = scratch_row(args.workspace, 1);
      stream.permute({row(args.y, b), there_, y});
      stream.permute({row(args.dy, b), there_, d});
      stream.softmax_backward({groups_of(y), groups_of(d), temperature_, groups_of(d)});
      stream.permute({d, back_, row(args.dx, b)});
    }
  }

 private:
  std::size_t padded() const noexcept { return (in() + 15) / 16 * 16; }
  MatrixView scratch_row(float* workspace, std::size_t i) const { return {workspace + i * padded(), 1, in(), in()}; }
  MatrixView groups_of(const MatrixView& whole) const { return {whole.data, in() / width_, width_, width_}; }
  template <class View>
  static View row(const View& view, std::size_t b) {
    return {view.data + b * view.stride, 1, view.cols, view.stride};
  }

  Groups groups_;
  AxisOrder there_, back_;
  bool is_in_place_;
  std::size_t width_;
  float temperature_;
};

/// Masked entries are -infinity to the softmax, so exactly 0 in y, and their slope is set to 0.
class MaskedSoftmax final : public Layer {
 public:
  MaskedSoftmax(const Shape& shape, std::size_t group, const std::vector<std::size_t>& mask, float temperature)
      : Layer(shape, shape), tokens_(shape), groups_(shape.back(), group), temperature_(temperature) {
    for (std::size_t j = 0; j < mask.size(); ++j) {
      if (mask[j] != 0) continue;
      if (!masked_.empty() && masked_.back().first + masked_.back().second == j)
        ++masked_.back().second;
      else
        masked_.emplace_back(j, 1);
    }
  }

  void forward(kernels::OpStream& stream, const ForwardArgs& args) const override {
    tokens_.each(
        [&](const auto& of_tokens) {
          const ConstMatrixView x = of_tokens(args.x);
          const MatrixView y = of_tokens(args.y);
          stream.copy({x, y});
          fill(stream, -std::numeric_limits<float>::infinity(), y);
          groups_.each(y.rows, [&](const auto& part) { stream.softmax({part(y), temperature_, part(y)}); });
        },
        args.x, args.y);
  }
  void backward(kernels::OpStream& stream, const BackwardArgs& args) const override {
    if (!args.dx.data) return;
    tokens_.each(
        [&](const auto& of_tokens) {
          const ConstMatrixView y = of_tokens(args.y);
          const MatrixView dy = of_tokens(args.dy), dx = of_tokens(args.dx);
          fill(stream, 0.0f, dy);
          groups_.each(y.rows, [&](const auto& part) {
            stream.softmax_backward({part(y), part(dy), temperature_, part(dx)});
          });
          fill(stream, 0.0f, dx);  // the product was 0, of either sign
        },
        args.y, args.dy, args.dx);
  }

 private:
  void fill(kernels::OpStream& stream, float value, const MatrixView& rows) const {
    for (const auto& [first, count] : masked_) stream.fill({value, {rows.data + first, rows.rows, count, rows.stride}});
  }

  Tokens tokens_;
  Groups groups_;
  float temperature_;
  std::vector<std::pair<std::size_t, std::size_t>> masked_;  // runs: first, count
};

}  // namespace

Result<std::unique_ptr<Layer>> make_grid_softmax(const Shape& shape, const std::vector<std::size_t>& axes,
                                                 float temperature, const std::string& object) {
  if (shape.size() > AxisOrder::kMaxRank)
    return fail(Errc::shape_mismatch, object + ": a grid softmax takes up to 8 axes, not " + weft::to_string(shape));
  std::vector<bool> is_taken(shape.size(), false);
  std::size_t width = 1;
  for (const std::size_t axis : axes) {
    if (axis >= shape.size() || is_taken[axis])
      return fail(Errc::out_of_range, object + ".axes: axis " + std::to_string(axis) +
                                          (axis >= shape.size() ? " of an input " + weft::to_string(shape)
                                                                : std::string(" is given twice")));
    is_taken[axis] = true;
    width *= shape[axis];
  }
  // Those that are taken last, each half in the input's order.
  Shape order;
  for (const bool taken : {false, true})
    for (std::size_t axis = 0; axis < shape.size(); ++axis)
      if (is_taken[axis] == taken) order.push_back(axis);
  return std::unique_ptr<Layer>(new GridSoftmax(shape, order, width, temperature));
}

Result<std::unique_ptr<Layer>> make_masked_softmax(const Shape& shape, std::size_t group,
                                                   const std::vector<std::size_t>& mask, float temperature,
                                                   const std::string& object) {
  if (mask.size() != shape.back())
    return fail(Errc::shape_mismatch, object + ".mask: " + std::to_string(mask.size()) + " entries for an axis of " +
                                          std::to_string(shape.back()));
  std::size_t left = 0;
  for (std::size_t j = 0; j < mask.size(); ++j) {
    left += mask[j] == 1;
    if ((j + 1) % group != 0) continue;
    if (left == 0)
      return fail(Errc::invalid_argument, object + ".mask: leaves nothing of entries " + std::to_string(j + 1 - group) +
                                              " to " + std::to_string(j) +
                                              ", and a softmax of nothing is no distribution");
    left = 0;
  }
  return std::unique_ptr<Layer>(new MaskedSoftmax(shape, group, mask, temperature));
}

}  // namespace weft::mesh
