// SPDX-License-Identifier: Apache-2.0

// A softmax at each node of a tree of classes: a class has the product of the probabilities on its path.

#include "mesh/layers/softmax_kinds.hpp"
#include "mesh/layers/tokens.hpp"

namespace weft::mesh {
namespace {

using kernels::ConstMatrixView;
using kernels::MatrixView;

/// One level of the tree: `nodes` inner nodes of `branch` children each.
struct Level {
  std::size_t nodes, branch;
  std::size_t first;  // its logits in x, its probabilities in the cache
  std::size_t path;   // in the cache: products of the paths down to its children. Unused at the first and last level
  std::size_t dpath;  // in the scratch: their slopes, likewise
  std::size_t children() const noexcept { return nodes * branch; }
};

class TreeSoftmax final : public Layer {
 public:
  TreeSoftmax(const Shape& in, std::size_t leaves, const std::vector<std::size_t>& branches, float temperature)
      : Layer(in, with_features(in, leaves)), tokens_(in), temperature_(temperature) {
    std::size_t nodes = 1, first = 0, inner = 0;
    for (std::size_t l = 0; l < branches.size(); ++l) {
      levels_.push_back({nodes, branches[l], first, in.back() + inner, inner});
      nodes *= branches[l];
      first += nodes;
      if (l > 0 && l + 1 < branches.size()) inner += nodes;
    }
    inner_ = inner;
  }

  std::size_t cache_size() const noexcept override { return in() + tokens_.count() * inner_; }
  std::size_t scratch_size() const noexcept override { return tokens_.count() * inner_; }
  double multiply_adds() const noexcept override { return 2 * static_cast<double>(in()); }

  void forward(kernels::OpStream& stream, const ForwardArgs& args) const override {
    tokens_.each(args, [&](const ForwardArgs& own) {
      for (const Level& level : levels_)
        each_softmax(level, own.x.rows, [&](const auto& part) {
          stream.softmax({part(own.x), temperature_, part(own.cache)});
        });
      if (levels_.size() == 1) return stream.copy({{own.cache.data, own.y.rows, own.y.cols, own.cache.stride}, own.y});
      for (std::size_t b = 0; b < own.x.rows; ++b)
        for (std::size_t l = 1; l < levels_.size(); ++l)
          stream.scale_rows({path(own.cache, own.y, b, l - 1),
                             at(own.cache, b, levels_[l].first, l),
                             {const_cast<float*>(path(own.cache, own.y, b, l)), levels_[l].nodes, levels_[l].branch,
                              levels_[l].branch}});
    });
  }

  void backward(kernels::OpStream& stream, const BackwardArgs& args) const override {
    if (!args.dx.data) return;
    tokens_.each(args, [&](const BackwardArgs& own) {
      // From the leaves up: the slope by a level's probabilities goes to its place in dx, that by the paths above it to
      // the scratch, and by the first level's paths, which are its probabilities, to dx at once.
      if (levels_.size() == 1) stream.copy({own.dy, own.dx});
      for (std::size_t b = 0; b < own.dy.rows; ++b)
        for (std::size_t l = levels_.size(); l-- > 1;) {
          const Level& level = levels_[l];
          float* const from = l + 1 == levels_.size() ? own.dy.row(b) : own.scratch.row(b) + level.dpath;
          const MatrixView dpath{from, level.nodes, level.branch, level.branch};
          float* const above = l == 1 ? own.dx.row(b) : own.scratch.row(b) + levels_[l - 1].dpath;
          stream.row_dots({dpath, at(own.cache, b, level.first, l), above});
          stream.scale_rows({path(own.cache, own.y, b, l - 1), dpath, at(own.dx, b, level.first, l)});
        }
      for (const Level& level : levels_)
        each_softmax(level, own.dy.rows, [&](const auto& part) {
          stream.softmax_backward({part(own.cache), part(own.dx), temperature_, part(own.dx)});
        });
    });
  }

 private:
  /// Calls visit(part) so that the views part(rows) are all nodes of a level, node by node or row by row.
  template <class Visit>
  static void each_softmax(const Level& level, std::size_t rows, const Visit& visit) {
    Groups(level.children(), level.branch).each(rows, [&](const auto& part) {
      visit([&](auto view) {
        view.data += level.first;
        return part(view);
      });
    });
  }
  /// Row b's nodes of level l, which stand from column `first` on.
  template <class View>
  View at(const View& view, std::size_t b, std::size_t first, std::size_t l) const {
    return {view.data + b * view.stride + first, levels_[l].nodes, levels_[l].branch, levels_[l].branch};
  }
  /// Row b's products down to the children of level l: y holds the last ones, the first are probabilities alone.
  const float* path(const ConstMatrixView& cache, const ConstMatrixView& y, std::size_t b, std::size_t l) const {
    if (l + 1 == levels_.size()) return y.row(b);
    return cache.row(b) + (l == 0 ? 0 : levels_[l].path);
  }

  Tokens tokens_;
  float temperature_;
  std::size_t inner_;
  std::vector<Level> levels_;
};

}  // namespace

Result<std::unique_ptr<Layer>> make_tree_softmax(const Shape& shape, std::size_t out,
                                                 const std::vector<std::size_t>& branches, float temperature,
                                                 const std::string& object) {
  std::size_t leaves = 1, logits = 0;
  for (const std::size_t branch : branches) {
    leaves *= branch;  // each at least 1; refused as soon as it passes what an input can be wide
    logits += leaves;
    if (leaves > shape.back() || logits > shape.back()) break;
  }
  if (logits != shape.back())
    return fail(Errc::shape_mismatch, object + ".branches: a tree " + weft::to_string(branches) + " takes " +
                                          (logits > shape.back() ? "more than " : std::to_string(logits) + ", not ") +
                                          std::to_string(shape.back()) + " logits, one for each child of each node");
  if (out != 0 && out != leaves)
    return fail(Errc::shape_mismatch, object + ".out: a tree " + weft::to_string(branches) + " has " +
                                          std::to_string(leaves) + " leaves, not " + std::to_string(out));
  return std::unique_ptr<Layer>(new TreeSoftmax(shape, leaves, branches, temperature));
}

}  // namespace weft::mesh
