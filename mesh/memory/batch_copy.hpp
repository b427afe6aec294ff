// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "scheduler/executor.hpp"

#include <cstddef>
#include <vector>

namespace weft::mesh {

/// Copies that are to be made together: what follows on both sides becomes one, and large ones are shared by threads.
/// Its memory is reused.
class BatchCopy {
 public:
  /// Bytes from which on threads share them: below, waking and meeting costs more.
  static constexpr std::size_t kShared = std::size_t{1} << 20;

  void clear() noexcept;
  /// Reserves memory for this many copies, so that adding them allocates nothing.
  void reserve(std::size_t copies) { copies_.reserve(copies); }
  /// Both sides may be copied up to the next cache line: arrays that are padded to one and follow each other are
  /// joined.
  void add(void* to, const void* from, std::size_t size);
  std::size_t count() const noexcept { return copies_.size(); }
  std::size_t bytes() const noexcept { return bytes_; }
  /// Makes them all, on the threads of `executor` too where that pays.
  void make(scheduler::Executor& executor) const noexcept;

 private:
  struct Copy {
    std::byte* to = nullptr;
    const std::byte* from = nullptr;
    std::size_t size = 0;
    std::size_t at = 0;  // bytes of those before it
  };
  class Shared;
  std::vector<Copy> copies_;
  std::size_t bytes_ = 0;
};

}  // namespace weft::mesh
