// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

namespace weft::capi {

/// Kinds of objects that a handle may stand for; part of each handle.
enum class Kind : std::uint32_t { none, network, mesh, learner, agent, snapshot, answer, model, environment };
inline constexpr std::uint32_t kKinds = 9;
const char* name(Kind kind) noexcept;

/// Flag of an object, or of all that share its state: a call is in it. A call that comes late may still look at the
/// flag of what was destroyed, so flags are used again and never freed.
struct BusyFlag {
  std::atomic<bool> is_busy{false};
  BusyFlag* next_free = nullptr;
};

/// State that objects made of each other share: a mesh, its learner, its agent.
struct SharedState {
  SharedState();
  ~SharedState();
  SharedState(const SharedState&) = delete;
  SharedState& operator=(const SharedState&) = delete;

  BusyFlag& flag;
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
  constexpr HandleTable() = default;

  /// A cache line. After a long tick nothing that a call reads is near, so what it will read is asked for at once, by
  /// addresses of which nothing is read before the flag is set.
  struct alignas(64) Slot {
    std::atomic<std::uintptr_t> word{0};   // the handle's upper part
    std::atomic<BusyFlag*> flag{nullptr};  // of the object: its own, or of what it shares
    Object* object = nullptr;              // read and written by whoever set the flag
    std::atomic<const void*> near[2]{};    // the object and what it shares
    BusyFlag own;
    std::uint32_t place = 0, next_free = 0;
  };
  static_assert(sizeof(Slot) == 64);
  enum class Claimed { yes, busy, stale, other_kind, null };

  static HandleTable& instance() noexcept;

  /// Null: the table is full.
  void* add(Kind kind, std::unique_ptr<Object> object);
  /// Marks an object, and all that share its state, as being in a call: one atomic exchange, which is most of what a
  /// call costs. @return how that went; with `yes` the slot, and the flag to be given back
  [[gnu::always_inline]] Claimed claim(const void* handle, Kind kind, Slot*& slot, BusyFlag*& flag) noexcept;
  static void give_back(BusyFlag& flag) noexcept {
    // Pairs with the acquire in claim: the next call sees all that this one did.
    flag.is_busy.store(false, std::memory_order_release);
  }
  /// Takes a claimed object out; its handle is stale from now on, and a flag of its own is given back.
  std::unique_ptr<Object> remove(Slot& slot) noexcept;
  /// For state that objects share; once given to return_flag it is another's.
  BusyFlag& take_flag();
  void return_flag(BusyFlag& flag) noexcept;
  /// The kind that a handle says it is of; none: no handle of ours.
  static Kind kind_of(const void* handle) noexcept;

 private:
  // Of 64 bits 40 count uses; of 32 (WebAssembly) 16, after which a place's handles come again.
  static constexpr unsigned kBits = 8 * sizeof(std::uintptr_t), kPlaceBits = kBits == 64 ? 20 : 12, kKindBits = 4,
                            kUseBits = kBits - kPlaceBits - kKindBits, kChunkBits = 8;
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  static constexpr std::size_t kChunk = std::size_t{1} << kChunkBits, kPlaces = std::size_t{1} << kPlaceBits;

  // Inlined though the folder is compiled small: each call of the C ABI comes through here.
  [[gnu::always_inline]] Slot* slot_at(std::size_t place) noexcept {
    if (place < kChunk) return &first_[place];  // most processes have no more, and a load less to wait for
    Slot* const chunk = chunks_[place >> kChunkBits].load(std::memory_order_acquire);  // pairs with the release in add
    return chunk ? chunk + (place & (kChunk - 1)) : nullptr;
  }

  std::array<Slot, kChunk> first_{};
  std::array<std::atomic<Slot*>, kPlaces / kChunk> chunks_{};  // the first is never made
  std::mutex mutex_;                                           // of what follows
  std::uint32_t free_ = kNone;                                 // a list through next_free
  std::size_t used_ = 0;
  BusyFlag* free_flags_ = nullptr;
};

/// The table of the process. Never destroyed: threads may call while the process ends.
union HandleTableStorage {
  constexpr HandleTableStorage() : table() {}
  ~HandleTableStorage() {}
  HandleTable table;
};
extern constinit HandleTableStorage handle_table;

inline HandleTable& HandleTable::instance() noexcept { return handle_table.table; }

inline HandleTable::Claimed HandleTable::claim(const void* handle, Kind kind, Slot*& slot, BusyFlag*& flag) noexcept {
  const auto number = reinterpret_cast<std::uintptr_t>(handle);
  if (number == 0) return Claimed::null;
  const std::uintptr_t upper = number >> kPlaceBits;
  if ((upper & ((1u << kKindBits) - 1)) != static_cast<std::uintptr_t>(kind)) return Claimed::other_kind;
  slot = slot_at(number & (kPlaces - 1));
  if (!slot) return Claimed::stale;
  // Pairs with the releases in add and remove.
  const auto is_stale = [&]() __attribute__((always_inline)) {
    return slot->word.load(std::memory_order_acquire) != upper;
  };
  if (is_stale()) return Claimed::stale;
  flag = slot->flag.load(std::memory_order_acquire);  // pairs with the release in add
  for (const auto& address : slot->near) __builtin_prefetch(address.load(std::memory_order_relaxed));
  // Pairs with the release in give_back.
  if (flag->is_busy.exchange(true, std::memory_order_acquire)) return is_stale() ? Claimed::stale : Claimed::busy;
  // Another call may have destroyed the object after the first look, and the flag may be another object's by now. An
  // object is destroyed by a call that holds its flag, so what the word says while this call holds it stays true.
  if (!is_stale()) return Claimed::yes;
  give_back(*flag);
  return Claimed::stale;
}

}  // namespace weft::capi
