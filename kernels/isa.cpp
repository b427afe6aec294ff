// SPDX-License-Identifier: Apache-2.0

#include "kernels/isa.hpp"

#include <cstdint>
#include <cstdlib>
#include <string>
#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>

#include <unistd.h>
#endif
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

namespace weft::kernels {
namespace {

constexpr std::string_view kIsaNames[] = {
#define WEFT_ISA_ROW(name, needs) #name,
#include "kernels/isa.def"
#undef WEFT_ISA_ROW
};
constexpr std::string_view kNeeds[] = {
#define WEFT_ISA_ROW(name, needs) needs,
#include "kernels/isa.def"
#undef WEFT_ISA_ROW
};

#if defined(__x86_64__)
struct CpuFeatures {
  bool avx2 = false, avx512 = false, avx512_vnni = false, amx = false;
};

bool has_all(unsigned word, unsigned bits) noexcept { return (word & bits) == bits; }

[[maybe_unused]] constexpr long kTileData = 18;  // XFEATURE_XTILEDATA

/// True when the system gives the registers of AMX to programs that ask for them.
bool is_amx_offered() noexcept {
#if defined(__linux__)
  constexpr long kGetSupported = 0x1021;  // ARCH_GET_XCOMP_SUPP
  std::uint64_t supported = 0;
  return syscall(SYS_arch_prctl, kGetSupported, &supported) == 0 && (supported >> kTileData & 1) != 0;
#else
  return false;
#endif
}

// By cpuid itself: __builtin_cpu_supports lacks names (f16c, clang 14) and Highway's detector would link libhwy.
CpuFeatures detect() noexcept {
  CpuFeatures found;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return found;
  // FMA, OSXSAVE, AVX, F16C, AES, PCLMUL, SSSE3, SSE4.1, SSE4.2.
  constexpr unsigned kLeaf1 = 1u << 12 | 1u << 27 | 1u << 28 | 1u << 29 | 1u << 25 | 1u << 1 | 1u << 9 | 3u << 19;
  if (!has_all(c, kLeaf1)) return found;
  unsigned xcr0 = 0, xcr0_high = 0;
  __asm__ volatile("xgetbv" : "=a"(xcr0), "=d"(xcr0_high) : "c"(0));
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return found;
  const unsigned leaf7 = b, leaf7_c = c, leaf7_d = d;
  unsigned lzcnt = 0;
  if (__get_cpuid(0x80000001u, &a, &b, &c, &d)) lzcnt = c & 1u << 5;
  // AVX2, BMI1, BMI2; the system must save xmm and ymm.
  found.avx2 = lzcnt && has_all(leaf7, 1u << 5 | 1u << 3 | 1u << 8) && has_all(xcr0, 0x6);
  // AVX-512 F, DQ, CD, BW, VL; the system must save opmask and zmm too.
  found.avx512 =
      found.avx2 && has_all(leaf7, 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31) && has_all(xcr0, 0xe6);
  // VNNI: vpdpbusd and vpdpwssd on the registers that the above tells of.
  found.avx512_vnni = found.avx512 && has_all(leaf7_c, 1u << 11);
  // AMX-TILE and AMX-INT8; the system must know the tiles' configuration and data, and offer their use.
  found.amx = found.avx512_vnni && has_all(leaf7_d, 1u << 24 | 1u << 25) && has_all(xcr0, 3u << 17) && is_amx_offered();
  return found;
}

const CpuFeatures& features() noexcept {
  static const CpuFeatures found = detect();
  return found;
}
#endif

#if defined(__aarch64__)
/// True when the CPU adds four products of bytes to a lane and this build has code for it (foreach_isa.hpp).
bool has_dot_products() noexcept {
#if defined(__linux__) && !defined(__clang__)
  constexpr unsigned long kDotProducts = 1ul << 20;  // HWCAP_ASIMDDP
  return (getauxval(AT_HWCAP) & kDotProducts) != 0;
#else
  return false;
#endif
}
#endif

/// True when the instruction set's code may run in this process. Tiles of AMX make the state that the system saves of
/// each thread that uses them larger by 8 KiB; the system is asked for them once for all threads, at the start.
bool request_permission(Isa isa) noexcept {
  if (isa != Isa::amx) return true;
#if defined(__x86_64__) && defined(__linux__)
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  static const bool is_permitted = syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  return is_permitted;
#else
  return false;
#endif
}

[[maybe_unused]] bool is_amd() noexcept {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(0, &a, &b, &c, &d) && b == 0x68747541u && d == 0x69746e65u && c == 0x444d4163u;  // AuthenticAMD
#else
  return false;
#endif
}

/// Family and extended family of an AMD CPU; 0 of others. 19h is Zen 3, which has no vectors of 512 bits, and Zen 4;
/// 1Ah is Zen 5.
unsigned amd_family() noexcept {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  return is_amd() && __get_cpuid(1, &a, &b, &c, &d) ? ((a >> 8) & 15) + ((a >> 20) & 255) : 0;
#else
  return 0;
#endif
}

const char* environment() noexcept {
  const char* text = std::getenv("WEFT_ISA");
  return text && *text ? text : nullptr;
}

int initial_isa() noexcept {
  if (const char* text = environment())
    if (const auto named = parse_isa(text); named && is_supported(*named) && request_permission(*named))
      return static_cast<int>(*named);
  const Isa best = best_isa();
  return static_cast<int>(request_permission(best) ? best : Isa::avx512_vnni);  // amx alone asks
}

}  // namespace

bool is_prefetch_costly() noexcept {
  static const bool is_dear = amd_family() != 0 && amd_family() <= 0x19;
  return is_dear;
}

bool has_fast_loads() noexcept {
  static const bool keep_up = amd_family() == 0x19;
  return keep_up;
}

namespace detail {
constinit std::atomic<int> active_isa_index{0};
constinit thread_local Isa last_isa = Isa::scalar;
}  // namespace detail

namespace {
[[maybe_unused]] const int kInitialised = (detail::active_isa_index = initial_isa());
}

std::string_view name(Isa isa) noexcept { return kIsaNames[static_cast<int>(isa)]; }
std::string_view needs(Isa isa) noexcept { return kNeeds[static_cast<int>(isa)]; }

std::optional<Isa> parse_isa(std::string_view text) noexcept {
  for (int i = 0; i < kIsaCount; ++i)
    if (kIsaNames[i] == text) return static_cast<Isa>(i);
  return std::nullopt;
}

bool is_supported(Isa isa) noexcept {
  switch (isa) {
    case Isa::scalar:
      return true;
#if defined(__x86_64__)
    case Isa::avx2:
      return features().avx2;
    case Isa::avx512:
      return features().avx512;
    case Isa::avx512_vnni:
      return features().avx512_vnni;
    case Isa::amx:
      return features().amx;
#elif defined(__aarch64__)
    case Isa::neon:
      return true;  // part of the AArch64 baseline
    case Isa::neon_dotprod:
      return has_dot_products();
#elif defined(__wasm_simd128__)
    case Isa::wasm128:
      return true;
#endif
    default:
      return false;
  }
}

Isa best_isa() noexcept {
  for (const Isa isa : {Isa::amx, Isa::avx512_vnni, Isa::avx512, Isa::avx2, Isa::neon_dotprod, Isa::neon, Isa::wasm128})
    if (is_supported(isa)) return isa;
  return Isa::scalar;
}

std::vector<Isa> available_isas() {
  std::vector<Isa> all;
  for (int i = 0; i < kIsaCount; ++i)
    if (is_supported(static_cast<Isa>(i))) all.push_back(static_cast<Isa>(i));
  return all;
}

Isa active_isa() noexcept { return static_cast<Isa>(detail::active_isa_index.load(std::memory_order_relaxed)); }

Status set_active_isa(Isa isa) {
  if (!is_supported(isa) || !request_permission(isa))
    return fail(Errc::unsupported, "instruction set '" + std::string(name(isa)) + "' needs " + std::string(needs(isa)) +
                                       ", which this CPU or build lacks");
  detail::active_isa_index.store(static_cast<int>(isa), std::memory_order_relaxed);
  return {};
}

Status check_isa_environment() {
  const char* text = environment();
  if (!text) return {};
  const auto named = parse_isa(text);
  if (!named) {
    std::string known;
    for (const auto each : kIsaNames) known += (known.empty() ? "" : ", ") + std::string(each);
    return fail(Errc::unknown_name, "WEFT_ISA='" + std::string(text) + "' is not one of " + known);
  }
  if (!is_supported(*named) || !request_permission(*named))
    return fail(Errc::unsupported, "WEFT_ISA='" + std::string(text) + "' needs " + std::string(needs(*named)) +
                                       ", which this CPU or build lacks");
  return {};
}

Isa last_isa_run() noexcept { return detail::last_isa; }

}  // namespace weft::kernels
