// SPDX-License-Identifier: Apache-2.0

#include "models/internal/zeroed_pages.hpp"

#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace weft::models::internal::zeroed_pages_test {
namespace {

class ZeroedPagesOf : public testing::TestWithParam<PageSize> {};

TEST_P(ZeroedPagesOf, GiveWholePagesBackAndNoOthers) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  ZeroedPages pages(5 * page, GetParam());
  auto* const bytes = static_cast<unsigned char*>(pages.data());
  EXPECT_TRUE(std::all_of(bytes, bytes + 5 * page, [](unsigned char each) { return each == 0; }));
  std::fill_n(bytes, 5 * page, static_cast<unsigned char>(7));
  ZeroedPages::release(bytes + page / 2, page / 4);      // no whole page
  ZeroedPages::release(bytes + 4 * page + 1, page - 1);  // none either
  ZeroedPages::release(bytes + page - 1, 2 * page + 2);  // two
  for (std::size_t i = 0; i < 5 * page; ++i) ASSERT_EQ(bytes[i], i >= page && i < 3 * page ? 0 : 7) << i;
  bytes[page] = 9;
  ZeroedPages moved(std::move(pages));
  EXPECT_EQ(static_cast<unsigned char*>(moved.data())[page], 9);
  EXPECT_EQ(moved.bytes(), 5 * page);
  EXPECT_EQ(ZeroedPages(0, GetParam()).data(), nullptr);
}

INSTANTIATE_TEST_SUITE_P(Sizes, ZeroedPagesOf, testing::Values(PageSize::small, PageSize::huge));

TEST(ZeroedPages, OfHugePagesBeginWithOne) {
  const ZeroedPages pages(3 << 20, PageSize::huge);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(pages.data()) % (2 << 20), 0u);
}

}  // namespace
}  // namespace weft::models::internal::zeroed_pages_test
