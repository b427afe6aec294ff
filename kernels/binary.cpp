// SPDX-License-Identifier: Apache-2.0

#undef WEFT_THIS_FILE
#define WEFT_THIS_FILE "kernels/binary.cpp"
#include "kernels/binary.hpp"

#include "kernels/foreach_isa.hpp"
#include "kernels/math.hpp"
#include "kernels/rows-inl.hpp"
#if !WEFT_ISA_IS_SCALAR
#include "kernels/formulas/vector-inl.hpp"
#endif

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

WEFT_ISA_BEGIN();
namespace weft::kernels::WEFT_ISA {
namespace {

#if WEFT_ISA_IS_SCALAR

void binary(BinaryOp op, const ConstMatrixView& a, const ConstMatrixView& b, const MatrixView& y) noexcept {
  WEFT_ISA_RAN();
  switch (op) {
    case BinaryOp::add:
      return map(a, b, y, [](float u, float v) { return u + v; });
    case BinaryOp::sub:
      return map(a, b, y, [](float u, float v) { return u - v; });
    case BinaryOp::mul:
      return map(a, b, y, [](float u, float v) { return u * v; });
    case BinaryOp::max:
      return map(a, b, y, [](float u, float v) { return math::flush(u > v || u != u ? u : v); });
    case BinaryOp::min:
      return map(a, b, y, [](float u, float v) { return math::flush(u < v || u != u ? u : v); });
  }
}

void scale(float alpha, const ConstMatrixView& x, const MatrixView& y) noexcept {
  WEFT_ISA_RAN();
  map(x, y, [=](float v) { return alpha * v; });
}

void axpy(float alpha, const ConstMatrixView& x, const MatrixView& y) noexcept {
  WEFT_ISA_RAN();
  map(x, y, y, [=](float u, float v) { return std::fma(alpha, u, v); });
}

void copy(const ConstMatrixView& x, const MatrixView& y) noexcept {
  WEFT_ISA_RAN();
  map(x, y, [](float v) { return v; });
}

#else

void binary(BinaryOp op, const ConstMatrixView& a, const ConstMatrixView& b, const MatrixView& y) noexcept {
  WEFT_ISA_RAN();
  switch (op) {
    case BinaryOp::add:
      return map(a, b, y, [](FloatTag, FloatVec u, FloatVec v) HWY_ATTR { return hn::Add(u, v); });
    case BinaryOp::sub:
      return map(a, b, y, [](FloatTag, FloatVec u, FloatVec v) HWY_ATTR { return hn::Sub(u, v); });
    case BinaryOp::mul:
      return map(a, b, y, [](FloatTag, FloatVec u, FloatVec v) HWY_ATTR { return hn::Mul(u, v); });
    case BinaryOp::max:
      return map(a, b, y, [](FloatTag d, FloatVec u, FloatVec v) HWY_ATTR {
        return formulas::chosen(hn::IfThenElse(hn::Or(hn::Gt(u, v), hn::IsNaN(u)), u, v));
      });
    case BinaryOp::min:
      return map(a, b, y, [](FloatTag d, FloatVec u, FloatVec v) HWY_ATTR {
        return formulas::chosen(hn::IfThenElse(hn::Or(hn::Lt(u, v), hn::IsNaN(u)), u, v));
      });
  }
}

void scale(float alpha, const ConstMatrixView& x, const MatrixView& y) noexcept {
  WEFT_ISA_RAN();
  map(x, y, [=](FloatTag d, FloatVec v) HWY_ATTR { return hn::Mul(hn::Set(d, alpha), v); });
}

void axpy(float alpha, const ConstMatrixView& x, const MatrixView& y) noexcept {
  WEFT_ISA_RAN();
  map(x, y, y, [=](FloatTag d, FloatVec u, FloatVec v) HWY_ATTR { return hn::MulAdd(hn::Set(d, alpha), u, v); });
}

// Rows of kLines cache lines, kAtOnce of them in a turn: short rows would else cost more in counting than in moving.
template <std::size_t kLines, std::size_t kAtOnce>
HWY_INLINE void CopyRows(const ConstMatrixView& x, const MatrixView& y) noexcept {
  constexpr std::size_t kCols = kLines * 16;
  const FloatTag d;
  const float* from = x.data;
  float* to = y.data;
  std::size_t i = 0;
  for (; i + kAtOnce <= x.rows; i += kAtOnce, from += kAtOnce * x.stride, to += kAtOnce * y.stride)
    for (std::size_t r = 0; r < kAtOnce; ++r)
      for (std::size_t j = 0; j < kCols; j += kVectorLanes)
        hn::StoreU(hn::LoadU(d, from + r * x.stride + j), d, to + r * y.stride + j);
  for (; i < x.rows; ++i, from += x.stride, to += y.stride)
    for (std::size_t j = 0; j < kCols; j += kVectorLanes) hn::StoreU(hn::LoadU(d, from + j), d, to + j);
}

void copy(const ConstMatrixView& x, const MatrixView& y) noexcept {
  WEFT_ISA_RAN();
  switch (x.cols) {
    case 16:
      return CopyRows<1, 4>(x, y);
    case 32:
      return CopyRows<2, 2>(x, y);
    case 48:
      return CopyRows<3, 1>(x, y);
    case 64:
      return CopyRows<4, 1>(x, y);
    default:
      return map(x, y, [](FloatTag, FloatVec v) HWY_ATTR { return v; });
  }
}

#endif

}  // namespace
}  // namespace weft::kernels::WEFT_ISA
WEFT_ISA_END();

#if WEFT_ISA_IS_LAST
namespace weft::kernels {
namespace {
constexpr auto kBinary = WEFT_DISPATCH(binary);
constexpr auto kScale = WEFT_DISPATCH(scale);
constexpr auto kAxpy = WEFT_DISPATCH(axpy);
constexpr auto kCopy = WEFT_DISPATCH(copy);
// Floats of a row from which on a call of memcpy is no dearer than a loop.
constexpr std::size_t kLongRow = 1024;
}  // namespace

void binary(BinaryOp op, const ConstMatrixView& a, const ConstMatrixView& b, const MatrixView& y) noexcept {
  kBinary.get()(op, a, b, y);
}
void scale(float alpha, const ConstMatrixView& x, const MatrixView& y) noexcept { kScale.get()(alpha, x, y); }
void axpy(float alpha, const ConstMatrixView& x, const MatrixView& y) noexcept { kAxpy.get()(alpha, x, y); }

void copy(const ConstMatrixView& x, const MatrixView& y) noexcept {
  if (x.data == y.data || x.cols == 0 || x.rows == 0) return;
  if (x.rows == 1 || (x.stride == x.cols && y.stride == x.cols)) {
    std::memcpy(y.data, x.data, x.rows * x.cols * sizeof(float));
  } else if (x.cols < kLongRow) {
    kCopy.get()(x, y);
  } else {
    for (std::size_t i = 0; i < x.rows; ++i) std::memcpy(y.row(i), x.row(i), x.cols * sizeof(float));
  }
}

void fill(float value, const MatrixView& y) noexcept {
  // Zeros, which clear gradients in every step, are bytes: the library has them wider than this file's base code.
  if (std::bit_cast<std::uint32_t>(value) == 0) {
    for (std::size_t i = 0; i < y.rows; ++i)
      if (y.cols > 0) std::memset(y.row(i), 0, y.cols * sizeof(float));
    return;
  }
  for (std::size_t i = 0; i < y.rows; ++i) std::fill_n(y.row(i), y.cols, value);
}

}  // namespace weft::kernels
#endif
