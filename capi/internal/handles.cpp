// SPDX-License-Identifier: Apache-2.0

#include "capi/internal/handles.hpp"

#include <utility>

namespace weft::capi {

const char* name(Kind kind) noexcept {
  static constexpr std::array<const char*, kKinds> kNames{"none",     "network", "mesh",  "learner",    "agent",
                                                          "snapshot", "answer",  "model", "environment"};
  return kNames[static_cast<std::size_t>(kind)];
}

constinit HandleTableStorage handle_table;

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
  Slot* slot = nullptr;
  if (free_ != kNone) {
    slot = slot_at(free_);
    free_ = slot->next_free;
  } else {
    if (used_ == kPlaces) return nullptr;
    if (!slot_at(used_)) chunks_[used_ >> kChunkBits].store(new Slot[kChunk], std::memory_order_release);
    slot = slot_at(used_);
    slot->place = static_cast<std::uint32_t>(used_++);
  }
  // The word of a free slot has the number of the use before, of no kind.
  const std::uintptr_t last = slot->word.load(std::memory_order_relaxed) >> kKindBits;
  const std::uintptr_t use = (last + 1) & ((std::uintptr_t{1} << kUseBits) - 1);
  const std::uintptr_t upper = use << kKindBits | static_cast<std::uintptr_t>(kind);
  // Both pair with the acquires in claim.
  slot->flag.store(object->shared ? &object->shared->flag : &slot->own, std::memory_order_release);
  slot->near[0].store(object.get(), std::memory_order_relaxed);
  slot->near[1].store(object->shared.get(), std::memory_order_relaxed);
  slot->object = object.release();
  slot->word.store(upper, std::memory_order_release);
  return reinterpret_cast<void*>(upper << kPlaceBits | slot->place);
}

std::unique_ptr<Object> HandleTable::remove(Slot& slot) noexcept {
  std::unique_ptr<Object> object(std::exchange(slot.object, nullptr));
  const std::lock_guard hold(mutex_);
  constexpr std::uintptr_t kKindMask = (std::uintptr_t{1} << kKindBits) - 1;
  // Of no kind: the handle is stale. Pairs with the acquire in claim.
  slot.word.store(slot.word.load(std::memory_order_relaxed) & ~kKindMask, std::memory_order_release);
  if (!object->shared) give_back(slot.own);
  slot.next_free = std::exchange(free_, slot.place);
  return object;
}

Kind HandleTable::kind_of(const void* handle) noexcept {
  const std::uintptr_t kind = reinterpret_cast<std::uintptr_t>(handle) >> kPlaceBits & ((1u << kKindBits) - 1);
  return kind < kKinds ? static_cast<Kind>(kind) : Kind::none;
}

}  // namespace weft::capi
