// SPDX-License-Identifier: Apache-2.0
// Encoding a weight anew, as quantisation-aware training does after each step, beside a copy of the master.
// Arguments: outputs, inputs. The counter `of_copy` is the time as a multiple of copying the master's bytes, measured
// in the same run, alternating.

#include "kernels/float_environment.hpp"
#include "kernels/quantize.hpp"

#include "core/aligned_buffer.hpp"
#include "core/philox.hpp"

#include <benchmark/benchmark.h>

#include <chrono>
#include <cstring>
#include <string>

namespace weft::kernels {
namespace {

using Clock = std::chrono::steady_clock;

void quantize_weight(benchmark::State& state, Encoding encoding) {
  const auto out = static_cast<std::size_t>(state.range(0)), in = static_cast<std::size_t>(state.range(1));
  RandomStream random(1, 0, RandomPurpose::test);
  AlignedBuffer<float> master(panels_size(out, in)), copy(panels_size(out, in));
  for (float& w : master) w = random.next_normal();
  const WeightBytes bytes = weight_bytes(encoding, out, in);
  AlignedBuffer<unsigned char> codes(bytes.codes), scales(bytes.scales), zero_points(bytes.zero_points);
  const Weight to{codes.data(), scales.data(), zero_points.data(), out, in, encoding.dtype, encoding.granularity};
  const FlushSubnormals flush;
  double encoding_time = 0, copying_time = 0;
  for (auto _ : state) {
    const auto start = Clock::now();
    quantize({master.data(), out, in}, to);
    benchmark::ClobberMemory();
    const auto middle = Clock::now();
    std::memcpy(copy.data(), master.data(), master.size() * sizeof(float));
    benchmark::ClobberMemory();
    const std::chrono::duration<double> quantized = middle - start, copied = Clock::now() - middle;
    state.SetIterationTime(quantized.count());
    encoding_time += quantized.count(), copying_time += copied.count();
  }
  state.counters["of_copy"] = encoding_time / copying_time;
  state.counters["weights/s"] =
      benchmark::Counter(static_cast<double>(out * in) * static_cast<double>(state.iterations()) / encoding_time);
}

const int kRegistered = [] {
  for (int i = 0; i < kDtypeCount; ++i)
    for (const Granularity g : kGranularities) {
      const Encoding encoding(static_cast<Dtype>(i), g);
      if (encoding.granularity != g || !check_granularity(encoding.dtype, g)) continue;
      benchmark::RegisterBenchmark(("quantize/" + to_string(encoding)).c_str(), quantize_weight, encoding)
          ->Args({256, 256})
          ->Args({4096, 4096})
          ->UseManualTime();
    }
  return 0;
}();

}  // namespace
}  // namespace weft::kernels
