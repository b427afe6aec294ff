// SPDX-License-Identifier: Apache-2.0

#include "mesh/runtime/fused_cells.hpp"

namespace weft::mesh {

namespace {

// A batch ends here: the watchdog sees a region move from batch to batch.
constexpr std::size_t kMostCells = 64, kMostWeights = std::size_t{1} << 20;

/// The shape of the one product that a cell is, where nothing but that product happens in its ticks.
std::optional<FusedCells::Batch> product_of(const FusedCells::Mesh& mesh, const RegionPart& part) noexcept {
  if (part.layers != 1) return std::nullopt;
  if (!mesh.cells.empty() && !mesh.cells[part.cell]->is_plain()) return std::nullopt;
  const LayerRunner::Unit& unit = mesh.layers.unit(part.first);
  const auto activation = unit.layer->row_product();
  if (!activation || !unit.reads_directly || mesh.state.preactivation(part.first, 0).data) return std::nullopt;
  const kernels::ConstWeight& matrix = unit.weights.matrix(0);
  if (matrix.dtype != Dtype::float32 || unit.rounded != Dtype::float32) return std::nullopt;
  return FusedCells::Batch{0, 1, true, *activation, matrix.out, matrix.in};
}

}  // namespace

FusedCells::FusedCells(const std::vector<RegionPart>& parts) {
  batches_.reserve(parts.size());
  for (auto& rows : rows_) rows.resize(parts.size());
}

// Own cells and weights change on the region's own thread, which then sees another number; those of other regions only
// make it look in vain.
void FusedCells::refresh(const Mesh& mesh, const std::vector<RegionPart>& parts) {
  const std::uint64_t weights = mesh.weights.changes(), cells = mesh.registry ? mesh.registry->changes() : 0;
  if (weights_seen_ == weights && cells_seen_ == cells) return;
  weights_seen_ = weights;
  cells_seen_ = cells;
  batches_.clear();
  for (std::uint32_t i = 0; i < parts.size(); ++i) {
    Batch here = product_of(mesh, parts[i]).value_or(Batch{0, 1});
    here.first = i;
    if (here.is_fused) {
      const LayerRunner::Unit& unit = mesh.layers.unit(parts[i].first);
      const bool has_bias = unit.layer->parameters().size() > 1;
      for (const std::uint64_t parity : {0, 1})
        rows_[parity][parity ? parts.size() - 1 - i : i] = {
            unit.weights.matrix(0).panels().data, has_bias ? unit.weights.vector(1) : nullptr,
            mesh.state.output(unit.direct, parity).data, mesh.state.output(parts[i].first, parity + 1).data};
    }
    append(here);
  }
}

void FusedCells::append(const Batch& next) {
  if (!batches_.empty()) {
    Batch& last = batches_.back();
    const bool is_alike = last.is_fused == next.is_fused && last.activation == next.activation &&
                          last.out == next.out && last.in == next.in;
    const bool is_full = last.count == kMostCells || (last.count + 1) * next.out * next.in > kMostWeights;
    if (is_alike && (!next.is_fused || !is_full)) {
      ++last.count;
      return;
    }
  }
  batches_.push_back(next);
}

bool FusedCells::run(const Batch& batch, std::uint64_t tick) const noexcept {
  const std::vector<kernels::LinearRow>& rows = rows_[tick & 1];
  const std::size_t first = (tick & 1) ? rows.size() - batch.first - batch.count : batch.first;
  return kernels::linear_each(std::span(rows).subspan(first, batch.count), batch.out, batch.in, batch.activation);
}

}  // namespace weft::mesh
