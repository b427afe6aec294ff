// SPDX-License-Identifier: Apache-2.0

#include "gpu/internal/fma_peak.hpp"

#include "gpu/internal/push.hpp"
#include "gpu/internal/recorder.hpp"
#include "gpu/shaders/self_test_operands.inc"

#include <algorithm>
#include <chrono>

namespace weft::gpu {
namespace {

// Sizes in gpu/shaders/fma_peak.comp.
constexpr std::size_t kFusedEachStep = 8 * 32;
constexpr double kLongEnough = 5e-3;  // seconds, of which handing it over is a small part
constexpr int kRounds = 20;

struct PeakPush {
  WEFT_FMA_PEAK_OPERANDS(WEFT_MEMBER)
};

}  // namespace

Result<double> fma_peak(const std::shared_ptr<Context>& context, Heap& heap, Pipelines& pipelines) {
  using Clock = std::chrono::steady_clock;
  WEFT_TRY(const auto recorder, Recorder::create(context, heap, pipelines));
  const std::size_t groups = context->info.kind == "cpu" ? 16 : 32768;  // so many that the last ones count for little
  const std::size_t threads = groups * context->info.group_threads;
  WEFT_TRY(const Buffer out, heap.allocate(threads * sizeof(float), "a measurement"));
  const auto seconds_of = [&](std::uint32_t steps) -> Result<double> {
    const auto begin = Clock::now();
    recorder->dispatch(shader("fma_peak"), {}, PeakPush{out.address(), steps, 0.5f}, {groups, 1}, {},
                       {{out.address(), out.address() + out.bytes()}});
    WEFT_TRY(const std::uint64_t number, recorder->submit());
    WEFT_CHECK(recorder->wait(number));
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  std::uint32_t steps = 1;
  WEFT_TRY(double least, seconds_of(steps));  // compiles it
  for (least = 0; least < kLongEnough && steps < 1u << 24; steps *= 2) {
    WEFT_TRY(least, seconds_of(2 * steps));
  }
  for (int round = 0; round < kRounds; ++round) {
    WEFT_TRY(const double seconds, seconds_of(steps));
    least = std::min(least, seconds);
  }
  return 2.0 * static_cast<double>(kFusedEachStep * threads) * steps / least;
}

}  // namespace weft::gpu
