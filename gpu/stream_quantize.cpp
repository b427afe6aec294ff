// SPDX-License-Identifier: Apache-2.0
// Stored weights made of their float32 masters, and those that are long made float32 again.

#include "gpu/internal/push.hpp"
#include "gpu/internal/stream.hpp"
#include "gpu/shaders/quantize_operands.inc"

#include <algorithm>

namespace weft::gpu {
namespace {

struct QuantizeWeightPush {
  WEFT_QUANTIZE_OPERANDS(WEFT_MEMBER)
};
struct DequantizePush {
  WEFT_DEQUANTIZE_OPERANDS(WEFT_MEMBER)
};
enum Step : std::uint32_t { WEFT_QUANTIZE_NUMBERS(WEFT_ENUMERATOR) };

constexpr std::size_t kQuantizeThreads = 64, kPair = 2 * sizeof(float);

}  // namespace

void Stream::lower(const ops::Quantize& op) {
  static const Shader &scales = shader("quantize_scales"), &codes = shader("quantize_codes");
  const bool is_tensor = op.to.granularity == Granularity::tensor, is_block = weft::is_block(op.to.granularity);
  const std::size_t panels = kernels::panel_count(op.master.out), all = panels * kernels::kPanelWidth,
                    chunks = groups_of(op.master.in, is_block ? kScaleBlock : kernels::kChunk);
  QuantizeWeightPush push{address(op.master.data),
                          address(op.to.codes),
                          address(op.to.scales),
                          address(op.to.zero_points),
                          0,
                          0,
                          word(op.master.out),
                          word(op.master.in),
                          0.0f};
  push.count = static_cast<float>(is_tensor ? op.master.out * op.master.in : op.master.in);
  const WeightRanges ranges{ConstWeight(op.to)};
  const std::uint32_t dtype = static_cast<std::uint32_t>(op.to.dtype),
                      granularity = static_cast<std::uint32_t>(op.to.granularity);
  if (has_scale(op.to.dtype)) {
    const std::uint64_t kept = scratch(all * (chunks + 1) * kPair);
    const Range statistics{kept, kept + all * chunks * kPair}, combined{statistics.end, statistics.end + all * kPair};
    push.statistics = statistics.begin, push.combined = combined.begin;
    const auto record = [&](Step step, std::size_t of_panel, std::size_t rows, const Range& from,
                            std::initializer_list<Range> into) {
      recorder_->dispatch(scales, {step, 0, 0, 0, dtype, granularity}, push,
                          {groups_of(of_panel * 4, kQuantizeThreads), rows}, {from}, into);
    };
    record(kChunks, chunks, panels, range(op.master), {statistics});
    if (!is_block) record(kOutputs, 1, panels, statistics, {combined});
    if (is_tensor)
      record(kWhole, 1, 1, combined, {ranges.scales, ranges.zero_points});
    else
      record(kGroups, is_block ? chunks : 1, panels, is_block ? statistics : combined,
             {ranges.scales, ranges.zero_points});
  }
  // A thread a word, or less.
  const std::size_t threads = groups_of(ranges.codes.end - ranges.codes.begin, 4 * std::max<std::size_t>(panels, 1));
  recorder_->dispatch(codes, {0, 0, 0, 0, dtype, granularity}, push, {groups_of(threads, kQuantizeThreads), panels},
                      {range(op.master), ranges.scales, ranges.zero_points}, {ranges.codes});
}

ConstWeight Stream::dequantized(const ConstWeight& w) {
  if (w.dtype != Dtype::float64 && !has_double_scale(w.dtype)) return w;
  return dequantized(w, scratch(kernels::panels_size(w.out, w.in) * sizeof(float)));
}

ConstWeight Stream::dequantized(const ConstWeight& w, std::uint64_t at) {
  static const Shader& kernel = shader("dequantize");
  const std::size_t panels = kernels::panel_count(w.out), floats = kernels::panels_size(w.out, w.in);
  const DequantizePush push{address(w.codes), address(w.scales), address(w.zero_points), at, word(w.out), word(w.in)};
  const WeightRanges ranges(w);
  recorder_->dispatch(kernel,
                      {0, 0, 0, 0, static_cast<std::uint32_t>(w.dtype), static_cast<std::uint32_t>(w.granularity)},
                      push, {groups_of(w.in * kernels::kPanelWidth, kQuantizeThreads), panels},
                      {ranges.codes, ranges.scales, ranges.zero_points}, {{at, at + floats * sizeof(float)}});
  return ConstPanels{reinterpret_cast<const float*>(static_cast<std::uintptr_t>(at)), w.out, w.in};
}

}  // namespace weft::gpu
