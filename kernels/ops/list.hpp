// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/ops/attention.hpp"
#include "kernels/ops/elementwise.hpp"
#include "kernels/ops/learning.hpp"
#include "kernels/ops/linear.hpp"
#include "kernels/ops/mixture.hpp"
#include "kernels/ops/move.hpp"
#include "kernels/ops/noise.hpp"
#include "kernels/ops/norm.hpp"
#include "kernels/ops/optimizer.hpp"
#include "kernels/ops/perturb.hpp"
#include "kernels/ops/rows.hpp"
#include "kernels/ops/softmax.hpp"
#include "kernels/ops/trace.hpp"
#include "kernels/ops/window.hpp"

#include <string_view>

namespace weft::kernels {

/// An operation; rows in kernels/ops.def.
enum class OpId : int {
#define WEFT_OP(name, Type) name,
#include "kernels/ops.def"
#undef WEFT_OP
};
inline constexpr int kOpCount = 0
#define WEFT_OP(name, Type) +1
#include "kernels/ops.def"
#undef WEFT_OP
    ;
std::string_view name(OpId op) noexcept;

/// The row of an operation's struct.
inline constexpr OpId kNoOp = static_cast<OpId>(-1);
template <class Op>
inline constexpr OpId kIdOf = kNoOp;
#define WEFT_OP(name, Type) \
  template <>               \
  inline constexpr OpId kIdOf<ops::Type> = OpId::name;
#include "kernels/ops.def"
#undef WEFT_OP

}  // namespace weft::kernels
