// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/runtime/region_plan.hpp"
#include "mesh/runtime/state.hpp"

#include "kernels/op_stream.hpp"

#include <array>
#include <cstdint>

namespace weft::mesh {

/// The rings in which a firing leaves its results, a tick's in a slot.
inline constexpr std::array kFiringRings{&State::output, &State::hidden, &State::input, &State::preactivation,
                                         &State::cache};

/// Results of a cell's firings: checked, kept from the tick before, or zeroed.
class CellOutputs {
 public:
  explicit CellOutputs(State& state) : state_(state) {}

  bool is_finite(const RegionPart& part, kernels::OpStream& stream, std::uint64_t tick) const {
    for (NodeId id = part.first; id < part.first + part.layers; ++id) {
      if (!stream.is_finite({state_.output(id, tick + 1)})) return false;
      const kernels::MatrixView hidden = state_.hidden(id, tick + 1);
      if (hidden.data && !stream.is_finite({hidden})) return false;
    }
    return true;
  }
  /// Commits at tick + 1 what was committed at `tick`; of faulty rows only, or of all.
  void keep(const RegionPart& part, std::uint64_t tick, bool faulty_rows_only) noexcept;
  void zero(const RegionPart& part, std::uint64_t tick) noexcept;

 private:
  State& state_;
};

}  // namespace weft::mesh
