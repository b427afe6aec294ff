// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/fwd.hpp"
#include "kernels/weight.hpp"

#include "topology/node_memory.hpp"

#include "core/aligned_buffer.hpp"
#include "core/archive.hpp"
#include "core/encoding.hpp"
#include "core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

namespace weft::mesh {

/// A block of zeroed memory, 64-byte aligned: from 256 KiB on bound to a NUMA node, below from the heap, where the
/// thread that writes it first decides about its place.
class WeightMemory {
 public:
  WeightMemory() = default;
  static Result<WeightMemory> allocate(std::size_t bytes, topology::NodeMemory& memory, std::uint32_t node);
  std::byte* data() noexcept { return arena_ ? place_ : bound_.empty() ? heap_.data() : bound_.data(); }
  const std::byte* data() const noexcept { return const_cast<WeightMemory*>(this)->data(); }
  /// Bytes allocated: whole pages when bound, otherwise whole cache lines.
  std::uint64_t bytes() const noexcept;

 private:
  friend class WeightArena;
  AlignedBuffer<std::byte> heap_;
  topology::NodeBuffer bound_;
  std::shared_ptr<topology::NodeBuffer> arena_;  // null: one of the two
  std::byte* place_ = nullptr;                   // in the arena, so many bytes
  std::size_t size_ = 0;
};

/// Memory for matrices of one NUMA node, side by side: in huge pages, which prefetching does not stop at the ends of.
/// It is given back when the last of them is.
class WeightArena {
 public:
  WeightArena() = default;
  static Result<WeightArena> make(std::size_t bytes, topology::NodeMemory& memory, std::uint32_t node);
  /// The next zeroed bytes, from a cache line on; empty where there are not so many left.
  WeightMemory take(std::size_t bytes) noexcept;

 private:
  std::shared_ptr<topology::NodeBuffer> memory_{};
  std::size_t used_ = 0;
};

/// Difference between dequantized weights and their master.
struct QuantizationError {
  double rmse = 0.0, largest = 0.0;  // in units of the weight
  double cosine = 1.0;               // between the two matrices as vectors; 1 for two zero matrices
};

/// One matrix in one encoding, derived from its float32 master.
/// @thread one at a time
class QuantizedWeight {
 public:
  /// Room for a [out, in] matrix, zeroed.
  static Result<QuantizedWeight> make(const Encoding& encoding, std::size_t out, std::size_t in,
                                      topology::NodeMemory& memory, std::uint32_t node);
  /// The same in memory that is there.
  static QuantizedWeight make(const Encoding& encoding, std::size_t out, std::size_t in, WeightMemory memory) noexcept;

  const Encoding& encoding() const noexcept { return encoding_; }
  kernels::ConstWeight view() const noexcept { return view(memory_.data(), encoding_, weight_.out, weight_.in); }
  /// Writes codes, scales and zero points anew; allocates nothing. Runs as exact arithmetic does, wherever it is
  /// called.
  void quantize(const kernels::ConstPanels& master) noexcept;
  /// The same by a stream's operation.
  void quantize(const kernels::ConstPanels& master, kernels::OpStream& stream);
  void dequantize(const kernels::Panels& to) const noexcept;

  /// The arrays as files hold them (kernels/weight_layout.hpp): row-major, without padding.
  struct Ordered {
    AlignedBuffer<std::byte> codes, scales, zero_points;
  };
  Ordered ordered() const { return ordered(weight_); }
  static Ordered ordered(const kernels::ConstWeight& weight);
  /// @error corrupt: naming the array, the place and both values; nothing changes then
  Status restore(std::span<const std::byte> codes, std::span<const std::byte> scales,
                 std::span<const std::byte> zero_points);

  /// The smallest row-major index of a weight that dequantizes to an infinity or NaN; nothing when there is none.
  std::optional<std::size_t> first_not_finite() const { return first_not_finite(weight_); }
  static std::optional<std::size_t> first_not_finite(const kernels::ConstWeight& weight);
  QuantizationError error(const kernels::ConstPanels& master) const;
  /// Smallest and largest scale of lanes that hold outputs; 1 and 1 for a type without scales.
  std::pair<double, double> scale_range() const noexcept;
  std::uint64_t bytes() const noexcept { return memory_.bytes(); }

  /// Its arrays as one block of `block_size` bytes, and what such a block holds: codes, scales, zero points, each on a
  /// cache line; of fp8_e4m3 then what `nan_free` points to. Who writes a block writes all of it.
  std::byte* block() noexcept { return memory_.data(); }
  const std::byte* block() const noexcept { return memory_.data(); }
  static std::size_t block_size(const Encoding& encoding, std::size_t out, std::size_t in) noexcept;
  /// The block in whole cache lines, all of which belong to it.
  std::size_t padded_size() const noexcept;
  static kernels::ConstWeight view(const std::byte* block, const Encoding& encoding, std::size_t out,
                                   std::size_t in) noexcept;

  /// Its values: type, codes, scales, zero points.
  template <class Archive>
  static void visit(const kernels::ConstWeight& weight, Archive& archive) {
    const kernels::WeightBytes bytes = kernels::weight_bytes(weight.encoding(), weight.out, weight.in);
    const auto array = [&](std::string_view name, const void* data, std::size_t size) {
      archive(Field{name, Scope::weights}, std::span(static_cast<const std::byte*>(data), size));
    };
    archive(Field{"dtype", Scope::weights}, std::uint64_t(weight.dtype));
    archive(Field{"granularity", Scope::weights}, std::uint64_t(weight.granularity));
    array("codes", weight.codes, bytes.codes);
    array("scales", weight.scales, bytes.scales);
    array("zero_points", weight.zero_points, bytes.zero_points);
  }

  /// The master's version that it was derived from.
  std::uint64_t version = 0;

 private:
  /// Looks at codes that are new.
  void look_at_codes() noexcept;

  Encoding encoding_;
  kernels::Weight weight_;
  WeightMemory memory_;
};

}  // namespace weft::mesh
