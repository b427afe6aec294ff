// SPDX-License-Identifier: Apache-2.0
// Cells that are one product of one row each, computed many by one call.

#include "mesh/runtime/engine.hpp"

#include <algorithm>

namespace weft::mesh {

namespace {
// A stretch ends here: the watchdog sees a region move from stretch to stretch.
constexpr std::size_t kMostCells = 64, kMostWeights = std::size_t{1} << 20;
}  // namespace

void Engine::make_course(const std::vector<Part>& parts, Course& course) const {
  course.stretches.reserve(parts.size());
  for (auto& rows : course.rows) rows.resize(parts.size());
}

// Of several rows, or with threads or a learner at hand, operations are better called one by one.
bool Engine::may_run_together() const noexcept {
  return !hook_ && width_.threads == 1 && state_.sessions() == 1 && state_.depth() == 2;
}

/// The shape of the one product that a cell is, where nothing but that product happens in its ticks.
std::optional<Engine::Stretch> Engine::row_of(const Part& part) const noexcept {
  if (part.layers != 1) return std::nullopt;
  if (!cells_.empty() && !cells_[part.cell]->is_plain()) return std::nullopt;
  const Unit& unit = units_[part.first];
  const auto activation = unit.layer->row_product();
  if (!activation || !unit.reads_directly || state_.preactivation(part.first, 0).data) return std::nullopt;
  const kernels::ConstWeight& matrix = unit.weights.matrix(0);
  if (matrix.dtype != Dtype::float32) return std::nullopt;
  return Stretch{0, 1, true, *activation, matrix.out, matrix.in};
}

// Own cells and weights change on the region's own thread, which then sees another number; those of other regions only
// make it look in vain.
void Engine::draw(const std::vector<Part>& parts, Course& course) const noexcept {
  const std::uint64_t weights = weights_.changes(), cells = registry_ ? registry_->changes() : 0;
  if (course.weights_seen == weights && course.cells_seen == cells) return;
  course.weights_seen = weights;
  course.cells_seen = cells;
  course.stretches.clear();
  for (std::uint32_t i = 0; i < parts.size(); ++i) {
    Stretch here = row_of(parts[i]).value_or(Stretch{0, 1});
    here.first = i;
    if (here.is_together) {
      const Unit& unit = units_[parts[i].first];
      const bool has_bias = unit.layer->parameters().size() > 1;
      for (const std::uint64_t parity : {0, 1})
        course.rows[parity][parity ? parts.size() - 1 - i : i] = {
            unit.weights.matrix(0).panels().data, has_bias ? unit.weights.vector(1) : nullptr,
            state_.output(unit.direct, parity).data, state_.output(parts[i].first, parity + 1).data};
    }
    if (!course.stretches.empty()) {
      Stretch& last = course.stretches.back();
      const bool is_alike = last.is_together == here.is_together && last.activation == here.activation &&
                            last.out == here.out && last.in == here.in;
      const bool is_full = last.count == kMostCells || (last.count + 1) * here.out * here.in > kMostWeights;
      if (is_alike && (!here.is_together || !is_full)) {
        ++last.count;
        continue;
      }
    }
    course.stretches.push_back(here);
  }
}

void Engine::run_together(const std::vector<Part>& parts, const Course& course, const Stretch& stretch,
                          std::size_t region, std::uint64_t tick, std::uint64_t fired) noexcept {
  const std::size_t parity = tick & 1;
  const std::size_t first = parity ? parts.size() - stretch.first - stretch.count : stretch.first;
  const bool are_finite = kernels::linear_each(std::span(course.rows[parity]).subspan(first, stretch.count),
                                               stretch.out, stretch.in, stretch.activation);
  if (are_finite && sinks_.empty()) return;
  for (std::size_t n = 0; n < stretch.count; ++n) {
    const Part& part = parts[stretch.first + (parity ? stretch.count - 1 - n : n)];
    if (!are_finite && !is_finite(part, streams_[region], tick))
      fail_firing(part, tick, actors::FaultKind::output_not_finite);
    copy_to_sinks(part, tick, fired);
  }
}

}  // namespace weft::mesh
