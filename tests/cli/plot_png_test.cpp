// SPDX-License-Identifier: Apache-2.0
// Pictures as PNG: by the converter in PATH, which gets the SVG that -o x.svg writes; and what is said where there is
// none, or it fails.

#include "program.hpp"

namespace weft::cli_test::plot_png_test {
namespace {

struct Plot {
  Plot() {
    write_file(folder / "run.csv", "step,accuracy\n0,0.1\n10,0.5\n20,0.9\n");
    std::filesystem::create_directory(folder / "bin");
  }
  /// A program in the place of rsvg-convert.
  void converter(const std::string& script) const {
    const std::string path = folder / "bin/rsvg-convert";
    write_file(path, "#!/bin/sh\n" + script);
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  }
  Outcome run(const std::string& output, const std::string& more = "") const {
    return weft({"plot", folder / "run.csv", "-o", folder / output}, {{"PATH", (folder / "bin") + more}});
  }
  Folder folder;
};

TEST(PlotPng, IsMadeOfTheSvgByTheConverter) {
  const Plot plot;
  ASSERT_EQ(plot.run("x.svg").exit, 0);
  // It gives back what it read, behind the head of a PNG.
  plot.converter("printf '\\211PNG%s\\n' \"$1\"\ncat\n");
  const Outcome made = plot.run("x.png", ":/usr/bin:/bin");
  ASSERT_EQ(made.exit, 0) << made.told();
  EXPECT_EQ(read_file(plot.folder / "x.png"), "\x89PNG--format=png\n" + read_file(plot.folder / "x.svg"));
}

TEST(PlotPng, RefusesTheNameOfAnotherFormat) {
  const Plot plot;
  const Outcome refused = plot.run("x.jpg");
  EXPECT_EQ(refused.exit, 2);
  EXPECT_NE(refused.err.find("give a name that ends in .svg or .png"), std::string::npos) << refused.err;
  EXPECT_FALSE(std::filesystem::exists(plot.folder / "x.jpg"));
}

TEST(PlotPng, SaysWhatIsMissing) {
  const Plot plot;
  const Outcome refused = plot.run("x.png");
  EXPECT_EQ(refused.exit, 3);
  EXPECT_NE(refused.err.find("PNG is made by rsvg-convert (Debian: librsvg2-bin), which is not in PATH"),
            std::string::npos)
      << refused.err;
  EXPECT_FALSE(std::filesystem::exists(plot.folder / "x.png"));
}

TEST(PlotPng, LeavesNoFileWhereTheConverterFails) {
  const Plot plot;
  for (const std::string script :
       {"echo no fonts >&2\nexit 1\n", "echo no fonts >&2\n", "echo no fonts >&2\nkill -9 $$\n"}) {
    plot.converter(script);
    const Outcome failed = plot.run("x.png", ":/usr/bin:/bin");
    EXPECT_EQ(failed.exit, 5) << failed.told();
    EXPECT_NE(failed.err.find("rsvg-convert made no picture: no fonts"), std::string::npos) << failed.err;
    EXPECT_FALSE(std::filesystem::exists(plot.folder / "x.png"));
  }
}

}  // namespace
}  // namespace weft::cli_test::plot_png_test
