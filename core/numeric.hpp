// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/assert.hpp"
#include "core/dtype.hpp"
#include "core/numeric/binary.hpp"
#include "core/numeric/integer.hpp"
#include "core/numeric/scale_rule.hpp"
#include "core/numeric/small_float.hpp"
#include "core/numeric/wide_float.hpp"

#include <utility>

/// The 21 types as numbers: weft::numeric::Int4 and so on, each with
///   dtype, bits, scale_rule, has_infinity, has_nan
///   Code, Number, Scale        of one element, of what it stands for, of its group's scale
///   encode(x), decode(code)    the scalar reference: round to nearest even, saturating; scales are the caller's
///   is_code(code)              false for patterns that stand for nothing
namespace weft {

/// f(numeric::T()) for the type that `dtype` names: the one switch over types that generic code needs.
template <class F>
constexpr decltype(auto) visit(Dtype dtype, F&& f) {
  using namespace numeric;
  switch (dtype) {
    case Dtype::float64:
      return std::forward<F>(f)(Float64());
    case Dtype::float32:
      return std::forward<F>(f)(Float32());
    case Dtype::float16:
      return std::forward<F>(f)(Float16());
    case Dtype::bfloat16:
      return std::forward<F>(f)(Bfloat16());
    case Dtype::fp8_e4m3:
      return std::forward<F>(f)(Fp8E4m3());
    case Dtype::fp8_e5m2:
      return std::forward<F>(f)(Fp8E5m2());
    case Dtype::fp4:
      return std::forward<F>(f)(Fp4());
    case Dtype::int64:
      return std::forward<F>(f)(Int64());
    case Dtype::int32:
      return std::forward<F>(f)(Int32());
    case Dtype::int16:
      return std::forward<F>(f)(Int16());
    case Dtype::int8:
      return std::forward<F>(f)(Int8());
    case Dtype::int4:
      return std::forward<F>(f)(Int4());
    case Dtype::int2:
      return std::forward<F>(f)(Int2());
    case Dtype::uint64:
      return std::forward<F>(f)(Uint64());
    case Dtype::uint32:
      return std::forward<F>(f)(Uint32());
    case Dtype::uint16:
      return std::forward<F>(f)(Uint16());
    case Dtype::uint8:
      return std::forward<F>(f)(Uint8());
    case Dtype::uint4:
      return std::forward<F>(f)(Uint4());
    case Dtype::uint2:
      return std::forward<F>(f)(Uint2());
    case Dtype::ternary:
      return std::forward<F>(f)(Ternary());
    case Dtype::binary:
      return std::forward<F>(f)(Binary());
  }
  WEFT_ASSERT(false, "a Dtype that core/dtypes.def does not name");
  return std::forward<F>(f)(Float32());
}

}  // namespace weft
