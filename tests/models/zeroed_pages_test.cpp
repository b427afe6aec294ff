// SPDX-License-Identifier: Apache-2.0

#include "models/internal/zeroed_pages.hpp"

#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <utility>

namespace weft::models::internal::zeroed_pages_test {
namespace {

TEST(ZeroedPages, GivesWholePagesBackAndNoOthers) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  ZeroedPages pages(5 * page);
  auto* const bytes = static_cast<unsigned char*>(pages.data());
  EXPECT_TRUE(std::all_of(bytes, bytes + 5 * page, [](unsigned char each) { return each == 0; }));
  std::fill_n(bytes, 5 * page, static_cast<unsigned char>(7));
  pages.release(page / 2, page / 4);      // no whole page
  pages.release(4 * page + 1, page - 1);  // none either
  pages.release(page - 1, 2 * page + 2);  // two
  for (std::size_t i = 0; i < 5 * page; ++i) ASSERT_EQ(bytes[i], i >= page && i < 3 * page ? 0 : 7) << i;
  bytes[page] = 9;
  ZeroedPages moved(std::move(pages));
  EXPECT_EQ(static_cast<unsigned char*>(moved.data())[page], 9);
  EXPECT_EQ(moved.bytes(), 5 * page);
  EXPECT_EQ(ZeroedPages(0).data(), nullptr);
}

}  // namespace
}  // namespace weft::models::internal::zeroed_pages_test
