// SPDX-License-Identifier: Apache-2.0

#include "mesh/layers/grid_scatter.hpp"

#include "mesh/network/source_combine.hpp"

#include <utility>

namespace weft::mesh {
namespace {

class GridScatter final : public Layer {
 public:
  GridScatter(const Shape& grid, std::size_t features, std::vector<std::size_t> cells)
      : Layer({cells.size() * features}, {grid[0], grid[1], grid[2], features}),
        features_(features),
        cells_(std::move(cells)) {}

  void forward(kernels::OpStream& stream, const ForwardArgs& args) const override {
    stream.fill({0.0f, args.y});
    for (std::size_t i = 0; i < cells_.size(); ++i)
      stream.copy({columns(args.x, i * features_, features_), columns(args.y, cells_[i] * features_, features_)});
  }
  void backward(kernels::OpStream& stream, const BackwardArgs& args) const override {
    for (std::size_t i = 0; i < cells_.size() && args.dx.data; ++i)
      stream.copy({columns(args.dy, cells_[i] * features_, features_), columns(args.dx, i * features_, features_)});
  }

 private:
  std::size_t features_;
  std::vector<std::size_t> cells_;
};

}  // namespace

std::unique_ptr<Layer> make_grid_scatter(const Shape& grid, std::size_t features, std::vector<std::size_t> cells) {
  return std::make_unique<GridScatter>(grid, features, std::move(cells));
}

}  // namespace weft::mesh
