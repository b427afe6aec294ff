// SPDX-License-Identifier: Apache-2.0
// Eligibility traces and bounded steps.

#include "gpu/internal/cut.hpp"
#include "gpu/internal/push.hpp"
#include "gpu/internal/stream.hpp"
#include "gpu/shaders/trace_operands.inc"

#include "kernels/math.hpp"
#include "kernels/trace.hpp"

#include <algorithm>

namespace weft::gpu {
namespace {

struct TraceUpdatePush {
  WEFT_TRACE_UPDATE_OPERANDS(WEFT_MEMBER)
  std::uint32_t unused = 0;
};
struct BoundedRatePush {
  WEFT_BOUNDED_RATE_OPERANDS(WEFT_MEMBER)
};
struct EndTracesPush {
  WEFT_END_TRACES_OPERANDS(WEFT_MEMBER)
  std::uint32_t unused = 0;
};
enum Traced : std::uint32_t { WEFT_TRACED_NUMBERS(WEFT_ENUMERATOR) };
enum Signal : std::uint32_t { WEFT_SIGNAL_NUMBERS(WEFT_ENUMERATOR) };
static_assert(kSignalError == kernels::kTraceError && kSignalDecay == kernels::kTraceDecay &&
              kSignalBound == kernels::kTraceBound && kSignalEnds == kernels::kTraceEnds);
static_assert(kernels::kPanelWidth == 16);

Range floats(const float* from, std::size_t count) { return range(from, count * sizeof(float)); }
Range signal_of(const float* signal) { return floats(signal, kernels::kTraceSignal); }

}  // namespace

void Stream::lower(const ops::TraceUpdate& op) {
  static const Shader& kernel = shader("trace_update");
  const std::uint32_t traced = op.g ? kTracesMemory : op.x.data ? kTracesProduct : kTracesErrors;
  const TraceUpdatePush push{address(op.signal), address(op.g ? op.g : op.dy.data),
                             address(op.x.data), address(op.z),
                             address(op.sum),    word(op.n),
                             word(op.dy.cols),   word(op.x.cols)};
  recorder_->dispatch(kernel, {traced}, push, {}, {signal_of(op.signal), floats(op.g, op.n), range(op.dy), range(op.x)},
                      {floats(op.z, op.n), floats(op.sum, 1)});
}

void Stream::lower(const ops::BoundedRate& op) {
  static const Shader& kernel = shader("bounded_rate");
  const BoundedRatePush push{address(op.signal),  address(op.sums), address(op.counts),
                             address(op.factors), word(op.layers),  kernels::math::flush(op.lr)};
  recorder_->dispatch(
      kernel, {}, push, groups_for(1, 64),
      {signal_of(op.signal), floats(op.sums, op.count), range(op.counts, op.layers * sizeof *op.counts)},
      {floats(op.factors, kernels::kOptimizerFactors)});
}

void Stream::lower(const ops::EndTraces& op) {
  static const Shader& kernel = shader("end_traces");
  constexpr std::size_t kMost = std::size_t{1} << 31;
  for (std::size_t at = 0; at < op.n; at += kMost) {
    const std::size_t count = std::min(kMost, op.n - at);
    const EndTracesPush push{address(op.signal), address(op.z + at), word(count)};
    recorder_->dispatch(kernel, {}, push, groups_for_long(count, 256), {signal_of(op.signal)},
                        {floats(op.z + at, count)});
  }
}

}  // namespace weft::gpu
