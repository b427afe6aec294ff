// SPDX-License-Identifier: Apache-2.0

#include "learning/taught_outputs.hpp"

#include "learning/internal/sample_rings.hpp"
#include "learning/losses.hpp"

#include <algorithm>
#include <utility>

namespace weft::learning {
namespace {

/// Columns from `first` of rows of `width`, `count` of each.
template <class T>
std::vector<T> columns_of(std::span<const T> rows, std::size_t width, std::size_t first, std::size_t count) {
  std::vector<T> columns;
  for (std::size_t at = first; at < rows.size(); at += width)
    columns.insert(columns.end(), rows.begin() + static_cast<std::ptrdiff_t>(at),
                   rows.begin() + static_cast<std::ptrdiff_t>(at + count));
  return columns;
}

}  // namespace

TaughtOutputs::TaughtOutputs(const mesh::Node& output, const LearningOptions& learning) {
  add(output.object, output, learning);
  if (targets_of(learning.loss) == LossTargets::head_labels) own_classes_ = learning.heads;
}

void TaughtOutputs::add(const std::string& name, const mesh::Node& output, const LearningOptions& learning) {
  const std::size_t first_value = width(), first_target = targets();
  const std::vector<std::size_t> starts = parts_of(output, learning);
  for (std::size_t i = 1; i < starts.size(); ++i) parts_.push_back(first_value + starts[i]);
  const bool has_values = targets_of(learning.loss) == LossTargets::values;
  all_.push_back({name, first_value, output.width, first_target, has_values ? output.width : starts.size() - 1});
}

Result<TaughtOutputs> TaughtOutputs::of(const mesh::Graph& graph, const StreamOptions& stream,
                                        const LearningOptions& learning) {
  const auto& outputs = graph.spec().outputs;
  if (!stream.outputs.empty() && !stream.output.empty())
    return fail(Errc::invalid_argument,
                "stream.outputs: stream.output is '" + stream.output + "' too; give the one name or the list");
  std::vector<std::string> names = stream.outputs;
  if (names.empty() && stream.output.empty() && outputs.size() != 1)
    return fail(Errc::invalid_argument,
                "stream.output: the network has " + std::to_string(outputs.size()) +
                    " outputs; name the one that should give the label, or in stream.outputs those that share the "
                    "table's columns of targets");
  if (names.empty()) names.push_back(stream.output.empty() ? outputs[0].name : stream.output);
  const std::string key = stream.outputs.empty() ? "stream.output" : "stream.outputs";
  TaughtOutputs taught;
  for (const std::string& name : names) {
    const auto found = graph.find_output(name);
    if (!found) return fail(Errc::unknown_name, key + ": no output is named '" + name + "'");
    if (std::any_of(taught.all_.begin(), taught.all_.end(), [&](const One& one) { return one.name == name; }))
      return fail(Errc::duplicate_name, key + ": '" + name + "' is named twice");
    const mesh::Node& node = graph.nodes()[*found];
    if (names.size() > 1 && targets_of(learning.loss) == LossTargets::labels && node.width != node.shape.back())
      return fail(Errc::unsupported, key + ": output '" + name + "' has a label for each of its " +
                                         std::to_string(node.width / node.shape.back()) +
                                         " places, and such an output is taught alone; name it in stream.output");
    taught.add(name, node, learning);
  }
  const bool has_values = targets_of(learning.loss) == LossTargets::values;
  const bool has_own = taught.has_several() || targets_of(learning.loss) == LossTargets::head_labels;
  for (std::size_t i = 1; has_own && !has_values && i < taught.parts_.size(); ++i)
    taught.own_classes_.push_back(static_cast<std::uint32_t>(taught.parts_[i] - taught.parts_[i - 1]));
  return taught;
}

std::string TaughtOutputs::text() const {
  std::string text = has_several() ? "outputs " : "output ";
  for (std::size_t i = 0; i < all_.size(); ++i) text += (i ? ", '" : "'") + all_[i].name + "'";
  return text;
}

const TaughtOutputs::One& TaughtOutputs::of_target(std::size_t target) const noexcept {
  const auto is_behind = [&](const One& one) { return target < one.first_target + one.targets; };
  return *std::find_if(all_.begin(), all_.end() - 1, is_behind);
}

Status TaughtOutputs::ask(std::size_t rows, std::span<float> joined,
                          const std::function<Status(std::span<const mesh::RunOutput>)>& call) const {
  if (!has_several()) {
    const mesh::RunOutput output{all_[0].name, joined};
    return call({&output, 1});
  }
  std::vector<std::vector<float>> own;
  std::vector<mesh::RunOutput> to;
  for (const One& one : all_) own.emplace_back(rows * one.values);
  for (std::size_t i = 0; i < all_.size(); ++i) to.push_back({all_[i].name, own[i]});
  WEFT_CHECK(call(to));
  for (std::size_t i = 0; i < all_.size(); ++i)
    for (std::size_t row = 0; row < rows; ++row)
      std::copy_n(own[i].data() + row * all_[i].values, all_[i].values,
                  joined.data() + row * width() + all_[i].first_value);
  return {};
}

Status TaughtOutputs::teach(std::span<const std::uint32_t> labels, std::span<const float> values,
                            std::span<const float> weights,
                            const std::function<Status(std::span<const Target>)>& call) const {
  if (!has_several()) {
    const Target target{.output = all_[0].name, .labels = labels, .values = values, .weights = weights};
    return call({&target, 1});
  }
  std::vector<std::vector<std::uint32_t>> own_labels;
  std::vector<std::vector<float>> own_values;
  std::vector<Target> targets;
  for (const One& one : all_) {
    own_labels.push_back(columns_of(labels, this->targets(), one.first_target, one.targets));
    own_values.push_back(columns_of(values, this->targets(), one.first_target, one.targets));
  }
  for (std::size_t i = 0; i < all_.size(); ++i)
    targets.push_back({.output = all_[i].name, .labels = own_labels[i], .values = own_values[i], .weights = weights});
  return call(targets);
}

}  // namespace weft::learning
