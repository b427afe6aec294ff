// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/result.hpp"

#include <atomic>
#include <optional>
#include <string_view>
#include <vector>

namespace weft::kernels {

/// An instruction set that kernels have code for; rows in kernels/isa.def. Every one yields the same bits.
enum class Isa : int {
#define WEFT_ISA_ROW(name, needs) name,
#include "kernels/isa.def"
#undef WEFT_ISA_ROW
};

inline constexpr int kIsaCount = 0
#define WEFT_ISA_ROW(name, needs) +1
#include "kernels/isa.def"
#undef WEFT_ISA_ROW
    ;

std::string_view name(Isa isa) noexcept;
/// CPU features that the instruction set needs, in words.
std::string_view needs(Isa isa) noexcept;
std::optional<Isa> parse_isa(std::string_view text) noexcept;

/// True when this build has code for `isa` and this CPU and operating system run it.
bool is_supported(Isa isa) noexcept;
/// The widest supported one.
Isa best_isa() noexcept;
/// All supported ones, scalar first.
std::vector<Isa> available_isas();

/// The one that kernels run on: `best_isa()`, or what the environment variable WEFT_ISA names.
Isa active_isa() noexcept;
/// Changes it, for tests and benchmarks.
/// @error  unsupported: this CPU or build cannot run it; nothing changes
/// @thread any, but kernels already running finish on the old one
Status set_active_isa(Isa isa);
/// True when prefetching from the second-level cache costs this CPU more than it gains: AMD's up to Zen 4, where it
/// was measured. On Zen 5 it gains (docs/benchmarks.md). It affects speed alone.
bool is_prefetch_costly() noexcept;
/// True when this CPU multiplies vectors of 512 bits by values from memory as fast as by registers: Zen 4, which starts
/// one such multiplication and two loads in a cycle. It affects speed alone.
bool has_fast_loads() noexcept;
/// Succeeds when WEFT_ISA is unset or names a supported instruction set. Otherwise `best_isa()` is active.
/// @error  unknown_name, unsupported
Status check_isa_environment();

/// The instruction set whose code the last kernel call on this thread ran, as written by that code itself.
Isa last_isa_run() noexcept;

namespace detail {
/// Index into dispatch tables. Zero (scalar) until isa.cpp is initialised, so a kernel called earlier still works.
extern std::atomic<int> active_isa_index;
// initial-exec: one plain store per kernel call instead of a call to __tls_get_addr.
#if defined(__GNUC__)
[[gnu::tls_model("initial-exec")]]
#endif
extern constinit thread_local Isa last_isa;
}  // namespace detail

/// One kernel's variants, indexed by Isa; null where this build has none. Made by WEFT_DISPATCH in foreach_isa.hpp.
template <class Function>
struct Dispatch {
  Function* variants[kIsaCount];
  /// The active variant. Relaxed: the tables are constants, only the choice changes.
  Function* get() const noexcept { return variants[detail::active_isa_index.load(std::memory_order_relaxed)]; }
};

}  // namespace weft::kernels
