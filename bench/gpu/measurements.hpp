// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "gpu/command_graph.hpp"
#include "gpu/device.hpp"
#include "gpu/memory.hpp"
#include "gpu/vulkan_stream.hpp"

#include "kernels/views.hpp"
#include "kernels/weight.hpp"

#include "core/encoding.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

/// Best rates of a GPU: ticks of many small cells as a command graph beside the device's own copy, a matrix times a
/// vector and times a matrix. For gpu_gpu_bench; `weft bench gpu` measures
/// whole meshes (bench/weft_gpu).
namespace weft::bench {

struct GpuMeasurement {
  std::string name;
  double value = 0;
  std::string unit;
  std::string beside = {};  // what it is compared with in this run; empty: nothing
  std::optional<double> other = std::nullopt;
  std::optional<double> ratio = std::nullopt;   // to it
  std::optional<double> wanted = std::nullopt;  // a bound of the ratio: at least for rates, at most for times
};
using TakeMeasurement = std::function<void(const GpuMeasurement&)>;

namespace gpu_measurements_detail {

using Clock = std::chrono::steady_clock;
inline double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// Seconds a run: the median of rounds of about `slice` seconds, after 100 ms of warming. `record(times)` records so
/// many.
class Stopwatch {
 public:
  Stopwatch(gpu::VulkanStream& stream, bool quick)
      : stream_(stream), rounds_(quick ? 3 : 9), slice_(quick ? 2e-3 : 40e-3) {}
  template <class Record>
  Result<double> measure(const Record& record) {
    std::uint64_t times = 1;
    double took = 0;
    for (const auto begin = Clock::now(); since(begin) < 0.1;) {
      WEFT_TRY(took, timed(record, times));
      times = std::clamp<std::uint64_t>(static_cast<std::uint64_t>(slice_ / std::max(took, 1e-7)), 1, 100000);
    }
    std::vector<double> all;
    for (int i = 0; i < rounds_; ++i) {
      WEFT_TRY(took, timed(record, times));
      all.push_back(took);
    }
    std::nth_element(all.begin(), all.begin() + rounds_ / 2, all.end());
    return all[static_cast<std::size_t>(rounds_ / 2)];
  }

 private:
  template <class Record>
  Result<double> timed(const Record& record, std::uint64_t times) {
    const auto begin = Clock::now();
    record(times);
    WEFT_CHECK(stream_.finish());
    return since(begin) / static_cast<double>(times);
  }
  gpu::VulkanStream& stream_;
  int rounds_;
  double slice_;
};

/// Buffers that hold `value` in every float.
class Memory {
 public:
  Memory(gpu::Device& device, gpu::VulkanStream& stream) : device_(device), stream_(stream) {}
  Result<float*> filled(std::size_t bytes, float value) {
    WEFT_TRY(gpu::Buffer buffer, device_.memory().allocate(bytes, "what a benchmark works on"));
    const std::size_t floats = (bytes + 3) / 4;
    stream_.fill({value, {buffer.data(), 1, floats, floats}});
    buffers_.push_back(std::move(buffer));
    return buffers_.back().data();
  }

 private:
  gpu::Device& device_;
  gpu::VulkanStream& stream_;
  std::vector<gpu::Buffer> buffers_;
};

/// Dense cells of 64 by 64 with tanh, batch 1, each with weights of its own, that read one ring and write another.
class Cells {
 public:
  static constexpr std::size_t kWidth = 64;
  static Result<Cells> make(Memory& memory, const Encoding& encoding, std::size_t count) {
    Cells cells;
    cells.count_ = count;
    cells.bytes_ = kernels::weight_bytes(encoding, kWidth, kWidth);
    cells.encoding_ = encoding;
    // One allocation for all could exceed what a driver gives at once.
    for (std::size_t first = 0; first < count; first += kEach) {
      const std::size_t part = std::min(kEach, count - first);
      Arrays arrays;
      WEFT_TRY(arrays.codes, memory.filled(part * cells.bytes_.codes, 0.01f));
      WEFT_TRY(arrays.scales, memory.filled(part * cells.bytes_.scales, 0.01f));
      cells.arrays_.push_back(arrays);
    }
    for (float*& ring : cells.rings_) {
      WEFT_TRY(ring, memory.filled(count * kWidth * sizeof(float), 0.5f));
    }
    WEFT_TRY(cells.biases_, memory.filled(count * kWidth * sizeof(float), 0.125f));
    return cells;
  }
  void tick(gpu::VulkanStream& stream, bool back) const {
    for (std::size_t c = 0; c < count_; ++c) {
      const Arrays& arrays = arrays_[c / kEach];
      kernels::ConstWeight w;
      w.codes = reinterpret_cast<const char*>(arrays.codes) + c % kEach * bytes_.codes;
      if (bytes_.scales > 0) w.scales = reinterpret_cast<const char*>(arrays.scales) + c % kEach * bytes_.scales;
      w.out = w.in = kWidth, w.dtype = encoding_.dtype, w.granularity = encoding_.granularity;
      const kernels::MatrixView a{rings_[0] + c * kWidth, 1, kWidth, kWidth},
          b{rings_[1] + c * kWidth, 1, kWidth, kWidth};
      stream.linear({w, biases_ + c * kWidth, back ? b : a, kernels::Activation::tanh, {}, back ? a : b});
    }
  }
  /// Bytes that a tick must move: weights, biases, inputs and outputs.
  double bytes() const noexcept {
    return static_cast<double>(count_) * static_cast<double>(bytes_.total() + 3 * kWidth * sizeof(float));
  }

