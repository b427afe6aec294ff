// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace weft::capi {

/// Kinds of objects that a handle may stand for; part of each handle.
enum class Kind : std::uint32_t { none, network, mesh, learner, agent, snapshot, answer, model, environment };
inline constexpr std::uint32_t kKinds = 9;
const char* name(Kind kind) noexcept;

/// State that objects made of each other share: a mesh, its learner, its agent.
struct SharedState {
  std::atomic<bool> is_busy{false};
  bool is_closed = false;  // read and written while busy
};

/// Something that a handle stands for.
class Object {
 public:
  explicit Object(std::shared_ptr<SharedState> with = nullptr) noexcept : shared(std::move(with)) {}
  virtual ~Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  const std::shared_ptr<SharedState> shared;
};

/// Objects by their handles. A handle is a number in the clothes of a pointer: a place in the table, the kind, and how
/// often the place was used before, so that none comes twice. Nothing is ever read through it.
/// @thread any
class HandleTable {
 public:
  struct Slot {
    std::atomic<std::uintptr_t> word{0};  // the handle's upper part, and in the lowest bit: a call is in it
    Object* object = nullptr;             // read and written by whoever set that bit
  };
  enum class Claimed { yes, busy, stale, other_kind, null };

  static HandleTable& instance() noexcept;

  /// Null: the table is full.
  void* add(Kind kind, std::unique_ptr<Object> object);
  /// Marks an object as being in a call. @return how that went; with `yes` the slot to be given back
  Claimed claim(const void* handle, Kind kind, Slot*& slot) noexcept;
  static void give_back(Slot& slot) noexcept {
    // Pairs with the acquire in claim: the next call sees all that this one did.
    slot.word.store(slot.word.load(std::memory_order_relaxed) & ~std::uintptr_t{1}, std::memory_order_release);
  }
  /// Takes a claimed object out; its handle is stale from now on.
  std::unique_ptr<Object> remove(const void* handle, Slot& slot) noexcept;
  /// The kind that a handle says it is of; none: no handle of ours.
  static Kind kind_of(const void* handle) noexcept;

 private:
  // Of 64 bits 40 count uses; of 32 (WebAssembly) 16, after which a place's handles come again.
  static constexpr unsigned kBits = 8 * sizeof(std::uintptr_t), kPlaceBits = kBits == 64 ? 20 : 12, kKindBits = 4,
                            kUseBits = kBits - kPlaceBits - kKindBits, kChunkBits = 8;
  static constexpr std::size_t kChunk = std::size_t{1} << kChunkBits, kPlaces = std::size_t{1} << kPlaceBits;

  Slot* slot_at(std::size_t place) noexcept;

  std::array<std::atomic<Slot*>, kPlaces / kChunk> chunks_{};
  std::mutex mutex_;  // of what follows
  std::vector<std::uint32_t> free_;
  std::size_t used_ = 0;
};

}  // namespace weft::capi
