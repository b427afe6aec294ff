// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

namespace weft::storage {

/// Watches mapped ranges: a SIGBUS at an address inside one makes the rest of the range, from that page on, read as
/// zeros, and is noted. A SIGBUS anywhere else goes to whoever handled it before us, or ends the process as ever.
///
/// The handler is installed once, with the first range, and stays. Programs that install theirs later and pass on what
/// is not theirs keep ours working; when ours is no longer the process's handler, `watch` gives up, and files are read
/// instead of mapped: installing it again could make two handlers call each other without end.
/// @thread any
class BusWatch {
 public:
  static constexpr std::size_t kMostRanges = 1024;

  /// Nothing when no slot is free or the handler cannot be ours. `begin` is a multiple of the page size.
  static std::optional<BusWatch> watch(const void* begin, std::size_t size) noexcept;
  BusWatch(BusWatch&& other) noexcept : slot_(std::exchange(other.slot_, kNone)) {}
  BusWatch& operator=(BusWatch&& other) noexcept {
    std::swap(slot_, other.slot_);
    return *this;
  }
  /// To be destroyed before the range is unmapped.
  ~BusWatch();

  /// Offset of the first page that could not be read.
  std::optional<std::size_t> fault() const noexcept;

 private:
  static constexpr std::size_t kNone = SIZE_MAX;
  explicit BusWatch(std::size_t slot) noexcept : slot_(slot) {}
  std::size_t slot_;
};

}  // namespace weft::storage
