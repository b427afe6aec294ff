// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "gpu/fwd.hpp"

#include "core/result.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace weft::gpu {

/// Properties that a device reports.
struct DeviceInfo {
  std::size_t index = 0;  // as `vulkan:N` names it
  std::string name, driver, kind, api;
  std::string missing;  // why Weft cannot use it; empty when it can

  std::uint64_t memory_bytes = 0;          // of its largest device-local heap
  std::uint64_t max_allocation_bytes = 0;  // of one allocation
  std::uint64_t max_buffer_bytes = 0;      // 0: not said
  std::uint64_t max_storage_range = 0;     // of a bound buffer; addresses know no such limit
  std::array<std::uint32_t, 3> max_groups{};
  std::uint32_t max_group_threads = 0, shared_bytes = 0, push_bytes = 0, subgroup = 0;
  /// Threads of the groups of Weft's shaders: 256, or 128 where groups have fewer or share less than 32 KiB.
  std::uint32_t group_threads = 256;

  bool float64 = false, float16 = false, int8 = false, int16 = false, dot_product = false;
  bool matrix_units = false;  // for signed bytes, 16 by 32 times 32 by 16 (VK_NV_cooperative_matrix)
  bool regular_matrices =
      false;  // their elements stand as gpu/shaders/linear_integer_matrix.comp knows: a look at opening
  bool conditional_dispatches = false;  // left out by a word in memory (VK_EXT_conditional_rendering)
  bool memory_budget = false, flush_control = false, special_values_control = false;
};

/// Result of comparing a device's arithmetic with the CPU's bits.
struct SelfTest {
  /// The hardware's own operations, by the way: shares of differing results.
  double fma_differs = 0, division_differs = 0, root_differs = 0;
  bool fma_is_fused = false, flushes = false;
  /// Shader variant that passed: "fused", "fused, flushing in code", "emulated".
  std::string variant;
  /// True when a result just below 2^-126 that rounds up to it is kept, as on x86 (docs/numerics.md, section 1).
  bool tiny_after_rounding = false;
  std::size_t cases = 0;
  double milliseconds = 0;
};

struct DeviceOptions {
  /// Run under the validation layers, synchronisation included, where they are installed. One answer for the process:
  /// a second device opened beside the first gets the first one's.
  bool validate = false;
  /// Directory of compiled pipelines between runs; "" chooses $XDG_CACHE_HOME/weft, "-" keeps none.
  std::string cache_folder;
  /// Takes the device for one without packed dot products: to test what such devices run.
  bool without_dot_products = false;
  /// The same of units that multiply matrices of bytes.
  bool without_matrix_units = false;
  /// The same of dispatches that a word in memory leaves out.
  bool without_conditional_dispatches = false;
  /// Lets the driver set shaders' constants, as it does on every device that is no CPU: to test what those run.
  bool driver_constants = false;
  /// Bytes that Weft takes of each of the device's heaps at most; 0: as many as the driver would let it.
  std::uint64_t memory_budget = 0;
  /// Time without any finished submission after which the device is taken for lost. 0: 30 seconds, and ten minutes for
  /// a software device, which is slow but does not hang.
  std::chrono::milliseconds timeout{0};
  /// Faults made on purpose, for tests.
  std::shared_ptr<FaultInjection> faults;
};

/// A GPU that proved exact. The selector is `vulkan` (the first usable, real ones before software devices), `vulkan:N`
/// (its index in `devices()`) or `vulkan:text` (part of its name, any case).
/// @thread making streams and memory: any; each stream by one thread at a time
class Device {
 public:
  /// @error  unsupported: no Vulkan loader, no driver, features missing, or not exact (which says what differed);
  ///         unknown_name: nothing fits the selector, and what there is
  static Result<std::shared_ptr<Device>> open(std::string_view selector, const DeviceOptions& options = {});
  /// The same, shared: as long as a device is held, further calls with its selector return it, so its shaders are
  /// compiled once. A lost device is not returned: a new one is opened. @thread any
  static Result<std::shared_ptr<Device>> share(std::string_view selector, const DeviceOptions& options = {});
  virtual ~Device() = default;

  virtual const DeviceInfo& info() const noexcept = 0;
  virtual const SelfTest& self_test() const noexcept = 0;
  virtual Memory& memory() noexcept = 0;
  /// A stream of operations on this device. The device outlives it.
  virtual Result<std::unique_ptr<VulkanStream>> make_stream() = 0;
  /// Operations a second, a fused multiply-add counting two, that shaders do at most with what passed the self-test:
  /// measured in registers, in some 200 ms. For benchmarks.
  virtual Result<double> fma_peak() = 0;
  /// Options it was opened with; `timeout` is the one in use, never 0.
  virtual const DeviceOptions& options() const noexcept = 0;
  /// True when the driver lost it or it hung. It stays so: its memory and streams fail at once. @thread any
  virtual bool is_lost() const noexcept = 0;
  /// Errors of the validation layers since the device was opened, on any device; empty when they are off. A stream
  /// fails when they report something while it works.
  virtual std::vector<std::string> validation_errors() const = 0;
  virtual bool validates() const noexcept = 0;
};

/// Every device there is, usable or not.
/// @error  unsupported: this build or machine has no Vulkan at all, and why
Result<std::vector<DeviceInfo>> devices();

}  // namespace weft::gpu
