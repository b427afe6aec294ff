// SPDX-License-Identifier: Apache-2.0

#include "core/aligned_buffer.hpp"
#include "core/coord.hpp"
#include "core/dtype.hpp"
#include "core/shape.hpp"
#include "core/state_hash.hpp"

#include <gtest/gtest.h>

namespace weft::core_test {
namespace {

Result<int> half(int x) {
  if (x % 2) return fail(Errc::invalid_argument, "half of " + std::to_string(x));
  return x / 2;
}
Result<int> quarter(int x) {
  WEFT_TRY(const int h, half(x));
  return half(h);
}

TEST(Result, PassesValuesAndFailuresOn) {
  EXPECT_EQ(*quarter(12), 3);
  ASSERT_FALSE(quarter(6));
  EXPECT_EQ(quarter(6).error().text(), "half of 3");
  EXPECT_EQ(std::move(quarter(5)).error().within("layers[3]").text(), "layers[3]: half of 5");
  EXPECT_EQ(name(Errc::shape_mismatch), "shape_mismatch");
  EXPECT_EQ(exit_code(Errc::storage), 5);
}

TEST(GridShape, IndexAndCoordAreInverse) {
  const GridShape shape{2, 3, 5, 2};
  for (std::size_t i = 0; i < shape.size(); ++i) EXPECT_EQ(shape.index(shape.coord(i)), i);
  EXPECT_FALSE(shape.contains({0, 3, 0, 0}));
  EXPECT_EQ(to_string(Coord{1, 2, 3, 0}), "[1,2,3,0]");
}

TEST(GridShape, RefusesZeroAndHugeExtents) {
  EXPECT_EQ((GridShape{0, 1, 1, 1}).check().error().code(), Errc::out_of_range);
  EXPECT_EQ((GridShape{65536, 65536, 65536, 65536}).check().error().code(), Errc::too_large);
  EXPECT_TRUE((GridShape{1, 1, 1, 1}).check());
}

TEST(Shape, VolumeIsChecked) {
  EXPECT_EQ(*volume({3, 4}), 12u);
  EXPECT_EQ(volume({std::size_t{1} << 40, 2}).error().code(), Errc::too_large);
  EXPECT_EQ(volume({3, 0}).error().code(), Errc::out_of_range);
}

TEST(AlignedBuffer, IsZeroedAlignedAndCopies) {
  AlignedBuffer<float> a(17);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(a.data()) % 64, 0u);
  for (float x : a) EXPECT_EQ(x, 0.0f);
  a[3] = 2.0f;
  AlignedBuffer<float> b = a;
  a[3] = 1.0f;
  EXPECT_EQ(b[3], 2.0f);
}

TEST(Dtype, NamesRoundTripAndThereAre21) {
  EXPECT_EQ(kDtypeCount, 21);
  for (int i = 0; i < kDtypeCount; ++i) EXPECT_EQ(parse_dtype(name(static_cast<Dtype>(i))), static_cast<Dtype>(i));
  EXPECT_FALSE(parse_dtype("float31"));
  EXPECT_EQ(bits(Dtype::binary), 1);
}

// The xxHash sanity vector for an empty input, seed 0.
TEST(StateHash, EqualsPublishedVectorAndPiecewiseEqualsWhole) {
  EXPECT_EQ(to_string(hash_bytes("", 0)), "99aa06d3014798d86001c324468d497f");
  const std::string text(1000, 'w');
  StateHasher hasher;
  hasher.add_bytes(text.data(), 3);
  hasher.add_bytes(text.data(), 997);
  EXPECT_EQ(hasher.digest(), hash_bytes(text.data(), text.size()));
  EXPECT_EQ(parse_hash128(to_string(hasher.digest())), hasher.digest());
  EXPECT_FALSE(parse_hash128("zz"));
}

}  // namespace
}  // namespace weft::core_test
