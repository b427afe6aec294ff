// SPDX-License-Identifier: Apache-2.0
// Not a header of its own: re-included once per ISA (kernels/foreach_isa.hpp), the scalar pass too.
// Loops of elementwise kernels over rows, which never touch memory past a row's end.

#if defined(WEFT_KERNELS_ROWS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_KERNELS_ROWS_INL
#undef WEFT_KERNELS_ROWS_INL
#else
#define WEFT_KERNELS_ROWS_INL
#endif

#include "kernels/views.hpp"

#include <cstddef>

WEFT_ISA_BEGIN();
namespace weft::kernels::WEFT_ISA {
namespace {

// One element's result never depends on its place, so rows that touch are walked as one long row.
template <class First, class... Others>
bool is_one_row(const First& first, const Others&... others) noexcept {
  return first.rows <= 1 || (first.stride == first.cols && ((others.stride == first.cols) && ...));
}

#if WEFT_ISA_IS_SCALAR

// y = op(x), y = op(a, b): op takes and gives floats.
template <class Op>
void map(const ConstMatrixView& x, const MatrixView& y, const Op& op) noexcept {
  for (std::size_t i = 0; i < x.rows; ++i) {
    const float* from = x.row(i);
    float* to = y.row(i);
    for (std::size_t j = 0; j < x.cols; ++j) to[j] = op(from[j]);
  }
}
template <class Op>
void map(const ConstMatrixView& a, const ConstMatrixView& b, const MatrixView& y, const Op& op) noexcept {
  for (std::size_t i = 0; i < a.rows; ++i) {
    const float *left = a.row(i), *right = b.row(i);
    float* to = y.row(i);
    for (std::size_t j = 0; j < a.cols; ++j) to[j] = op(left[j], right[j]);
  }
}

#else

namespace hn = hwy::HWY_NAMESPACE;
using FloatTag = hn::ScalableTag<float>;
using FloatVec = hn::Vec<FloatTag>;
inline constexpr std::size_t kVectorLanes = hn::MaxLanes(FloatTag());

// The first n < kVectorLanes elements at p; the other lanes are zero and their memory is not read.
HWY_INLINE FloatVec LoadPartial(FloatTag d, const float* p, std::size_t n) {
#if HWY_ARCH_X86
  return hn::MaskedLoad(hn::FirstN(d, n), d, p);
#else
  alignas(64) float lanes[kVectorLanes] = {};
  for (std::size_t i = 0; i < n; ++i) lanes[i] = p[i];
  return hn::Load(d, lanes);
#endif
}

// Stores the first n < kVectorLanes lanes; the memory of the others is not written.
HWY_INLINE void StorePartial(FloatVec v, FloatTag d, float* p, std::size_t n) {
#if HWY_ARCH_X86
  hn::BlendedStore(v, hn::FirstN(d, n), d, p);
#else
  alignas(64) float lanes[kVectorLanes];
  hn::Store(v, d, lanes);
  for (std::size_t i = 0; i < n; ++i) p[i] = lanes[i];
#endif
}

// Calls body(load, store) for each vector of n elements: load(p) and store(v, p) know the vector's place after p.
template <class Body>
HWY_INLINE void ForEachVector(std::size_t n, const Body& body) {
  const FloatTag d;
  std::size_t j = 0;
  for (; j + kVectorLanes <= n; j += kVectorLanes)
    body([&](const float* p) HWY_ATTR { return hn::LoadU(d, p + j); },
         [&](FloatVec v, float* p) HWY_ATTR { hn::StoreU(v, d, p + j); });
  if (const std::size_t rest = n - j; rest != 0)
    body([&](const float* p) HWY_ATTR { return LoadPartial(d, p + j, rest); },
         [&](FloatVec v, float* p) HWY_ATTR { StorePartial(v, d, p + j, rest); });
}

// y = op(d, x), y = op(d, a, b): op takes and gives vectors.
template <class Op>
HWY_INLINE void map(const ConstMatrixView& x, const MatrixView& y, const Op& op) noexcept {
  const bool one_row = is_one_row(x, y);
  const std::size_t rows = one_row ? x.rows != 0 : x.rows, cols = one_row ? x.rows * x.cols : x.cols;
  for (std::size_t i = 0; i < rows; ++i) {
    const float* from = x.row(i);
    float* to = y.row(i);
    ForEachVector(cols, [&](auto load, auto store) HWY_ATTR { store(op(FloatTag(), load(from)), to); });
  }
}
template <class Op>
HWY_INLINE void map(const ConstMatrixView& a, const ConstMatrixView& b, const MatrixView& y, const Op& op) noexcept {
  const bool one_row = is_one_row(a, b, y);
  const std::size_t rows = one_row ? a.rows != 0 : a.rows, cols = one_row ? a.rows * a.cols : a.cols;
  for (std::size_t i = 0; i < rows; ++i) {
    const float *left = a.row(i), *right = b.row(i);
    float* to = y.row(i);
    ForEachVector(cols, [&](auto load, auto store) HWY_ATTR { store(op(FloatTag(), load(left), load(right)), to); });
  }
}

#endif

}  // namespace
}  // namespace weft::kernels::WEFT_ISA
WEFT_ISA_END();

#endif  // guard that flips
