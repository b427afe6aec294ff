// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/ops/operands.hpp"
#include "kernels/parallel_for.hpp"
#include "kernels/views.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace weft::kernels {

/// Threads that share the operations of one stream.
struct ParallelOptions {
  /// Multiply-adds of an operation that is worth a handover: about 2 us of one core; to hand a part to a
  /// thread that is awake and waits costs about 0.25 us (docs/decisions/0010-threads-inside-operations.md).
  static constexpr double kGrainSize = 1 << 17;

  ParallelFor parallel;
  std::size_t threads = 1;           // parts of an operation, at most
  std::size_t workspace_stride = 0;  // floats from one part's workspace to the next one's
  double grain_size = kGrainSize;    // multiply-adds below which an operation stays on its thread
};

/// Cuts operations into parts of their outputs for several threads. Parts are never parts of a sum, so the bits are
/// the same. Bodies get an ops::Part.
class ParallelParts {
 public:
  using Part = ops::Part;

  void set_parallel(const ParallelOptions* parallel) noexcept {
    parallel_.reset();
    if (parallel) parallel_.emplace(*parallel);
  }
  /// Operations that were cut up so far.
  std::uint64_t count() const noexcept { return count_; }
  bool exceeds_grain(double work) const noexcept { return parallel_ && work >= parallel_->grain_size; }
  std::size_t workspace_stride() const noexcept { return parallel_ ? parallel_->workspace_stride : 0; }
  std::size_t threads() const noexcept { return parallel_ ? parallel_->threads : 1; }
  /// Rows that keep all threads busy: then weights are not cut.
  bool has_many(std::size_t rows) const noexcept { return rows >= kManyRows * parallel_->threads; }

  /// Even parts of [0, units), as rows of the part.
  template <class Body>
  void units(std::size_t units, double work, const Body& body) {
    const std::size_t parts = parts_of(units, work);
    if (parts == 1) return body(Part{0, 0, units, 0, 0});
    ++count_;
    parallel_->parallel(parts, [&](std::size_t part) {
      const std::size_t first = begin_of(part, parts, units);
      body(Part{part, first, begin_of(part + 1, parts, units) - first, 0, 0});
    });
  }
  /// Calls visit(unit) on this thread for each unit at which two parts of `units` meet.
  template <class Visit>
  void each_cut(std::size_t units, double work, const Visit& visit) const {
    const std::size_t parts = parts_of(units, work);
    for (std::size_t part = 1; part < parts; ++part) visit(begin_of(part, parts, units));
  }
  /// Rows, or of few rows whole cache lines of columns.
  template <class Body>
  void elements(std::size_t rows, std::size_t cols, double work, const Body& body) {
    if (!exceeds_grain(work)) return body(Part{0, 0, rows, 0, cols});
    if (rows >= parallel_->threads)
      return units(rows, work, [&](const Part& p) { body(Part{p.index, p.row, p.rows, 0, cols}); });
    columns(cols, work, [&](const Part& p) { body(Part{p.index, 0, rows, p.col, p.cols}); });
  }
  /// Whole cache lines of columns.
  template <class Body>
  void columns(std::size_t cols, double work, const Body& body) {
    constexpr std::size_t kLine = 16;
    units((cols + kLine - 1) / kLine, work, [&](const Part& p) {
      body(Part{p.index, 0, 0, p.row * kLine, std::min(cols, (p.row + p.rows) * kLine) - p.row * kLine});
    });
  }
  /// Rows and columns of linear layers' outputs: many rows are cut, else the weights (columns are whole panels), which
  /// then are read once and stay in the cache of the thread that reads them.
  template <class Body>
  void outputs(std::size_t rows, std::size_t out, double work, const Body& body) {
    if (exceeds_grain(work) && has_many(rows))
      return units(rows, work, [&](const Part& p) { body(Part{p.index, p.row, p.rows, 0, out}); });
    panels(rows, out, work, body);
  }
  /// The same, the weights in any case.
  template <class Body>
  void panels(std::size_t rows, std::size_t out, double work, const Body& body) {
    if (!exceeds_grain(work)) return body(Part{0, 0, rows, 0, out});
    units(panel_count(out), work, [&](const Part& p) {
      const std::size_t o = p.row * kPanelWidth;
      body(Part{p.index, 0, rows, o, std::min(out, o + p.rows * kPanelWidth) - o});
    });
  }

 private:
  static constexpr std::size_t kManyRows = 64;
  static std::size_t begin_of(std::size_t part, std::size_t parts, std::size_t units) noexcept {
    return part * (units / parts) + std::min(part, units % parts);
  }
  std::size_t parts_of(std::size_t units, double work) const noexcept {
    return units > 1 && exceeds_grain(work) ? std::min(units, parallel_->threads) : 1;
  }

  std::optional<ParallelOptions> parallel_;
  std::uint64_t count_ = 0;
};

}  // namespace weft::kernels
