// SPDX-License-Identifier: Apache-2.0
// A program of its own: it replaces operator new.

#include <gtest/gtest.h>

#include "../allocations.hpp"
#include "calls.hpp"

namespace weft::capi::tick_allocation_test {
namespace {

using namespace testing_support;
using weft::testing_support::allocations_during;

TEST(CTick, AllocatesNothing) {
  if (!WEFT_COUNTS_ALLOCATIONS) GTEST_SKIP() << "a sanitizer owns the allocator";
  weft_mesh* const mesh = make_mesh();
  const float bits[2] = {0, 1};
  float answer[2];
  std::uint64_t ticks = 0;
  const auto frame = [&] {
    WEFT_EXPECT_OK(weft_mesh_set_input(mesh, "bits", 0, bits, 2));
    WEFT_EXPECT_OK(weft_mesh_tick(mesh, 10));
    WEFT_EXPECT_OK(weft_mesh_tick_for(mesh, 100'000, &ticks));
    WEFT_EXPECT_OK(weft_mesh_output(mesh, "answer", 0, answer, 2, nullptr));
    EXPECT_EQ(weft_mesh_tick(nullptr, 1), WEFT_BAD_HANDLE);  // what fails at the handle neither
  };
  frame();
  EXPECT_EQ(allocations_during([&] {
              for (int i = 0; i < 100; ++i) frame();
            }),
            0);
  weft_learner* learner = nullptr;
  WEFT_ASSERT_OK(weft_learner_build(mesh, nullptr, &learner));
  const auto learn = [&] {
    WEFT_EXPECT_OK(weft_learner_learn_one(learner, bits, 2, 1));
    WEFT_EXPECT_OK(weft_learner_clear_scores(learner));
  };
  learn();
  EXPECT_EQ(allocations_during([&] {
              for (int i = 0; i < 100; ++i) learn();
            }),
            0);
  WEFT_EXPECT_OK(weft_learner_destroy(learner));
  WEFT_EXPECT_OK(weft_mesh_destroy(mesh));
}

}  // namespace
}  // namespace weft::capi::tick_allocation_test
