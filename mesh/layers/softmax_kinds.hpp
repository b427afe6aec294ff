// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/layer.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace weft::mesh {

/// The groups of equal width that a row falls into.
class Groups {
 public:
  Groups(std::size_t values, std::size_t width) : count_(values / width), width_(width) {}

  /// Calls visit(part) so that the views part(rows) together are all groups of all rows, in as few calls as may be.
  template <class Visit>
  void each(std::size_t rows, const Visit& visit) const {
    if (rows < count_) {
      for (std::size_t b = 0; b < rows; ++b)
        visit([&](auto view) { return decltype(view){view.data + b * view.stride, count_, width_, width_}; });
    } else {
      for (std::size_t g = 0; g < count_; ++g)
        visit([&](auto view) { return decltype(view){view.data + g * width_, view.rows, width_, view.stride}; });
    }
  }

 private:
  std::size_t count_, width_;
};

/// The kinds of make_softmax (mesh/layers/softmax.hpp) that have a file of their own. Errors name `object`.

/// Over the axes `axes` of the shape together.
Result<std::unique_ptr<Layer>> make_grid_softmax(const Shape& shape, const std::vector<std::size_t>& axes,
                                                 float temperature, const std::string& object);
/// Along groups of the last axis, without the entries whose `mask` is 0.
Result<std::unique_ptr<Layer>> make_masked_softmax(const Shape& shape, std::size_t group,
                                                   const std::vector<std::size_t>& mask, float temperature,
                                                   const std::string& object);
/// Products along the paths of a tree; `out` is what the network asks for, or 0.
Result<std::unique_ptr<Layer>> make_tree_softmax(const Shape& shape, std::size_t out,
                                                 const std::vector<std::size_t>& branches, float temperature,
                                                 const std::string& object);

}  // namespace weft::mesh
