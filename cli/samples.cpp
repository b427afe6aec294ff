// SPDX-License-Identifier: Apache-2.0

#include "cli/samples.hpp"

#include "cli/text_format.hpp"

#include "learning/column_statistics.hpp"
#include "learning/split.hpp"
#include "learning/taught_outputs.hpp"

#include "storage/file_system.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>

namespace weft::cli {
namespace {

// Standardised values have a root mean square of 1; pixels of 0 to 255 one near 100.
constexpr double kFarOutside = 8;
// Standard deviations from the mean of the training part; of n rows none is farther than the root of n.
constexpr double kFarFromMean = 20;
// Layers that bring their input into range or read it as an index, and those that may hold such layers.
constexpr std::array<std::string_view, 5> kAnyRange{"layer_norm", "rms_norm", "embedding", "sequential", "parallel"};

/// The only port or output where `name` is empty; nothing where there is no such one.
template <class Found>
std::optional<mesh::NodeId> the_only(const std::string& name, std::size_t count, Found&& found) {
  if (!name.empty() || count == 1) return found();
  return std::nullopt;
}

/// Of one file its own, so that it is the same however many formats have files beside them.
std::string digest_of(const std::vector<learning::SourceFile>& files) {
  if (files.size() == 1) return to_string(files[0].hash);
  std::string all;
  for (const learning::SourceFile& file : files) all += to_string(file.hash);
  return to_string(hash_bytes(all.data(), all.size()));
}

}  // namespace

std::uint64_t usual_epochs(std::size_t rows) {
  constexpr std::uint64_t kUpdates = 30000, kFewest = 5, kMost = 200;
  return std::clamp((kUpdates + rows - 1) / std::max<std::uint64_t>(rows, 1), kFewest, kMost);
}

void keep_class_names(const learning::Dataset& data, learning::TableOptions& table) {
  table.classes = data.class_names;
  table.head_classes.clear();
  const auto has_names = [](const learning::ClassSet& head) { return !head.names.empty(); };
  if (std::none_of(data.heads.begin(), data.heads.end(), has_names)) return;
  for (const learning::ClassSet& head : data.heads) table.head_classes.push_back(head.names);
}

RangeCheck::RangeCheck(const mesh::Graph& graph, const std::string& input) {
  const auto& inputs = graph.spec().inputs;
  const auto port =
      the_only(input, inputs.size(), [&] { return graph.find_port(input.empty() ? inputs[0].name : input); });
  if (!port) return;
  for (const mesh::LayerSpec& layer : graph.spec().layers) {
    const auto& sources = graph.nodes()[*graph.find_layer(layer.at)].sources;
    if (std::none_of(sources.begin(), sources.end(), [&](auto edge) { return graph.edges()[edge].from == *port; }))
      continue;
    if (layer.type == "standardize" && sources.size() == 1)
      standardized_.push_back({std::get<std::vector<double>>(layer.options.at("mean")),
                               std::get<std::vector<double>>(layer.options.at("deviation"))});
    else
      is_raw_ |= std::find(kAnyRange.begin(), kAnyRange.end(), layer.type) == kAnyRange.end();
  }
}

std::optional<std::string> RangeCheck::note(std::span<const float> values) const {
  if (values.empty()) return std::nullopt;
  if (is_raw_)
    if (auto raw = raw_note(values)) return raw;
  for (const Standardized& layer : standardized_)
    if (auto far = standardized_note(layer, values)) return far;
  return std::nullopt;
}

std::optional<std::string> RangeCheck::raw_note(std::span<const float> values) {
  double squares = 0, largest = 0;
  for (const float value : values) {
    squares += static_cast<double>(value) * value;
    largest = std::max(largest, std::abs(static_cast<double>(value)));
  }
  const double root = std::sqrt(squares / static_cast<double>(values.size()));
  if (root <= kFarOutside) return std::nullopt;
  char text[200];
  std::snprintf(text, sizeof text,
                "inputs reach %.4g (root mean square %.3g), far outside the range in which layers learn well; "
                "standardise them (weft new --from) or give stream.scale, such as %.3g",
                largest, root, 1 / largest);
  return text;
}

std::optional<std::string> RangeCheck::standardized_note(const Standardized& layer, std::span<const float> values) {
  double largest = 0;
  std::size_t at = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t j = i % layer.mean.size();
    const double z = std::abs((static_cast<double>(values[i]) - layer.mean[j]) / layer.deviation[j]);
    if (z > largest) largest = z, at = i;
  }
  if (largest <= kFarFromMean) return std::nullopt;
  char text[320];
  const std::size_t j = at % layer.mean.size();
  std::snprintf(text, sizeof text,
                "value %zu reaches %.4g, %.3g standard deviations from its mean %.4g in the data learned from: far "
                "outside the range in which answers mean something; is it in the same unit?",
                j + 1, static_cast<double>(values[at]), largest, layer.mean[j]);
  return text;
}

