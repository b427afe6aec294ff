// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/graph.hpp"
#include "mesh/weights/quantized_weight.hpp"

#include "core/aligned_buffer.hpp"
#include "core/encoding.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace weft::mesh {

/// A WeightStore's weights at one moment: masters, stored forms, types, versions. Its room is used again by the next
/// copy, so copies of one network allocate once.
class WeightCopy {
 public:
  struct Entry {  // a parameter
    std::uint64_t version = 0, stored_version = 0;
    Encoding encoding;                   // of the stored form
    std::size_t stored = 0, master = 0;  // where the bytes stand
    bool is_stored = false, has_master = false;
    std::uint64_t layer_changes = 0;
    bool operator==(const Entry&) const = default;
  };

  bool empty() const noexcept { return entries_.empty(); }
  const std::vector<Entry>& entries() const noexcept { return entries_; }
  /// Encodings of the layers, by node.
  const std::vector<Encoding>& layers() const noexcept { return layers_; }
  /// A master as the store held it; null: released, or not copied.
  const float* master(std::size_t i) const noexcept;
  /// A stored form; its `codes` are null where the matrix was float32.
  kernels::ConstWeight stored(std::size_t i, const ParameterSpec& spec) const noexcept;
  const std::byte* stored_block(std::size_t i) const noexcept { return bytes_.data() + entries_[i].stored; }
  /// Bytes copied, the room of each array rounded up to cache lines.
  std::size_t bytes() const noexcept { return used_; }

 private:
  friend class WeightStore;
  std::vector<Entry> entries_;
  std::vector<Encoding> layers_;
  AlignedBuffer<std::byte> bytes_;
  std::size_t used_ = 0;
  std::uint64_t store_ = 0;  // whose arrays are in bytes_; 0: none are
};

/// Room that a store needs before a copy can go back into it: that of types which it has no more.
struct WeightRoom {
  struct Matrix {
    std::size_t parameter = 0;
    std::unique_ptr<QuantizedWeight> stored;
    WeightMemory master;
  };
  std::vector<Matrix> matrices;
};

}  // namespace weft::mesh
