// SPDX-License-Identifier: Apache-2.0

#include "mesh/runtime/halt.hpp"

#include <thread>
#include <tuple>

namespace weft::mesh {

// A spin lock: it is held for a copy, and taken at a halt or by who asks about one.
class HaltRecord::Hold {
 public:
  explicit Hold(std::atomic_flag& lock) noexcept : lock_(lock) {
    while (lock_.test_and_set(std::memory_order_acquire)) std::this_thread::yield();
  }
  ~Hold() { lock_.clear(std::memory_order_release); }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

 private:
  std::atomic_flag& lock_;
};

std::optional<Halt> HaltRecord::get() const noexcept {
  if (!is_set()) return std::nullopt;
  const Hold hold(lock_);
  return is_set_.load(std::memory_order_relaxed) ? std::optional(first_) : std::nullopt;
}

void HaltRecord::note(const Halt& halt) noexcept {
  const Hold hold(lock_);
  if (std::tie(halt.tick, halt.cell) < std::tie(first_.tick, first_.cell)) first_ = halt;
  is_set_.store(true, std::memory_order_release);  // pairs with the acquire in is_set
}

void HaltRecord::clear() noexcept {
  if (!is_set()) return;
  const Hold hold(lock_);
  first_ = {};
  is_set_.store(false, std::memory_order_release);
}

}  // namespace weft::mesh