/// Files that are measured with and never learned from.
static Status append_parts(learning::Dataset& data, const learning::StreamOptions& stream, const SamplePaths& paths,
                           learning::LabelBounds bounds) {
  bounds.may_number = false;
  for (const auto& [part, file] :
       {std::pair(learning::Part::validation, &paths.validation), std::pair(learning::Part::test, &paths.test)}) {
    if (file->empty()) continue;
    WEFT_TRY(auto more, learning::read_dataset(storage::real_file_system(), *file, stream.table, bounds));
    WEFT_CHECK(learning::append_part(data, std::move(more), part, *file));
  }
  return {};
}

/// Tasks make their labels of the table's.
static Result<learning::LabelBounds> bounds_of(const learning::TaughtOutputs& outputs,
                                               const learning::LearningOptions& learning,
                                               learning::StreamOptions& stream) {
  if (stream.tasks.is_on()) return learning::LabelBounds();
  return learning::label_bounds(outputs, learning, stream.table);
}

Result<Samples> expect_samples(const mesh::Graph& graph, learning::StreamOptions& stream, const SamplePaths& paths) {
  const auto& inputs = graph.spec().inputs;
  const auto input = the_only(stream.input, inputs.size(),
                              [&] { return graph.find_port(stream.input.empty() ? inputs[0].name : stream.input); });
  if (!input)
    return fail(Errc::invalid_argument, "stream.input: the network has several; name the one that the samples go to");
  WEFT_TRY(const auto learning, learning::read_learning(graph.spec().learning));
  WEFT_TRY(const auto outputs, learning::TaughtOutputs::of(graph, stream, learning));
  WEFT_TRY(const auto bounds, bounds_of(outputs, learning, stream));
  if (stream.table.missing == learning::Missing::mean && stream.table.fill.empty())
    return fail(Errc::invalid_argument,
                "stream.missing: the network keeps no means (stream.fill) to fill with; give --missing refuse, drop or "
                "zero");
  Samples samples;
  learning::Dataset& data = samples.data;
  data.features = graph.nodes()[*input].width;
  data.targets = learning::target_columns(stream.table).size();
  data.learns_values = targets_of(learning.loss) == learning::LossTargets::values;
  const auto classes_of = [](const std::vector<std::string>& names, std::uint32_t width) {
    return learning::ClassSet{names.empty() ? width : static_cast<std::uint32_t>(names.size()), names};
  };
  if (!data.learns_values) {
    const learning::ClassSet one = classes_of(stream.table.classes, bounds.width);
    data.classes = one.count;
    data.class_names = one.names;
    for (std::size_t i = 0; i < bounds.heads.size(); ++i) {
      const auto& own = stream.table.head_classes;
      data.heads.push_back(classes_of(i < own.size() ? own[i] : std::vector<std::string>(), bounds.heads[i]));
    }
  }
  WEFT_CHECK(append_parts(data, stream, paths, bounds));
  return samples;
}

Result<Samples> read_samples(const mesh::Graph& graph, learning::StreamOptions& stream, const SamplePaths& paths,
                             bool is_trained) {
  const std::string& path = paths.csv;
  Samples samples;
  learning::LabelBounds bounds;
  WEFT_TRY(const auto learning, learning::read_learning(graph.spec().learning));
  WEFT_TRY(const auto outputs, learning::TaughtOutputs::of(graph, stream, learning));
  WEFT_TRY(bounds, bounds_of(outputs, learning, stream));
  bounds.may_number = !is_trained;
  WEFT_TRY(samples.data, learning::read_dataset(storage::real_file_system(), path, stream.table, bounds));
  learning::Dataset& data = samples.data;
  samples.digest = digest_of(data.files);
  if (data.dropped) samples.notes.push_back(path + ": " + grouped(data.dropped) + " rows with missing values left out");
  if (data.missing)
    samples.notes.push_back(path + ": " + grouped(data.missing) + " missing values filled with " +
                            (stream.table.missing == learning::Missing::zero ? "zero" : "means of the training part"));
  keep_class_names(data, stream.table);
  WEFT_CHECK(append_parts(data, stream, paths, bounds));
  const learning::Split split =
      learning::split_rows(data, stream.held_out, stream.stratified, stream.split_seed.value_or(stream.seed));
  samples.learned = split.train.size();
  auto filled = learning::fill_missing(data, split.train, stream.table.fill);
  if (!filled) return fail(std::move(filled).error().within(path));
  if (const auto note = RangeCheck(graph, stream.input).note(data.inputs)) samples.notes.push_back(path + ": " + *note);
  return samples;
}

}  // namespace weft::cli
