// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "tests/kernels/comparing.hpp"
#include "tests/kernels/op_cases.hpp"
#include <limits>
#include <vector>

/// Shared by the files of rows.
namespace weft::kernels::testing_ops {

struct Shape {
  std::size_t rows, cols;
};
inline std::string text(const Shape& s) { return " " + std::to_string(s.rows) + " x " + std::to_string(s.cols); }

/// The cases of an operation, in the making.
class Table {
 public:
  explicit Table(Breadth breadth) : breadth_(breadth) {}
  bool is_broad() const { return breadth_ == Breadth::host; }

  /// make(operands, variant) -> Case of each variant, with normal numbers and with special values among them.
  template <class Variants, class Make>
  void each(const Variants& variants, const Make& make) {
    for (const auto& variant : variants)
      for (const bool special : {false, true}) one(special, [&](Operands& o) { return make(o, variant); });
  }
  /// make(operands, shape) -> Case: ends inside, at and past vectors and lanes; one row and many. `few`: for operations
  /// of many variants.
  template <class Make>
  void shapes(const Make& make, bool few = false) {
    std::vector<Shape> all = {{3, 7}, {9, 130}};
    if (!few || is_broad()) all.insert(all.end(), {{1, 1000}, {4, 64}});
    if (is_broad()) all.insert(all.end(), {{1, 1}, {4, 63}, {2, 65}, {300, 3}});
    if (is_broad())
      for (std::size_t i = 0; i < testing_support::kSizes.size(); ++i)
        all.push_back({1 + i % 4, testing_support::kSizes[i]});
    each(all, [&](Operands& o, const Shape& s) {
      Case made = make(o, s);
      made.name += text(s);
      return made;
    });
  }
  /// make(operands, row) -> Case of rows where formulas have edges: one value, ties, infinities, NaNs, all alike.
  template <class Make>
  void edges(const Make& make) {
    constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
    if (!is_broad()) return;
    for (const std::vector<float>& row : std::vector<std::vector<float>>{{-7},
                                                                         {1e30f, 1e30f},
                                                                         {0.0f, -0.0f, 0.0f, -0.0f},
                                                                         {-0.0f, 0x1p-140f},
                                                                         {0, -kInf},
                                                                         {0, -1000},
                                                                         {3e38f, -3e38f, -3e38f},
                                                                         {5, -kInf, 5},
                                                                         {0.25f, 0.75f, 0.75f, 0.25f, 0},
                                                                         {1, kNan, 2},
                                                                         {kNan, -kInf, -kInf},
                                                                         {kInf, 1},
                                                                         {0, kInf, kInf},
                                                                         {-kInf, -kInf},
                                                                         {kNan, kNan},
                                                                         std::vector<float>(1000, -3.25f)})
      one(false, [&](Operands& o) { return make(o, o.matrix_of(1, row.size(), row)); });
  }
  template <class Make>
  void one(bool special, const Make& make) {
    Operands operands(cases_.size() + 1, special);
    cases_.push_back(make(operands));
    if (special) cases_.back().as_graph = false;  // command graphs run the same shaders
  }
  std::vector<Case> take() { return std::move(cases_); }

 private:
  Breadth breadth_;
  std::vector<Case> cases_;
};

/// The rows of each operation: op_cases_values.cpp, op_cases_weights.cpp, op_cases_windows.cpp. Without them nothing
/// links.
namespace rows {
#define WEFT_OP(name, Type) void name(Table& table);
#include "kernels/ops.def"
#undef WEFT_OP
}  // namespace rows

}  // namespace weft::kernels::testing_ops
