// SPDX-License-Identifier: Apache-2.0

#include "cli/signals.hpp"
#include "cli/standard_streams.hpp"
#include "cli/verb.hpp"

#include "learning/generators/generator.hpp"

#include <charconv>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace weft::cli {
namespace {

struct StreamRequest {
  std::string kind;
  std::uint64_t samples = 1000, seed = 0, change_every = 0, width = 0, first = 0;
  std::optional<double> noise, magnitude;
};

/// The shortest text that reads back equal.
void append(std::string& line, float value) {
  char buffer[32];
  line.append(buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr);
}

std::optional<float> number(const std::optional<double>& value) {
  return value ? std::optional(static_cast<float>(*value)) : std::nullopt;
}

Status print_stream(const StreamRequest& request) {
  const auto kind = learning::parse_generator(request.kind);
  if (!kind) return fail(Errc::invalid_argument, "STREAM: '" + request.kind + "' is no stream");
  const auto generator = learning::make_generator({.kind = *kind,
                                                   .seed = request.seed,
                                                   .change_every = request.change_every,
                                                   .width = request.width,
                                                   .first = static_cast<std::uint32_t>(request.first),
                                                   .noise = number(request.noise),
                                                   .magnitude = number(request.magnitude)});
  const learning::GeneratorShape& shape = generator->shape();
  if (shape.tasks > 0 && request.first >= shape.tasks)
    return fail(Errc::invalid_argument, "--first: " + std::to_string(request.first) + "; " + request.kind +
                                            " has tasks 0 to " + std::to_string(shape.tasks - 1));
  std::string line;
  for (const std::string& name : shape.features) line += name + ",";
  line += shape.classes > 0 ? "class\n" : "value\n";
  std::fputs(line.c_str(), stdout);
  std::vector<float> x(shape.features.size());
  for (std::uint64_t n = 0; request.samples == 0 || n < request.samples; ++n) {
    float y = 0;
    generator->next(x, y);
    line.clear();
    for (const float value : x) {
      append(line, value);
      line += ',';
    }
    append(line, y);
    line += '\n';
    if (std::fwrite(line.data(), 1, line.size(), stdout) != line.size()) break;  // main says why
    if (noted_signal())
      return fail(Errc::interrupted, "stopped by a signal after " + std::to_string(n + 1) + " samples");
  }
  return {};
}

}  // namespace

Verb add_stream(CLI::App& program) {
  CLI::App* app = add_verb(program, "stream", "Print a made-up stream of samples whose task changes, as a table");
  auto request = std::make_shared<StreamRequest>();
  std::vector<std::string> names;
  for (const std::string_view name : learning::generator_names()) names.emplace_back(name);
  one_of(add_argument(*app, "STREAM", request->kind, "What it is of").required(), std::move(names));
  add_option(*app, "samples", request->samples, "Rows; 0: until it is stopped");
  add_option(*app, "seed", request->seed, "Of all draws");
  add_option(*app, "change-every", request->change_every, "Samples of a task; 0: it stays");
  add_option(*app, "width", request->width, "Samples in which a new task replaces the one before, more and more often");
  add_option(*app, "first", request->first, "The task that it begins with")
      .within(std::uint64_t{0}, std::uint64_t{1000});
  add_option(*app, "noise", request->noise,
             "Share of labels (led: of segments) that are wrong, or the value's deviation (friedman, slowly_changing)")
      .within(0.0, 1000.0);
  add_option(*app, "magnitude", request->magnitude, "Turn of the plane in a sample (hyperplane)").within(0.0, 1000.0);
  return {app, [request] { return print_stream(*request); }};
}

}  // namespace weft::cli
