// SPDX-License-Identifier: Apache-2.0
#undef WEFT_THIS_FILE
#define WEFT_THIS_FILE "kernels/linear_integer_of_2.cpp"
#define WEFT_WITHOUT_WASM

#define WEFT_WITH_DOTS
#include "kernels/foreach_isa.hpp"
#include "kernels/linear_integer_width-inl.hpp"

#if WEFT_ISA_IS_LAST
namespace weft::kernels::detail {
namespace {
constexpr auto kKernels = WEFT_DISPATCH(integer_kernels<2>);
}  // namespace

const IntegerKernels& integer_kernels_of_2(const CodeForm& form, std::size_t rows) noexcept {
  return kKernels.get()(form, rows);
}

}  // namespace weft::kernels::detail
#endif
