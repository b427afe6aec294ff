// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/graph.hpp"
#include "mesh/weights/quantized_weight.hpp"
#include "mesh/weights/weight_conversion.hpp"

#include "core/aligned_buffer.hpp"
#include "core/encoding.hpp"
#include "core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft::mesh {

class BatchCopy;
class WeightStore;

/// A WeightStore's weights at one moment: masters, quantized forms, types, versions. Its memory is used again by the
/// next one, so snapshots of one network allocate once.
/// @thread one at a time
class WeightSnapshot {
 public:
  /// Notes what to copy to hold all weights; without `all_masters` only those of layers that compute with them. What it
  /// holds already, from the last time, is left out where versions say that it has not moved. Allocates nothing when it
  /// has held as much before.
  void take(const WeightStore& weights, bool all_masters, BatchCopy& copies);
  /// Notes versions and types alone, for `is_current`.
  void take_versions(const WeightStore& weights);
  /// True when no weight, version or type has changed since, of which the arrays may be left out.
  bool is_current(const WeightStore& weights) const noexcept;
  /// Memory that a store needs before a snapshot with all masters can go back into it: of types that it has no more.
  /// @error shape_mismatch: another network's; too_large
  Result<WeightConversion> prepare(const WeightStore& weights) const;
  /// Puts types and versions back and notes what to copy for the weights, two copies a parameter at most.
  void restore(WeightStore& weights, WeightConversion prepared, BatchCopy& copies) const;

  /// Encodings of layers, by node.
  const std::vector<Encoding>& layers() const noexcept { return layers_; }
  /// A master as the store held it; null: released, or not copied.
  const float* master(std::size_t i) const noexcept;
  /// A quantized form; its `codes` are null where the matrix was float32.
  kernels::ConstWeight stored(std::size_t i, const ParameterSpec& spec) const noexcept;
  /// Bytes copied, of each array in whole cache lines.
  std::size_t bytes() const noexcept { return used_; }

 private:
  struct Entry {  // a parameter
    std::uint64_t version = 0, stored_version = 0;
    Encoding encoding;                   // of the quantized form
    std::size_t stored = 0, master = 0;  // offsets in bytes_
    bool is_stored = false, has_master = false;
    std::uint64_t layer_changes = 0;
    bool operator==(const Entry&) const = default;
  };
  static Entry entry_of(const WeightStore& weights, std::size_t i) noexcept;
  void take_layers(const WeightStore& weights);

  std::vector<Entry> entries_;
  std::vector<Encoding> layers_;
  AlignedBuffer<std::byte> bytes_;
  std::size_t used_ = 0;
  std::uint64_t store_ = 0;  // whose arrays are in bytes_; 0: none are
};

}  // namespace weft::mesh
