// SPDX-License-Identifier: Apache-2.0

#include "storage/internal/bus_fault.hpp"

#include <sys/mman.h>

#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <mutex>

namespace weft::storage {
namespace {

/// A range that is watched. `version` is odd while the others change: the handler may run in any thread at any time,
/// and takes a range only when it saw the same even version before and after reading it.
struct Slot {
  std::atomic<bool> is_taken{false};
  std::atomic<std::uint64_t> version{0};
  std::atomic<std::uintptr_t> begin{0}, end{0};
  std::atomic<std::uintptr_t> fault{0};  // offset + 1; 0: none
};
// All that the handler touches must be lock-free to be safe in a signal.
static_assert(std::atomic<std::uintptr_t>::is_always_lock_free && std::atomic<std::uint64_t>::is_always_lock_free);

std::array<Slot, BusWatch::kMostRanges> slots;
std::atomic<std::size_t> slots_used{0};  // the handler looks no further
std::uintptr_t page_size = 0;            // written before the handler is installed, then only read
struct sigaction previous {};            // likewise

struct Found {
  Slot* slot;
  std::uintptr_t begin, end;
};

std::optional<Found> range_of(std::uintptr_t address) noexcept {
  const std::size_t count = slots_used.load(std::memory_order_acquire);  // pairs with the store in watch
  for (std::size_t i = 0; i < count; ++i) {
    Slot& slot = slots[i];
    // Pairs with the releases in set_range. A range that changes just now is not the one being read: its owner would
    // have to unmap it under its own reader.
    const std::uint64_t before = slot.version.load();
    const std::uintptr_t begin = slot.begin.load(), end = slot.end.load();
    if (before % 2 == 0 && slot.version.load() == before && address >= begin && address < end)
      return Found{&slot, begin, end};
  }
  return std::nullopt;
}

void pass_on(int signal, siginfo_t* info, void* context) noexcept {
  if (previous.sa_flags & SA_SIGINFO) return previous.sa_sigaction(signal, info, context);
  if (previous.sa_handler == SIG_IGN && info->si_code <= 0) return;  // sent by kill; a real fault cannot be ignored
  if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) return previous.sa_handler(signal);
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  ::sigaction(signal, &standard, nullptr);
  // A real fault comes again on return; one that was sent does not.
  if (info->si_code <= 0) ::raise(signal);
}

void on_bus_fault(int signal, siginfo_t* info, void* context) noexcept {
  const int kept_errno = errno;
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  const auto found = info->si_code > 0 ? range_of(address) : std::nullopt;
  if (found) {
    const std::uintptr_t page = address / page_size * page_size;
    std::uintptr_t none = 0;
    found->slot->fault.compare_exchange_strong(none, page - found->begin + 1);
    // A system call and nothing else: safe here. What follows the page is of no use any more either.
    const std::uintptr_t last = (found->end + page_size - 1) / page_size * page_size;
    void* const zeros = ::mmap(reinterpret_cast<void*>(page), last - page, PROT_READ,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    if (zeros != MAP_FAILED) {
      errno = kept_errno;
      return;
    }
  }
  errno = kept_errno;
  pass_on(signal, info, context);
}

bool is_ours(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) && action.sa_sigaction == on_bus_fault;
}

/// True while SIGBUS comes to us; installs the handler the first time.
bool owns_signal() noexcept {
  static std::mutex mutex;
  static bool is_installed = false;
  const std::lock_guard lock(mutex);
  struct sigaction now {};
  if (::sigaction(SIGBUS, nullptr, &now) != 0) return false;
  if (is_installed) return is_ours(now);
  page_size = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  previous = now;
  struct sigaction action {};
  action.sa_sigaction = on_bus_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
  ::sigemptyset(&action.sa_mask);
  is_installed = ::sigaction(SIGBUS, &action, nullptr) == 0;
  return is_installed;
}

void set_range(Slot& slot, std::uintptr_t begin, std::uintptr_t end) noexcept {
  slot.version.fetch_add(1);
  slot.begin.store(begin);
  slot.end.store(end);
  slot.version.fetch_add(1);
}

}  // namespace

std::optional<BusWatch> BusWatch::watch(const void* begin, std::size_t size) noexcept {
  if (!owns_signal()) return std::nullopt;
  for (std::size_t i = 0; i < kMostRanges; ++i) {
    Slot& slot = slots[i];
    if (slot.is_taken.exchange(true, std::memory_order_acquire)) continue;  // pairs with the release in ~BusWatch
    slot.fault.store(0);
    set_range(slot, reinterpret_cast<std::uintptr_t>(begin), reinterpret_cast<std::uintptr_t>(begin) + size);
    std::size_t used = slots_used.load();
    while (used < i + 1 && !slots_used.compare_exchange_weak(used, i + 1)) {
    }
    return BusWatch(i);
  }
  return std::nullopt;
}

BusWatch::~BusWatch() {
  if (slot_ == kNone) return;
  set_range(slots[slot_], 0, 0);
  slots[slot_].is_taken.store(false, std::memory_order_release);
}

std::optional<std::size_t> BusWatch::fault() const noexcept {
  const std::uintptr_t noted = slots[slot_].fault.load();
  if (noted == 0) return std::nullopt;
  return noted - 1;
}

}  // namespace weft::storage
