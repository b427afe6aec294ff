// SPDX-License-Identifier: Apache-2.0

#if defined(__wasm_simd128__)
#include "kernels/internal/wasm.hpp"

namespace weft::kernels::wasm {

// Here alone, where no other file's compiler sees their values.
const v128_t kMagnitudeBits = wasm_i32x4_const_splat(0x7fffffff);
const v128_t kSmallestNormal = wasm_i32x4_const_splat(0x00800000);
const v128_t kHalfTail = wasm_i32x4_const_splat(static_cast<std::int32_t>(0x80000000));
const v128_t kTinyEnd = wasm_i32x4_const_splat(static_cast<std::int32_t>(0x81000000));
const v128_t kHalfUnit = wasm_i64x2_const(0x10000000, 0x10000000);
const v128_t kTailBits = wasm_i32x4_const_splat(0x1fffffff);
const v128_t kFloatBits = wasm_i64x2_const(-0x20000000, -0x20000000);

}  // namespace weft::kernels::wasm
#endif
