// SPDX-License-Identifier: Apache-2.0
// Not a header of its own: a kernel's .cpp includes it first, and is re-included once per ISA by it.
//
//   #undef WEFT_THIS_FILE
//   #define WEFT_THIS_FILE "kernels/scale.cpp"
//   #include "kernels/foreach_isa.hpp"       // compiles this file for the vector ISAs, then goes on as scalar
//   #include "kernels/scale.hpp"             // and std headers: outside of the target region
//   WEFT_ISA_BEGIN();
//   namespace weft::kernels::WEFT_ISA {      // avx2, avx512, neon, wasm128, scalar
//   namespace {                              // internal linkage: other .cpp have the same namespace
//   void scale(...) noexcept {
//     WEFT_ISA_RAN();                        // this variant's own mark, for last_isa_run()
//   #if WEFT_ISA_IS_SCALAR
//     plain code with std::fma: the reference
//   #else
//     namespace hn = hwy::HWY_NAMESPACE; ...
//   #endif
//   }
//   }  // namespace
//   }  // namespace weft::kernels::WEFT_ISA
//   WEFT_ISA_END();
//   #if WEFT_ISA_IS_LAST
//   namespace weft::kernels {
//   namespace { constexpr auto kScale = WEFT_DISPATCH(scale); }
//   void scale(...) noexcept { kScale.get()(...); }
//   }
//   #endif
//
// A kernel with a form of its own for dot products of bytes says #define WEFT_WITH_DOTS before the inclusion: the file
// is then compiled once more, on x86 as avx512_vnni with WEFT_ISA_IS_VNNI 1, on ARM as neon_dotprod with
// WEFT_ISA_IS_DOTPROD 1. All others run their code of avx512 or neon there, and report it.
// A kernel whose vectors WebAssembly has no form for says #define WEFT_WITHOUT_WASM there: it runs its scalar code.
// Under amx every kernel runs its form for avx512_vnni; linear_integer's has matrix tiles beside it.
//
// Code is compiled for its ISA by target regions, never by -mavx2 on a file: that would put AVX code into inline
// functions which the linker shares with everyone. The scalar pass comes last and includes no Highway.
// Texts named *-inl.hpp follow the same scheme; their guards flip with HWY_TARGET_TOGGLE (see simd/panel-inl.hpp).
#ifndef WEFT_FOREACH_ISA
#define WEFT_FOREACH_ISA

#include "kernels/isa.hpp"

#include <hwy/base.h>
#include <hwy/detect_targets.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(HWY_HIGHWAY_INCLUDED) && !defined(WEFT_HIGHWAY_PRECOMPILED)
#error "include kernels/foreach_isa.hpp before anything that includes hwy/highway.h"
#endif
#define WEFT_ISA_RAN() (::weft::kernels::detail::last_isa = ::weft::kernels::Isa::WEFT_ISA)
#define WEFT_ISA_IS_LAST 0
#define WEFT_ISA_IS_SCALAR 0
#define WEFT_ISA_IS_VNNI 0
#define WEFT_ISA_IS_DOTPROD 0
#define WEFT_ISA_BEGIN() HWY_BEFORE_NAMESPACE()
#define WEFT_ISA_END() HWY_AFTER_NAMESPACE()

// Guards of -inl headers compare themselves with HWY_TARGET_TOGGLE, so it flips after each pass.
#if defined(__x86_64__)

// Operations of both passes that kernels/internal/precompiled_highway.hpp has read are not read again: the guard of
// Highway's header is set to what makes a pass skip it.
#ifdef WEFT_HIGHWAY_PRECOMPILED
#define HWY_HIGHWAY_PER_TARGET
#define WEFT_HIGHWAY <hwy/ops/set_macros-inl.h>
#else
#define WEFT_HIGHWAY <hwy/highway.h>
#endif

#undef HWY_TARGET
#define HWY_TARGET HWY_AVX2
#define WEFT_ISA avx2
#include WEFT_HIGHWAY
#include WEFT_THIS_FILE
#undef WEFT_ISA
#define HWY_TARGET_TOGGLE

#undef HWY_TARGET
#define HWY_TARGET HWY_AVX3
#define WEFT_ISA avx512
#ifdef WEFT_HIGHWAY_PRECOMPILED
#undef HWY_HIGHWAY_PER_TARGET
#endif
#include WEFT_HIGHWAY
#include WEFT_THIS_FILE
#undef WEFT_ISA
#undef HWY_TARGET_TOGGLE

