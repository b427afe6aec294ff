// SPDX-License-Identifier: Apache-2.0

#include "mesh/layers/recurrent_traces.hpp"

#include "mesh/layers/tokens.hpp"

#include <algorithm>

namespace weft::mesh {

using kernels::BinaryOp;
using kernels::ConstMatrixView;
using kernels::ConstWeight;
using kernels::kPanelWidth;
using kernels::MatrixView;
using kernels::OpStream;

namespace {

/// Rows of the workspace, `gates` blocks each in whole panels.
enum TraceRow : std::size_t {
  kKeep,
  kThrough,
  kInnerX,
  kInnerH,
  kOuter,
  kCross,    // q
  kBack,     // p
  kOwn,      // W_hh[i, i] of each gate
  kIndices,  // i of each of its rows
  kWork,     // a row of products, or an error
  kRows
};
constexpr std::size_t kTile = kPanelWidth * kPanelWidth;  // columns of a panel that hold its diagonal

/// A row, read as many times.
ConstMatrixView repeated(const MatrixView& row, std::size_t rows) {
  return {row.data, rows, row.cols, rows > 1 ? 0 : row.cols};
}

}  // namespace

MatrixView RecurrentTraces::row(float* workspace, std::size_t i) const noexcept {
  return {workspace + i * kernels::panel_count(width()) * kPanelWidth, 1, width(), width()};
}
MatrixView RecurrentTraces::block(float* workspace, std::size_t i, std::size_t gate) const noexcept {
  return columns(row(workspace, i), gate * sizes_.hidden, sizes_.hidden);
}
// Products; of backward also the next derivatives, of s and of h.
MatrixView RecurrentTraces::matrix_at(float* workspace, std::size_t i) const noexcept {
  return matrix(row(workspace, kRows).data + kTile + i * matrix_size());
}

std::size_t RecurrentTraces::workspace_size() const noexcept {
  if (!is_on()) return 0;
  return kRows * kernels::panel_count(width()) * kPanelWidth + kTile + (sizes_.has_output ? 3 : 2) * matrix_size();
}

RecurrentTraces::Factors RecurrentTraces::factors(float* workspace) const noexcept {
  return {block(workspace, kKeep), block(workspace, kThrough), row(workspace, kInnerX), row(workspace, kInnerH),
          row(workspace, kOuter)};
}

/// 0, 1, 2, ... once for each gate. Each round has twice as many as the one before.
void RecurrentTraces::number(OpStream& stream, float* workspace) const {
  const MatrixView all = block(workspace, kIndices);
  stream.fill({0.0f, columns(all, 0, 1)});
  for (std::size_t done = 1; done < sizes_.hidden; done *= 2) {
    const std::size_t count = std::min(done, sizes_.hidden - done);
    const MatrixView offset = columns(block(workspace, kWork), 0, count);
    stream.fill({static_cast<float>(done), offset});
    stream.binary({BinaryOp::add, columns(all, 0, count), offset, columns(all, done, count)});
  }
  repeat(stream, workspace, kIndices);
}

/// The first block of a row to all the others.
void RecurrentTraces::repeat(OpStream& stream, float* workspace, std::size_t i) const {
  for (std::size_t gate = 1; gate < sizes_.gates; ++gate) stream.copy({block(workspace, i), block(workspace, i, gate)});
}

// A panel of W_hh is decoded at the columns of its rows' own units: its diagonal is a view of 17 from one to the next.
void RecurrentTraces::begin(OpStream& stream, const ConstWeight& weight_hh, float* workspace) const {
  if (sizes_.through_time != ThroughTime::snap1) return;
  number(stream, workspace);
  float* const tile = row(workspace, kRows).data;
  for (std::size_t p = 0; p < kernels::panel_count(width()); ++p) {
    const ConstWeight panel = kernels::panel_range(weight_hh, p, 1);
    const std::size_t first = p * kPanelWidth, count = panel.out;
    const MatrixView indices = columns(row(workspace, kIndices), first, count);
    const MatrixView own = columns(row(workspace, kOwn), first, count);
    stream.embedding({panel, {indices.data, count, 1, 1}, {tile, count, count, kPanelWidth}});
    stream.copy({{tile, count, 1, kPanelWidth + 1}, {own.data, count, 1, 1}});
  }
}

/// to = to + sum over gates of factor W_hh[i, i], in the first block.
void RecurrentTraces::add_own(OpStream& stream, float* workspace, std::size_t factor, std::size_t to) const {
  stream.binary({BinaryOp::mul, row(workspace, factor), row(workspace, kOwn), row(workspace, kWork)});
  for (std::size_t gate = 0; gate < sizes_.gates; ++gate)
    stream.binary({BinaryOp::add, block(workspace, to), block(workspace, kWork, gate), block(workspace, to)});
}

/// The rows that a session's derivatives are multiplied with, of the factors of its step.
void RecurrentTraces::find_shared(OpStream& stream, float* workspace) const {
  if (sizes_.through_time == ThroughTime::snap1 && !sizes_.has_output) add_own(stream, workspace, kInnerH, kKeep);
  repeat(stream, workspace, kKeep);
  if (sizes_.has_output) repeat(stream, workspace, kThrough);
  if (!keeps_output()) return;
  const auto find_own = [&](std::size_t factor, std::size_t to) {
    stream.fill({0.0f, block(workspace, to)});
    add_own(stream, workspace, factor, to);
    repeat(stream, workspace, to);
  };
  find_own(kInnerH, kCross);
  find_own(kOuter, kBack);
}

/// to = to + factor of, by way of the products.
void RecurrentTraces::add_product(OpStream& stream, float* workspace, std::size_t factor, const ConstMatrixView& of,
                                  const MatrixView& to) const {
  const MatrixView products = matrix_at(workspace, 0);
  stream.binary({BinaryOp::mul, repeated(row(workspace, factor), rows()), of, products});
  stream.binary({BinaryOp::add, to, products, to});
}

/// to = to + what this tick's values do, by way of the products.
void RecurrentTraces::add_inputs(OpStream& stream, const float* x, const float* h, std::size_t by_x, std::size_t by_h,
                                 const MatrixView& to, float* workspace) const {
  const MatrixView products = columns(matrix_at(workspace, 0), 0, to.cols);
  const auto part = [&](std::size_t first, std::size_t count) {
    return MatrixView{products.row(first), count, to.cols, products.stride};
  };
  const MatrixView of_x = columns(row(workspace, by_x), 0, to.cols), of_h = columns(row(workspace, by_h), 0, to.cols);
  stream.scale_rows({x, repeated(of_x, sizes_.in), part(0, sizes_.in)});
  stream.scale_rows({h, repeated(of_h, sizes_.hidden), part(sizes_.in, sizes_.hidden)});
  if (sizes_.has_bias) {
    stream.copy({of_x, part(rows() - 2, 1)});
    stream.copy({of_h, part(rows() - 1, 1)});
  }
  stream.binary({BinaryOp::add, to, products, to});
}

/// The next derivatives of s. @pre find_shared
void RecurrentTraces::find_inner(OpStream& stream, const float* x, const float* h, const float* from,
                                 const MatrixView& to, float* workspace) const {
  const MatrixView keep = columns(row(workspace, kKeep), 0, to.cols);
  stream.binary({BinaryOp::mul, repeated(keep, rows()), inner(from), to});
  if (keeps_output()) add_product(stream, workspace, kCross, matrix(from + matrix_size()), to);
  add_inputs(stream, x, h, kInnerX, kInnerH, to, workspace);
}
/// Those of h, where it is another value. @pre find_inner
void RecurrentTraces::find_output(OpStream& stream, const float* x, const float* h, const float* from,
                                  const ConstMatrixView& of_inner, const MatrixView& to, float* workspace) const {
  const MatrixView through = columns(row(workspace, kThrough), 0, of_inner.cols);
  stream.binary({BinaryOp::mul, repeated(through, rows()), of_inner, columns(to, 0, of_inner.cols)});
  if (of_inner.cols < to.cols) stream.fill({0.0f, columns(to, of_inner.cols, to.cols - of_inner.cols)});
  if (keeps_output()) add_product(stream, workspace, kBack, matrix(from + matrix_size()), to);
  add_inputs(stream, x, h, kOuter, kOuter, to, workspace);
}

void RecurrentTraces::advance(OpStream& stream, const float* x, const float* h, const float* from, float* to,
                              float* workspace) const {
  find_shared(stream, workspace);
  find_inner(stream, x, h, from, inner(to), workspace);
  if (keeps_output()) find_output(stream, x, h, from, inner(to), matrix(to + matrix_size()), workspace);
}

void RecurrentTraces::add_gradients(OpStream& stream, const float* x, const float* h, const float* from,
                                    const ConstMatrixView& error, const Gradients& gradients, float* workspace) const {
  find_shared(stream, workspace);
  MatrixView sums = inner(matrix_at(workspace, 1).data);
  find_inner(stream, x, h, from, sums, workspace);
  if (sizes_.has_output) {
    const MatrixView of_inner = sums;
    sums = matrix_at(workspace, 2);
    find_output(stream, x, h, from, of_inner, sums, workspace);
  }
  stream.copy({error, block(workspace, kWork)});
  repeat(stream, workspace, kWork);
  stream.binary({BinaryOp::mul, sums, repeated(row(workspace, kWork), rows()), sums});
  const auto add = [&](std::size_t first_row, std::size_t count, float* panels) {
    for (std::size_t at = 0; at < width(); at += kPanelWidth) {
      const std::size_t lanes = std::min(kPanelWidth, width() - at);
      const MatrixView to{panels + at * count, count, lanes, kPanelWidth};
      stream.binary({BinaryOp::add, to, MatrixView{sums.row(first_row) + at, count, lanes, width()}, to});
    }
  };
  add(0, sizes_.in, gradients[0]);
  add(sizes_.in, sizes_.hidden, gradients[1]);
  for (const std::size_t i : {std::size_t{2}, std::size_t{3}}) {
    if (!sizes_.has_bias) break;
    const MatrixView to{gradients[i], 1, width(), width()};
    stream.binary({BinaryOp::add, to, MatrixView{sums.row(rows() - 4 + i), 1, width(), width()}, to});
  }
}

}  // namespace weft::mesh
