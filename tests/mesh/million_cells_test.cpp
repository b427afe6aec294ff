// SPDX-License-Identifier: Apache-2.0
// A program of its own: its peak of memory is measured.
// The sheet of 1,000,000 cells of docs/formats/network.md, as it stands there, ticks within the memory that it names.

#include "mesh/mesh.hpp"
#include "mesh/network/network_json.hpp"

#include <sys/resource.h>

#include "testing.hpp"
#include "tests/support/source_path.hpp"
#include <cmath>
#include <fstream>
#include <iterator>

namespace weft::mesh::million_cells_test {
namespace {

using namespace testing_support;

#ifdef WEFT_SANITIZED
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

constexpr std::size_t kCells = 1'000'000;
constexpr long kMostKib = 4608L << 10;  // the page says about 4 GiB

/// The page's example: from its opening brace to the paragraph after it.
std::string sheet() {
  std::ifstream in(source_path("docs/formats/network.md"), std::ios::binary);
  const std::string page{std::istreambuf_iterator<char>(in), {}};
  const std::size_t begin = page.find("    {\"weft\": 2, \"name\": \"sheet\""), end = page.find("\n\n", begin);
  EXPECT_EQ(page.find("\nThese are 1,000,000 cells; they take about 4 GiB", end), end + 1) << "the page has changed";
  return begin == page.npos ? std::string() : page.substr(begin, end - begin);
}

TEST(MillionCells, OfThePageTickWithinTheMemoryThatItNames) {
  if (kSanitized) GTEST_SKIP() << "sanitizers keep memory of their own";
  Mesh mesh = must(Mesh::build(must(read_network(sheet(), "sheet")), {.threads = 1}));
  ASSERT_EQ(mesh.spec().layers.size(), kCells);
  must(mesh.set_input("drive", std::vector<float>{0.5f}));
  must(mesh.tick(2));
  EXPECT_EQ(mesh.ticks(), 2u);
  // Each row's first cell reads the input.
  for (const std::uint32_t y : {0u, 999u}) {
    const float driven = must(mesh.output(Coord{0, y, 0, 0}))[0];
    EXPECT_TRUE(driven != 0 && std::fabs(driven) < 1) << driven;
  }
  EXPECT_EQ(must(mesh.output("corner")).size(), 1u);

  rusage usage{};
  ASSERT_EQ(getrusage(RUSAGE_SELF, &usage), 0);
  EXPECT_LT(usage.ru_maxrss, kMostKib);
}

}  // namespace
}  // namespace weft::mesh::million_cells_test
