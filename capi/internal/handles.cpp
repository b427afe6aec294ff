// SPDX-License-Identifier: Apache-2.0

#include "capi/internal/handles.hpp"

#include <utility>

namespace weft::capi {

const char* name(Kind kind) noexcept {
  static constexpr std::array<const char*, kKinds> kNames{"none",     "network", "mesh",  "learner",    "agent",
                                                          "snapshot", "answer",  "model", "environment"};
  return kNames[static_cast<std::size_t>(kind)];
}

HandleTable& HandleTable::instance() noexcept {
  // Never destroyed: threads may call while the process ends.
  static HandleTable& table = *new HandleTable;
  return table;
}

HandleTable::Slot* HandleTable::slot_at(std::size_t place) noexcept {
  Slot* const chunk = chunks_[place >> kChunkBits].load(std::memory_order_acquire);  // pairs with the release in add
  return chunk ? chunk + (place & (kChunk - 1)) : nullptr;
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
  const std::uintptr_t last = slot.word.load(std::memory_order_relaxed) >> (1 + kKindBits);
  const std::uintptr_t use = (last + 1) & ((std::uintptr_t{1} << kUseBits) - 1);
  const std::uintptr_t upper = use << kKindBits | static_cast<std::uintptr_t>(kind);
  slot.object = object.release();
  slot.word.store(upper << 1, std::memory_order_release);  // pairs with the acquire in claim
  return reinterpret_cast<void*>(upper << kPlaceBits | place);
}

HandleTable::Claimed HandleTable::claim(const void* handle, Kind kind, Slot*& slot) noexcept {
  const auto number = reinterpret_cast<std::uintptr_t>(handle);
  if (number == 0) return Claimed::null;
  const std::uintptr_t upper = number >> kPlaceBits;
  if ((upper & ((1u << kKindBits) - 1)) != static_cast<std::uintptr_t>(kind)) return Claimed::other_kind;
  slot = slot_at(number & (kPlaces - 1));
  if (!slot) return Claimed::stale;
  std::uintptr_t expected = upper << 1;
  // Pairs with the releases in give_back, add and remove.
  if (slot->word.compare_exchange_strong(expected, upper << 1 | 1, std::memory_order_acquire,
                                         std::memory_order_relaxed))
    return Claimed::yes;
  return expected == (upper << 1 | 1) ? Claimed::busy : Claimed::stale;
}

std::unique_ptr<Object> HandleTable::remove(const void* handle, Slot& slot) noexcept {
  const std::size_t place = reinterpret_cast<std::uintptr_t>(handle) & (kPlaces - 1);
  std::unique_ptr<Object> object(std::exchange(slot.object, nullptr));
  const std::lock_guard hold(mutex_);
  constexpr std::uintptr_t kKindMask = ((std::uintptr_t{1} << kKindBits) - 1) << 1;
  // Of no kind: the handle is stale. Pairs with the acquire in claim.
  slot.word.store(slot.word.load(std::memory_order_relaxed) & ~(kKindMask | 1), std::memory_order_release);
  free_.push_back(static_cast<std::uint32_t>(place));
  return object;
}

Kind HandleTable::kind_of(const void* handle) noexcept {
  const std::uintptr_t kind = reinterpret_cast<std::uintptr_t>(handle) >> kPlaceBits & ((1u << kKindBits) - 1);
  return kind < kKinds ? static_cast<Kind>(kind) : Kind::none;
}

}  // namespace weft::capi
