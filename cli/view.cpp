// SPDX-License-Identifier: Apache-2.0

#include "cli/json_line.hpp"
#include "cli/model.hpp"
#include "cli/network_picture.hpp"
#include "cli/output.hpp"
#include "cli/text_format.hpp"
#include "cli/verb.hpp"

#include "mesh/network/graph.hpp"

#include "storage/durable.hpp"
#include "storage/file_system.hpp"

#include "core/json.hpp"
#include "core/printable.hpp"

#include <cstdio>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace weft::cli {
namespace {

constexpr std::size_t kListedRows = 1000;  // layers in the table of a page

struct ViewRequest {
  std::string file, out, format;
  bool json = false;
};

/// The format by --format, or by the suffix of -o.
Result<std::string> format_of(const ViewRequest& request) {
  if (!request.format.empty()) return request.format;
  if (request.out.empty())
    return fail(Errc::invalid_argument,
                "weft view: where to? Give -o FILE.html, FILE.svg or FILE.dot, or --format F for stdout");
  const std::string suffix = std::filesystem::path(request.out).extension().string();
  for (const char* format : {"html", "svg", "dot"})
    if (suffix == "." + std::string(format)) return std::string(format);
  return fail(Errc::invalid_argument, "-o " + in_quotes(request.out) + ": its suffix " + in_quotes(suffix) +
                                          " is none of .html, .svg, .dot; --format says which it is");
}

std::string drawn(const mesh::Graph& graph, const std::string& name, const std::string& format) {
  if (format == "dot") return to_dot(graph, name);
  const NetworkPicture picture = picture_of(graph, name);
  return format == "svg" ? to_svg(picture) : to_html(picture, layer_rows(graph, kListedRows));
}

/// Neither weights nor a mesh are made: a picture of a huge network takes the memory of its description.
Status view(const ViewRequest& request) {
  WEFT_TRY(const std::string format, format_of(request));
  if (!request.out.empty()) WEFT_CHECK(check_output("--output", request.out, request.file));
  WEFT_TRY(const Model model, read_model(request.file));
  auto graph = mesh::Graph::build(model.spec);
  if (!graph) return fail(blamed(std::move(graph).error(), model.path));
  const std::string text = drawn(*graph, std::filesystem::path(request.file).stem().string(), format);
  if (request.out.empty()) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    return {};
  }
  WEFT_CHECK(storage::write_file_durably(storage::real_file_system(), request.out, std::as_bytes(std::span(text))));
  if (request.json)
    print_json({{"file", request.out}, {"format", format}, {"file_bytes", text.size()}});
  else
    std::printf("%s: %s\n", escaped(request.out).c_str(), byte_size(text.size()).c_str());
  return {};
}

}  // namespace

Verb add_view(CLI::App& program) {
  CLI::App* app = add_verb(program, "view", "Draw a network: cells, links and types as a page, a picture or a graph");
  auto request = std::make_shared<ViewRequest>();
  add_argument(*app, "FILE", request->file, "A network file or an .entity file").required();
  add_output(*app, request->out, "Where to; the suffix says the format", "FILE.html");
  one_of(add_option(*app, "format", request->format, "What is written; without -o, to stdout"), {"html", "svg", "dot"});
  add_flag(*app, "json", request->json, "One JSON object on stdout of what -o was given");
  return {app, [request] { return view(*request); }};
}

}  // namespace weft::cli
