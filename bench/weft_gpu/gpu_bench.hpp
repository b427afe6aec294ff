// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "gpu/command_graph.hpp"
#include "gpu/device.hpp"
#include "gpu/memory.hpp"
#include "gpu/vulkan_stream.hpp"

#include "core/encoding.hpp"
#include "core/json.hpp"
#include "core/result.hpp"

#include "bench/weft/must.hpp"
#include "bench/weft/rows.hpp"
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace weft::bench {

/// Problem sizes: on a GPU those of the published figures, on a software device small ones, with --quick tiny ones.
struct GpuSizes {
  std::size_t copy, gemv, gemm, batch, hidden;  // copy: floats
  std::vector<std::size_t> cells;
  std::uint64_t times;  // a command graph of the device alone is run
};

struct GpuRequest {
  Settings settings;
  std::string device = "vulkan";
  bool has_peer = true;
  std::vector<std::string> only;  // sections; none: all
};

/// Seconds of one step: median and quartiles over rounds.
struct Times {
  double median = 0, low = 0, high = 0;
};

/// Ends the program with the error, where there is one.
void check(const Status& status);
/// Seconds of a clock that never goes back.
double now();

/// Means of the sections, and their measures: the device, PyTorch's figures, the floors.
struct GpuBench {
  GpuBench(Rows& to, const GpuRequest& asked);
  GpuBench(Rows& to, const GpuRequest& asked, std::shared_ptr<gpu::Device> on);

  std::optional<double> of_peer(const char* name) const;
  gpu::Buffer floats(std::size_t count);
  struct Stored {
    std::vector<gpu::Buffer> arrays;
    kernels::ConstWeight view;
  };
  Stored stored(const Encoding& encoding, std::size_t out, std::size_t in);
  std::shared_ptr<gpu::CommandGraph> graph(const std::function<void()>& record);
  /// Of one of `steps` that `run` does, after 100 ms to wake the device's clock.
  Times measure(const std::function<void()>& run, double steps) const;
  /// Of one of `times` runs of a graph.
  Times time(const std::shared_ptr<gpu::CommandGraph>& graph, std::uint64_t times);
  /// No product of n inputs and outputs over so many rows takes less: it multiplies and adds, and moves its operands.
  double least_seconds(double rows, double n) const;

  Rows& rows;
  const GpuRequest& request;
  int rounds;
  std::shared_ptr<gpu::Device> device;
  std::unique_ptr<gpu::VulkanStream> stream;
  Json peer;
  bool is_real;
  const GpuSizes& sizes;
  std::string suffix;              // of rows' names
  double bandwidth = 1, peak = 1;  // bytes and operations a second
};

/// The floors, of which the others need both.
void gpu_copy(GpuBench& bench);
void gpu_peak(GpuBench& bench);
void gpu_gemv(GpuBench& bench);
void gpu_gemm(GpuBench& bench);
/// Products of a training step of the perceptron of gpu_mlp, at its widest layer.
void gpu_products(GpuBench& bench);
/// Products of integer codes with many rows, beside float32's and, where the device has matrix units, without them.
void gpu_codes(GpuBench& bench);
/// A gated pair of linear layers as one operation, beside its parts.
void gpu_gated(GpuBench& bench);
/// Convolutions forward, to inputs and to weights.
void gpu_convolutions(GpuBench& bench);
/// Ticks of meshes of many small cells.
void gpu_ticks(GpuBench& bench);
/// Learning steps of a perceptron.
void gpu_mlp(GpuBench& bench);
/// Texts: tokens one by one, and prompts, of language models of noise.
void gpu_decoding(GpuBench& bench);

}  // namespace weft::bench
