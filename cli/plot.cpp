// SPDX-License-Identifier: Apache-2.0

#include "cli/output.hpp"
#include "cli/plot_data.hpp"
#include "cli/plot_png.hpp"
#include "cli/plot_svg.hpp"
#include "cli/verb.hpp"

#include "storage/durable.hpp"
#include "storage/file_system.hpp"

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace weft::cli {
namespace {

struct PlotRequest {
  std::vector<std::string> paths, columns;
  std::string output, title;
};

Status plot(const PlotRequest& request) {
  std::vector<NamedFile> inputs;
  for (const std::string& path : request.paths) inputs.push_back({"FILE", path});
  WEFT_CHECK(check_output({"-o", request.output}, inputs));
  const std::string end = std::filesystem::path(request.output).extension();
  if (!end.empty() && end != ".svg" && end != ".png")
    return fail(Errc::invalid_argument,
                "-o " + request.output + ": pictures are SVG or PNG; give a name that ends in .svg or .png");
  WEFT_TRY(const PlotData data, read_plot(request.paths, request.columns));
  const std::string name = std::filesystem::path(request.paths[0]).stem().string();
  std::string picture = plot_svg(data, request.title.empty() ? name : request.title);
  if (end == ".png") {
    WEFT_TRY(picture, png_of(picture));
  }
  return storage::write_file_durably(storage::real_file_system(), request.output, std::as_bytes(std::span(picture)));
}

}  // namespace

Verb add_plot(CLI::App& program) {
  CLI::App* app =
      add_verb(program, "plot", "Draw accuracies of tasks, or lines over samples, as an SVG or PNG picture");
  auto request = std::make_shared<PlotRequest>();
  add_argument(*app, "FILE", request->paths,
               "Tables whose first column is x, of run --matrix, or what run and live print with --json; a directory "
               "of them, or a data directory of run or live. Several are runs of several seeds")
      .required();
  add_output(*app, request->output, "Write the picture there", "FILE").required();
  add_option(*app, "columns", request->columns, "Columns of a table to show; else its accuracies, or all")
      .type_name("NAME,...")
      .between_commas();
  add_option(*app, "title", request->title, "Its title; else the name of the first file");
  return {app, [request] { return plot(*request); }};
}

}  // namespace weft::cli