#ifdef WEFT_WITH_DOTS
// Highway's operations stay those of AVX-512: its headers are told that they were here, only the target's text grows.
#undef HWY_TARGET_STR
#define HWY_TARGET_STR HWY_TARGET_STR_AVX3 ",avx512vnni"
#undef HWY_HIGHWAY_PER_TARGET
#define HWY_HIGHWAY_PER_TARGET
#undef WEFT_ISA_IS_VNNI
#define WEFT_ISA_IS_VNNI 1
#define WEFT_ISA avx512_vnni
#include WEFT_THIS_FILE
#undef WEFT_ISA
#undef WEFT_ISA_IS_VNNI
#define WEFT_ISA_IS_VNNI 0
#define HWY_TARGET_TOGGLE
#define WEFT_DOTS_FORM avx512_vnni
#else
#define WEFT_DOTS_FORM avx512
#endif

#define WEFT_DISPATCH(function)                                                                  \
  ::weft::kernels::Dispatch<decltype(scalar::function)> {                                        \
    {                                                                                            \
      &scalar::function, &avx2::function, &avx512::function, nullptr, &WEFT_DOTS_FORM::function, \
          &WEFT_DOTS_FORM::function, nullptr, nullptr                                            \
    }                                                                                            \
  }

#elif defined(__aarch64__)

#undef HWY_TARGET
#define HWY_TARGET HWY_NEON
#define WEFT_ISA neon
#include <hwy/highway.h>
#include WEFT_THIS_FILE
#undef WEFT_ISA
#define HWY_TARGET_TOGGLE

// clang has the operations only where the whole file may use them, so that such a build has no form of it (isa.cpp).
#if defined(WEFT_WITH_DOTS) && !defined(__clang__)
// As with VNNI: Highway's operations stay those of NEON. g++'s own for dot products want the architecture by name.
#undef HWY_TARGET_STR
#define HWY_TARGET_STR "arch=armv8.2-a+crypto+dotprod"
#undef HWY_HIGHWAY_PER_TARGET
#undef WEFT_ISA_IS_DOTPROD
#define WEFT_ISA_IS_DOTPROD 1
#define WEFT_ISA neon_dotprod
#include WEFT_THIS_FILE
#undef WEFT_ISA
#undef WEFT_ISA_IS_DOTPROD
#define WEFT_ISA_IS_DOTPROD 0
#undef HWY_TARGET_TOGGLE
#define WEFT_DOTS_FORM neon_dotprod
#else
#define WEFT_DOTS_FORM neon
#endif

#define WEFT_DISPATCH(function)                                                                                    \
  ::weft::kernels::Dispatch<decltype(scalar::function)> {                                                          \
    { &scalar::function, nullptr, nullptr, &neon::function, nullptr, nullptr, &WEFT_DOTS_FORM::function, nullptr } \
  }

#elif defined(__wasm_simd128__) && !defined(WEFT_WITHOUT_WASM)

#undef HWY_TARGET
#define HWY_TARGET HWY_WASM
#define WEFT_ISA wasm128
#include "kernels/internal/wasm.hpp"
#include WEFT_THIS_FILE
#undef WEFT_ISA
#define HWY_TARGET_TOGGLE

#define WEFT_DISPATCH(function)                                                                     \
  ::weft::kernels::Dispatch<decltype(scalar::function)> {                                           \
    { &scalar::function, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, &wasm128::function } \
  }

#else

// Of the instruction sets that such a build knows, every one runs this code.
#define WEFT_DISPATCH(function)                                                                    \
  ::weft::kernels::Dispatch<decltype(scalar::function)> {                                          \
    { &scalar::function, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, &scalar::function } \
  }

#endif

#undef WEFT_ISA_IS_LAST
#undef WEFT_ISA_IS_SCALAR
#undef WEFT_ISA_BEGIN
#undef WEFT_ISA_END
#define WEFT_ISA_IS_LAST 1
#define WEFT_ISA_IS_SCALAR 1
#define WEFT_ISA_BEGIN() static_assert(true, "")
#define WEFT_ISA_END() static_assert(true, "")
#define WEFT_ISA scalar

#endif  // WEFT_FOREACH_ISA
