// SPDX-License-Identifier: Apache-2.0

#include "capi/internal/handles.hpp"

#include <utility>

namespace weft::capi {

const char* name(Kind kind) noexcept {
  static constexpr std::array<const char*, kKinds> kNames{"none",     "network", "mesh",  "learner",    "agent",
                                                          "snapshot", "answer",  "model", "environment"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::atomic<HandleTable*> HandleTable::made_{nullptr};

HandleTable& HandleTable::make() noexcept {
  // Never destroyed: threads may call while the process ends.
  static HandleTable& table = *new HandleTable;
  made_.store(&table, std::memory_order_release);  // pairs with the acquire in instance
  return table;
}

SharedState::SharedState() : flag(HandleTable::instance().take_flag()) {}
SharedState::~SharedState() { HandleTable::instance().return_flag(flag); }

BusyFlag& HandleTable::take_flag() {
  const std::lock_guard hold(mutex_);
  if (!free_flags_) return *new BusyFlag;
  return *std::exchange(free_flags_, free_flags_->next_free);
}

void HandleTable::return_flag(BusyFlag& flag) noexcept {
  const std::lock_guard hold(mutex_);
  flag.next_free = std::exchange(free_flags_, &flag);
}

void* HandleTable::add(Kind kind, std::unique_ptr<Object> object) {
  const std::lock_guard hold(mutex_);
  if (free_.capacity() <= used_) free_.reserve(2 * used_ + 16);  // so that remove need not allocate
  std::size_t place;
  if (!free_.empty()) {
    place = free_.back();
    free_.pop_back();
  } else {
    if (used_ == kPlaces) return nullptr;
    place = used_;
    if (!slot_at(place)) chunks_[place >> kChunkBits].store(new Slot[kChunk], std::memory_order_release);
    ++used_;
  }
  Slot& slot = *slot_at(place);
  // The word of a free slot has the number of the use before, of no kind.
  const std::uintptr_t last = slot.word.load(std::memory_order_relaxed) >> kKindBits;
  const std::uintptr_t use = (last + 1) & ((std::uintptr_t{1} << kUseBits) - 1);
  const std::uintptr_t upper = use << kKindBits | static_cast<std::uintptr_t>(kind);
  // Both pair with the acquires in claim.
  slot.flag.store(object->shared ? &object->shared->flag : &slot.own, std::memory_order_release);
  slot.object = object.release();
  slot.word.store(upper, std::memory_order_release);
  return reinterpret_cast<void*>(upper << kPlaceBits | place);
}

std::unique_ptr<Object> HandleTable::remove(const void* handle, Slot& slot) noexcept {
  const std::size_t place = reinterpret_cast<std::uintptr_t>(handle) & (kPlaces - 1);
  std::unique_ptr<Object> object(std::exchange(slot.object, nullptr));
  const std::lock_guard hold(mutex_);
  constexpr std::uintptr_t kKindMask = (std::uintptr_t{1} << kKindBits) - 1;
  // Of no kind: the handle is stale. Pairs with the acquire in claim.
  slot.word.store(slot.word.load(std::memory_order_relaxed) & ~kKindMask, std::memory_order_release);
  if (!object->shared) give_back(slot.own);
  free_.push_back(static_cast<std::uint32_t>(place));
  return object;
}

Kind HandleTable::kind_of(const void* handle) noexcept {
  const std::uintptr_t kind = reinterpret_cast<std::uintptr_t>(handle) >> kPlaceBits & ((1u << kKindBits) - 1);
  return kind < kKinds ? static_cast<Kind>(kind) : Kind::none;
}

}  // namespace weft::capi