 private:
  static constexpr std::size_t kEach = 16384;
  struct Arrays {
    float *codes = nullptr, *scales = nullptr;
  };
  std::size_t count_ = 0;
  kernels::WeightBytes bytes_;
  Encoding encoding_;
  std::vector<Arrays> arrays_;
  float *rings_[2] = {}, *biases_ = nullptr;
};

/// Bytes a second, read and written, of the device's copy.
inline Result<double> copy_rate(gpu::Device& device, bool quick, const TakeMeasurement& take) {
  WEFT_TRY(const auto stream, device.make_stream());
  Memory memory(device, *stream);
  const std::size_t bytes = std::size_t{quick ? 16u : 1024u} << 20;
  WEFT_TRY(float* const from, memory.filled(bytes, 1.0f));
  WEFT_TRY(float* const to, memory.filled(bytes, 2.0f));
  WEFT_TRY(const double seconds, Stopwatch(*stream, quick).measure([&](std::uint64_t times) {
    for (std::uint64_t i = 0; i < times; ++i) stream->transfer(from, bytes, to);
  }));
  const double rate = 2 * static_cast<double>(bytes) / seconds;
  take({.name = "gpu/copy", .value = rate * 1e-9, .unit = "GB/s"});
  return rate;
}

/// Seconds a tick; `beside_float` those of float32, 0 when this is it.
inline Result<double> tick(gpu::Device& device, bool quick, std::size_t count, Dtype dtype, double copy,
                           double beside_float, const TakeMeasurement& take) {
  WEFT_TRY(const auto stream, device.make_stream());
  Memory memory(device, *stream);
  const Encoding encoding(dtype);
  WEFT_TRY(const Cells cells, Cells::make(memory, encoding, count));
  const auto begin = Clock::now();
  WEFT_CHECK(stream->begin_capture());
  cells.tick(*stream, false);
  cells.tick(*stream, true);
  WEFT_TRY(const auto graph, stream->end_capture());
  const double collected = since(begin);
  WEFT_TRY(const double two, Stopwatch(*stream, quick).measure([&](std::uint64_t times) {
    static_cast<void>(stream->run(graph, times));  // a failure stays: finish() says it
  }));
  const double seconds = two / 2, rate = cells.bytes() / seconds;
  const std::string where = "gpu/tick/" + std::to_string(count) + "/" + to_string(encoding);
  const bool is_large = count >= 65536;
  take({.name = where,
        .value = rate * 1e-9,
        .unit = "GB/s",
        .beside = "copy",
        .other = copy * 1e-9,
        .ratio = rate / copy,
        .wanted = dtype == Dtype::float32 && is_large ? std::optional(0.9) : std::nullopt});
  GpuMeasurement time{.name = where + "/time", .value = seconds * 1e6, .unit = "us"};
  if (beside_float > 0) {
    time.beside = "float32", time.other = beside_float * 1e6, time.ratio = seconds / beside_float;
    if (count >= 262144) time.wanted = dtype == Dtype::int8 ? 0.3 : dtype == Dtype::int4 ? 0.18 : 0.08;
  }
  take(time);
  if (beside_float == 0) take({.name = where + "/collect", .value = collected / 2 * 1e3, .unit = "ms a tick, once"});
  return seconds;
}

/// y = x w^T, `batch` rows.
inline Status product(gpu::Device& device, bool quick, std::size_t batch, std::size_t size, double copy,
                      const TakeMeasurement& take) {
  WEFT_TRY(const auto stream, device.make_stream());
  Memory memory(device, *stream);
  WEFT_TRY(float* const w, memory.filled(size * size * sizeof(float), 0.01f));
  WEFT_TRY(float* const x, memory.filled(batch * size * sizeof(float), 0.5f));
  WEFT_TRY(float* const y, memory.filled(batch * size * sizeof(float), 0.0f));
  WEFT_CHECK(stream->begin_capture());
  stream->linear({kernels::ConstPanels{w, size, size},
                  nullptr,
                  {x, batch, size, size},
                  kernels::Activation::linear,
                  {},
                  {y, batch, size, size}});
  WEFT_TRY(const auto graph, stream->end_capture());
  WEFT_TRY(const double seconds, Stopwatch(*stream, quick).measure([&](std::uint64_t times) {
    static_cast<void>(stream->run(graph, times));
  }));
  const double n = static_cast<double>(size), rate = n * n * sizeof(float) / seconds;
  const std::string name = std::to_string(size) + "/float32";
  if (batch == 1)
    take({.name = "gpu/gemv/" + name,
          .value = rate * 1e-9,
          .unit = "GB/s",
          .beside = "copy",
          .other = copy * 1e-9,
          .ratio = rate / copy});
  else
    take({.name = "gpu/gemm/" + name,
          .value = 2 * n * n * static_cast<double>(batch) / seconds * 1e-12,
          .unit = "TFLOP/s"});
  return {};
}

}  // namespace gpu_measurements_detail

/// Hands each measurement over as it is made. `quick`: small sizes and few rounds, to see that all runs.
inline Status measure_gpu(gpu::Device& device, bool quick, const TakeMeasurement& take) {
  using namespace gpu_measurements_detail;
  WEFT_TRY(const double copy, copy_rate(device, quick, take));
  for (const std::size_t cells : quick ? std::vector<std::size_t>{64} : std::vector<std::size_t>{4096, 65536, 262144}) {
    WEFT_TRY(const double seconds, tick(device, quick, cells, Dtype::float32, copy, 0, take));
    for (const Dtype dtype : {Dtype::int8, Dtype::int4, Dtype::binary})
      WEFT_CHECK(tick(device, quick, cells, dtype, copy, seconds, take));
    device.memory().trim();
  }
  WEFT_CHECK(product(device, quick, 1, quick ? 512 : 8192, copy, take));
  return product(device, quick, quick ? 256 : 4096, quick ? 256 : 4096, copy, take);
}

}  // namespace weft::bench
