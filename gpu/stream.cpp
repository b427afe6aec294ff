// SPDX-License-Identifier: Apache-2.0

#include "gpu/internal/stream.hpp"

namespace weft::gpu {
namespace {

/// The memory of an operand, array by array.
template <class T, class Visit>
void for_each_range(const T& operand, const ops::Extent& extent, const Visit& visit) {
  if constexpr (ops::StoredMatrix<T>) {
    const WeightRanges ranges{ConstWeight(operand)};
    visit(ranges.codes), visit(ranges.scales), visit(ranges.zero_points);
  } else if constexpr (ops::Matrix<T>) {
    visit(range(ConstMatrixView(operand)));
  } else if constexpr (ops::PanelMatrix<T>) {
    visit(range(ConstPanels(operand)));
  } else {
    visit(range(operand, extent.rows * extent.cols * sizeof *operand));
  }
}

}  // namespace

Stream::Stream(std::unique_ptr<Recorder> recorder)
    : VulkanStream(kernels::op_table<Stream>()), recorder_(std::move(recorder)) {}

// Copies and joined operations are known within such a part alone: nothing that is known passes its ends.
bool Stream::run_only_if(const float* word) {
  if (word && (is_conditional_ || !recorder_->context().info.conditional_dispatches)) return false;
  turn_ropes();
  last_linear_ = {};
  sources_.forget();
  if (word && accesses_) touch(range(word, sizeof *word), false);
  is_conditional_ = word != nullptr;
  recorder_->run_only_if(address(word));
  return true;
}

void Stream::touch(const Range& range, bool is_written) {
  const std::uint64_t step = range.stride ? range.stride : range.end - range.begin;
  const std::uint64_t bytes = range.stride ? range.row_bytes : step;
  for (std::uint64_t at = range.begin; at < range.end; at += step) accesses_->push_back({at, at + bytes, is_written});
}

bool Stream::is_only_tracked(const Range& from, const std::uint32_t* word) {
  if (accesses_) touch(from, false), touch(range(word, sizeof *word), true);
  return accesses_ && only_tracks_;
}

template <class Op>
void Stream::track(const Op& op) {
  using ops::Access;
  ops::for_each_operand(op, [&](Access access, const auto& operand, const ops::Extent& extent) {
    if (access == Access::workspace || access == Access::unused) return;
    const bool is_written = access == Access::write || access == Access::update;
    for_each_range(operand, extent, [&](const Range& range) { touch(range, is_written); });
  });
}

}  // namespace weft::gpu
