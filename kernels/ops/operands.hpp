// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "kernels/views.hpp"
#include "kernels/weight.hpp"

#include <cstddef>
#include <type_traits>

/// Operations as values: a struct holds the operands and settings of one. Each describes its operands once, by
///
///   static void operands(auto& op, auto&& visit) {
///     visit.read(op.x, matrix(op.y.rows, op.y.cols));
///     visit.write(op.y, matrix(op.y.rows, op.y.cols));
///   }
///
/// from which follow its shapes, what it touches, its operands on a device, and its parts on several threads.
namespace weft::kernels::ops {

/// The use of an operand. Null operands are not there.
enum class Access : int {
  read,
  write,
  update,     // read and written
  workspace,  // memory of the host's kernels; no device touches it
  constant,   // a table that never changes
  unused,     // neither read nor written with these settings
};

/// The extent of an operand, and with it how a part of an operation takes its part of it.
struct Extent {
  enum class Kind : int { whole, matrix, per_row, per_column };
  Kind kind = Kind::whole;
  std::size_t rows = 1, cols = 0;
};
constexpr Extent matrix(std::size_t rows, std::size_t cols) noexcept { return {Extent::Kind::matrix, rows, cols}; }
constexpr Extent per_row(std::size_t rows) noexcept { return {Extent::Kind::per_row, rows, 1}; }
constexpr Extent per_column(std::size_t cols) noexcept { return {Extent::Kind::per_column, 1, cols}; }
constexpr Extent whole(std::size_t count) noexcept { return {Extent::Kind::whole, 1, count}; }

/// Costs of an element in multiply-adds: moved or added, and where a function of it is computed.
inline constexpr double kMoved = 6, kComputed = 24;
inline double product(std::size_t a, std::size_t b, std::size_t c = 1) noexcept {
  return static_cast<double>(a) * static_cast<double>(b) * static_cast<double>(c);
}

/// The way that threads may share an operation: by rows, or by elements (rows, or where these are few, columns).
/// Operations that say nothing stay on their thread; those with a compute(CpuStream&) share themselves.
struct Work {
  bool has_columns = false;
  std::size_t rows = 0, cols = 0;
  double cost = 0;  // in multiply-adds
};
inline Work by_rows(std::size_t rows, double cost) noexcept { return {false, rows, 0, cost}; }
inline Work by_elements(std::size_t rows, std::size_t cols, double each) noexcept {
  return {true, rows, cols, each * product(rows, cols)};
}

/// The part of an operation that one thread runs; `index` of its workspace.
struct Part {
  std::size_t index = 0, row = 0, rows = 0, col = 0, cols = 0;
};

/// Hands each operand to body(access, operand, extent). A body with a function `count` gets counts of elements too.
template <class Body>
class Visitor {
 public:
  explicit Visitor(Body& body) noexcept : body_(body) {}
  void read(auto& operand, const Extent& extent = {}) const { body_(Access::read, operand, extent); }
  void write(auto& operand, const Extent& extent = {}) const { body_(Access::write, operand, extent); }
  void update(auto& operand, const Extent& extent = {}) const { body_(Access::update, operand, extent); }
  void constant(auto& operand, const Extent& extent) const { body_(Access::constant, operand, extent); }
  void unused(auto& operand, const Extent& extent = {}) const { body_(Access::unused, operand, extent); }
  void workspace(auto& operand) const { body_(Access::workspace, operand, Extent()); }
  void read_if(bool condition, auto& operand, const Extent& extent) const {
    condition ? read(operand, extent) : unused(operand, extent);
  }
  void count(auto& elements) const {
    if constexpr (requires { body_.count(elements); }) body_.count(elements);
  }

 private:
  Body& body_;
};

/// Hands the operands of an operation to `body`; those of one that is not const may be changed.
template <class Op, class Body>
void for_each_operand(Op& op, Body&& body) {
  std::remove_const_t<Op>::operands(op, Visitor<std::remove_reference_t<Body>>(body));
}

/// The operands of an operation that makes one matrix of others of its shape, element by element or row by row.
void map_operands(auto&& visit, auto& to, auto&... from) {
  const Extent all = matrix(to.rows, to.cols);
  (visit.read(from, all), ...);
  visit.write(to, all);
}

template <class T>
concept Matrix =
    std::is_same_v<std::remove_const_t<T>, MatrixView> || std::is_same_v<std::remove_const_t<T>, ConstMatrixView>;
template <class T>
concept PanelMatrix =
    std::is_same_v<std::remove_const_t<T>, Panels> || std::is_same_v<std::remove_const_t<T>, ConstPanels>;
template <class T>
concept StoredMatrix =
    std::is_same_v<std::remove_const_t<T>, Weight> || std::is_same_v<std::remove_const_t<T>, ConstWeight>;

/// Hands each pointer of an operand to `body`, by reference.
template <class T, class Body>
void for_each_pointer(T& operand, Body&& body) {
  if constexpr (std::is_pointer_v<T>)
    body(operand);
  else if constexpr (StoredMatrix<T>)
    body(operand.codes), body(operand.scales), body(operand.zero_points);
  else
    body(operand.data);
}

/// Takes the part of each operand.
struct Cut {
  const Part& part;
  bool has_columns;
  std::size_t workspace_stride;
  template <class T>
  void operator()(Access access, T& operand, const Extent& extent) const {
    const std::size_t col = has_columns ? part.col : 0;
    if constexpr (Matrix<T>) {
      if (extent.kind != Extent::Kind::matrix) return;
      if (operand.data) operand.data = operand.row(part.row) + col;
      operand.rows = part.rows;
      if (has_columns) operand.cols = part.cols;
    } else if constexpr (std::is_pointer_v<T>) {
      if (!operand) return;
      if (access == Access::workspace) operand += part.index * workspace_stride;
      if (extent.kind == Extent::Kind::per_row) operand += part.row;
      if (extent.kind == Extent::Kind::per_column) operand += col;
    }
  }
  void count(std::size_t& elements) const { elements = part.cols; }
};

/// A part of an operation that has work().
template <class Op>
Op part_of(const Op& op, const Part& part, std::size_t workspace_stride) {
  Op own = op;
  for_each_operand(own, Cut{part, op.work().has_columns, workspace_stride});
  return own;
}

/// True when the shapes of an operation's operands are those that it says.
template <class Op>
bool fits(const Op& op) {
  bool all = true;
  for_each_operand(op, [&](Access access, const auto& operand, const Extent& extent) {
    using T = std::remove_reference_t<decltype(operand)>;
    if constexpr (Matrix<T>)
      if (operand.data) {
        // One row may be read as many.
        const bool is_laid_out =
            operand.rows <= 1 || operand.stride >= operand.cols || (access == Access::read && operand.stride == 0);
        all = all && operand.rows == extent.rows && operand.cols == extent.cols && is_laid_out;
      }
    if constexpr (PanelMatrix<T>)
      if (operand.data && extent.cols) all = all && operand.out == extent.rows && operand.in == extent.cols;
  });
  return all;
}

/// Type that an operation returns to its caller; void unless it has a type `Answer`.
template <class Op>
struct AnswerOf {
  using Type = void;
};
template <class Op>
requires requires { typename Op::Answer; }
struct AnswerOf<Op> {
  using Type = typename Op::Answer;
};
template <class Op>
using Answer = typename AnswerOf<Op>::Type;

}  // namespace weft::kernels::ops
