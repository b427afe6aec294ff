// SPDX-License-Identifier: Apache-2.0

#include "kernels/ops/list.hpp"
#include "kernels/parallel_parts.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <type_traits>
#include <vector>

/// Properties of all operations that follow from their descriptions.
namespace weft::kernels::ops_test {
namespace {

template <class Visit>
void for_each_operation(const Visit& visit) {
#define WEFT_OP(name, Type) visit(OpId::name, ops::Type{});
#include "kernels/ops.def"
#undef WEFT_OP
}

struct Matrix4 {
  std::vector<float> values = std::vector<float>(64, 1.0f);
  MatrixView view(std::size_t rows, std::size_t cols, std::size_t stride) {
    return {values.data(), rows, cols, stride};
  }
};

TEST(Operations, HaveNamesAndNumbersOfTheirOwn) {
  std::set<std::string> names;
  int next = 0;
  for_each_operation([&](OpId id, const auto& op) {
    EXPECT_EQ(static_cast<int>(id), next++);
    EXPECT_EQ(kIdOf<std::remove_cvref_t<decltype(op)>>, id);
    EXPECT_TRUE(names.emplace(name(id)).second) << name(id);
  });
  EXPECT_EQ(next, kOpCount);
  EXPECT_EQ(name(OpId::linear), "linear");
}

TEST(Operations, WriteOrAnswer) {
  for_each_operation([&](OpId id, const auto& op) {
    using Op = std::remove_cvref_t<decltype(op)>;
    std::size_t written = 0, all = 0;
    ops::for_each_operand(op, [&](ops::Access access, const auto&, const ops::Extent&) {
      ++all;
      if (access == ops::Access::write || access == ops::Access::update) ++written;
    });
    EXPECT_GT(all, 0u) << name(id);
    EXPECT_EQ(written > 0, std::is_void_v<ops::Answer<Op>>) << name(id);
  });
}

// Each pointer is visited once: moved twice, an operand would be elsewhere on a device.
TEST(Operations, VisitEachOperandOnce) {
  for_each_operation([&](OpId id, const auto& op) {
    std::set<const void*> places;
    ops::for_each_operand(op, [&](ops::Access, const auto& operand, const ops::Extent&) {
      EXPECT_TRUE(places.insert(&operand).second) << name(id);
    });
  });
}

TEST(Operations, FitWhereTheirShapesAgree) {
  Matrix4 x, y;
  EXPECT_TRUE(ops::fits(ops::Softmax{x.view(3, 4, 5), 1.0f, y.view(3, 4, 4)}));
  EXPECT_FALSE(ops::fits(ops::Softmax{x.view(3, 5, 5), 1.0f, y.view(3, 4, 4)})) << "columns";
  EXPECT_FALSE(ops::fits(ops::Softmax{x.view(2, 4, 5), 1.0f, y.view(3, 4, 4)})) << "rows";
  EXPECT_FALSE(ops::fits(ops::Softmax{x.view(3, 4, 4), 1.0f, y.view(3, 4, 3)})) << "rows that overlap";
  EXPECT_TRUE(ops::fits(ops::Softmax{x.view(3, 4, 0), 1.0f, y.view(3, 4, 4)})) << "one row read as many";
  const ConstPanels w{x.values.data(), 4, 3};
  EXPECT_TRUE(ops::fits(ops::Linear{w, nullptr, x.view(2, 3, 3), Activation::linear, {}, y.view(2, 4, 4)}));
  EXPECT_FALSE(ops::fits(ops::Linear{w, nullptr, x.view(2, 4, 4), Activation::linear, {}, y.view(2, 4, 4)}));
  EXPECT_FALSE(ops::fits(
      ops::SquaredDistancesBackward{w, x.view(2, 3, 3), x.view(2, 4, 4), y.view(2, 3, 3), {y.values.data(), 3, 4}}));
}

TEST(Operations, GiveEachPartItsPartOfTheOperands) {
  Matrix4 x, y;
  const ops::Binary binary{BinaryOp::add, x.view(4, 8, 8), x.view(4, 8, 16), y.view(4, 8, 8)};
  const ops::Binary part = ops::part_of(binary, {1, 2, 1, 3, 4}, 0);
  EXPECT_EQ(part.a.data, x.values.data() + 2 * 8 + 3);
  EXPECT_EQ(part.b.data, x.values.data() + 2 * 16 + 3);
  EXPECT_EQ(part.y.rows, 1u);
  EXPECT_EQ(part.y.cols, 4u);
  EXPECT_EQ(part.y.stride, 8u);

  float sums[4];
  const ops::RowSums rows = ops::part_of(ops::RowSums{x.view(4, 8, 8), sums}, {2, 1, 3, 0, 0}, 0);
  EXPECT_EQ(rows.a.data, x.values.data() + 8);
  EXPECT_EQ(rows.a.rows, 3u);
  EXPECT_EQ(rows.a.cols, 8u) << "rows are not cut";
  EXPECT_EQ(rows.s, sums + 1);

  const ops::OptimizerStep step{
      48, y.values.data(), y.values.data(), y.values.data(), nullptr, x.values.data(), sums, nullptr, {}};
  const ops::OptimizerStep some = ops::part_of(step, {1, 0, 1, 16, 32}, 0);
  EXPECT_EQ(some.n, 32u);
  EXPECT_EQ(some.g, x.values.data() + 16);
  EXPECT_EQ(some.factors, sums) << "all parts read the same";

  AttentionShape shape;
  ops::AttentionBackward attention{
      shape, {x.view(4, 1, 1), x.view(4, 1, 1), x.view(4, 1, 1), {}}, y.view(4, 1, 1), y.view(4, 2, 2), {}, sums};
  attention = ops::part_of(attention, {2, 1, 2, 0, 0}, 7);
  EXPECT_EQ(attention.workspace, sums + 14);
  EXPECT_EQ(attention.from.k.data, x.values.data() + 1);
  EXPECT_EQ(attention.from.state.data, nullptr);
}

}  // namespace
}  // namespace weft::kernels::ops_test
