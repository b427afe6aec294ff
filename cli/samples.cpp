// SPDX-License-Identifier: Apache-2.0

#include "cli/samples.hpp"

#include "cli/wording.hpp"

#include "storage/file_system.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <optional>
#include <string_view>

namespace weft::cli {
namespace {

// Standardised values have a root mean square of 1; pixels of 0 to 255 one near 100.
constexpr double kFarOutside = 8;
// Layers that bring their input into range or read it as an index, and those that may hold such layers.
constexpr std::array<std::string_view, 6> kAnyRange{"standardize", "layer_norm", "rms_norm",
                                                    "embedding",   "sequential", "parallel"};

/// The only port or output where `name` is empty; nothing where there is no such one.
template <class Found>
std::optional<mesh::NodeId> the_only(const std::string& name, std::size_t count, Found&& found) {
  if (!name.empty() || count == 1) return found();
  return std::nullopt;
}

std::optional<mesh::NodeId> output_of(const mesh::Graph& graph, const learning::StreamOptions& stream) {
  const auto& outputs = graph.spec().outputs;
  return the_only(stream.output, outputs.size(),
                  [&] { return graph.find_output(stream.output.empty() ? outputs[0].name : stream.output); });
}

bool takes_any_range(const mesh::Graph& graph, const learning::StreamOptions& stream) {
  const auto& inputs = graph.spec().inputs;
  const auto port = the_only(stream.input, inputs.size(),
                             [&] { return graph.find_port(stream.input.empty() ? inputs[0].name : stream.input); });
  if (!port) return true;
  for (const mesh::LayerSpec& layer : graph.spec().layers) {
    if (std::find(kAnyRange.begin(), kAnyRange.end(), layer.type) != kAnyRange.end()) continue;
    for (const std::uint32_t edge : graph.nodes()[*graph.find_layer(layer.at)].sources)
      if (graph.edges()[edge].from == *port) return false;
  }
  return true;
}

std::optional<std::string> range_note(const learning::Dataset& data, const std::string& path) {
  double squares = 0, largest = 0;
  for (const float value : data.inputs) {
    squares += static_cast<double>(value) * value;
    largest = std::max(largest, std::abs(static_cast<double>(value)));
  }
  const double root = std::sqrt(squares / static_cast<double>(data.inputs.size()));
  if (root <= kFarOutside) return std::nullopt;
  char text[200];
  std::snprintf(text, sizeof text,
                ": inputs reach %.4g (root mean square %.3g), far outside the range in which layers learn well; "
                "standardise them (weft new --from) or give stream.scale, such as %.3g",
                largest, root, 1 / largest);
  return path + text;
}

}  // namespace

Result<Samples> read_samples(const mesh::Graph& graph, learning::StreamOptions& stream, const std::string& path,
                             bool is_trained) {
  Samples samples;
  learning::LabelBounds bounds;
  if (const auto output = output_of(graph, stream))
    bounds.width = static_cast<std::uint32_t>(std::min<std::size_t>(graph.nodes()[*output].width, bounds.width));
  bounds.may_number = !is_trained;
  WEFT_TRY(samples.data, learning::read_dataset(storage::real_file_system(), path, stream.table, bounds));
  learning::Dataset& data = samples.data;
  if (data.dropped) samples.notes.push_back(path + ": " + grouped(data.dropped) + " rows with missing values left out");
  if (data.missing)
    samples.notes.push_back(path + ": " + grouped(data.missing) + " missing values filled with " +
                            (stream.table.missing == learning::Missing::zero ? "zero" : "means of the training part"));
  stream.table.classes = data.class_names;
  const learning::Split split =
      learning::split_rows(data, stream.held_out, stream.stratified, stream.split_seed.value_or(stream.seed));
  auto filled = learning::fill_missing(data, split.train, stream.table.fill);
  if (!filled) return fail(std::move(filled).error().within(path));
  if (!takes_any_range(graph, stream))
    if (const auto note = range_note(data, path)) samples.notes.push_back(*note);
  return samples;
}

}  // namespace weft::cli
