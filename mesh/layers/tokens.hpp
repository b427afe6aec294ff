// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/layer.hpp"

#include "core/shape.hpp"

#include <algorithm>
#include <cstddef>

namespace weft::mesh {

/// The columns [first, first + count) of a view; of a view without data, none.
template <class View>
View columns(const View& view, std::size_t first, std::size_t count) {
  return {view.data ? view.data + first : nullptr, view.rows, count, view.stride};
}

/// The axes before the last one of a row: a row [..., features] is `count` tokens, one after the other, and a layer
/// that acts on the last axis takes rows of tokens [rows count, features] where others take rows. What it keeps a row
/// (cache, scratch) is `count` times what it keeps a token.
class Tokens {
 public:
  explicit Tokens(const Shape& shape) noexcept {
    for (std::size_t i = 0; i + 1 < shape.size(); ++i) count_ *= shape[i];
  }
  explicit Tokens(std::size_t count) noexcept : count_(count) {}
  std::size_t count() const noexcept { return count_; }

  /// The tokens of one row.
  template <class View>
  View of_row(const View& rows, std::size_t row) const noexcept {
    const std::size_t width = rows.cols / count_;
    return {rows.row(row), count_, width, width};
  }

  /// Calls visit(part) so that the views part(rows) together are all tokens of all rows, ascending: in one call where
  /// `views`, all that are asked for, lie without gaps, else session by session. A view without data stays one.
  template <class Visit, class... Views>
  void each(const Visit& visit, const Views&... views) const {
    if (count_ == 1) return visit([](auto view) { return view; });
    if ((is_gapless(views) && ...))
      return visit([this](auto view) {
        return decltype(view){view.data, view.rows * count_, view.cols / count_, view.cols / count_};
      });
    const std::size_t rows = std::max({(views.data ? views.rows : std::size_t{0})...});
    for (std::size_t b = 0; b < rows; ++b)
      visit([this, b](auto view) {
        return decltype(view){view.data ? view.data + b * view.stride : nullptr, count_, view.cols / count_,
                              view.cols / count_};
      });
  }

  /// Calls visit(args) with rows of tokens in place of rows. For layers without hidden state.
  template <class Visit>
  void each(const ForwardArgs& args, const Visit& visit) const {
    if (count_ == 1) return visit(args);
    each(
        [&](const auto& part) {
          ForwardArgs own = args;
          own.x = part(args.x), own.z = part(args.z), own.y = part(args.y), own.cache = part(args.cache);
          visit(own);
        },
        args.x, args.z, args.y, args.cache);
  }
  template <class Visit>
  void each(const BackwardArgs& args, const Visit& visit) const {
    if (count_ == 1) return visit(args);
    each(
        [&](const auto& part) {
          BackwardArgs own = args;
          own.x = part(args.x), own.z = part(args.z), own.y = part(args.y), own.cache = part(args.cache);
          own.dy = part(args.dy), own.dx = part(args.dx), own.scratch = part(args.scratch);
          visit(own);
        },
        args.x, args.z, args.y, args.cache, args.dy, args.dx, args.scratch);
  }

 private:
  template <class View>
  static bool is_gapless(const View& view) noexcept {
    return !view.data || view.rows == 1 || view.stride == view.cols;
  }
  std::size_t count_ = 1;
};

}  // namespace weft::mesh
