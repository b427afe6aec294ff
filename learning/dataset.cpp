// SPDX-License-Identifier: Apache-2.0

#include "learning/dataset.hpp"

#include "learning/internal/idx_samples.hpp"
#include "learning/internal/label_columns.hpp"
#include "learning/losses.hpp"
#include "learning/taught_outputs.hpp"

#include "formats/idx/idx.hpp"

#include <algorithm>
#include <utility>

namespace weft::learning {

Result<LabelBounds> label_bounds(const TaughtOutputs& outputs, const LearningOptions& learning, TableOptions& options) {
  LabelBounds bounds;
  const std::string loss(name(learning.loss));
  const LossTargets kind = targets_of(learning.loss);
  if (kind == LossTargets::values && options.targets.empty()) options.targets = target_columns(options);
  if (kind != LossTargets::values && !options.targets.empty())
    return fail(Errc::unsupported, "stream.targets: values, and learning.loss " + loss + " learns classes; give " +
                                       loss_words(LossTargets::values));
  const std::size_t columns = target_columns(options).size();
  const std::size_t wanted = outputs.targets();
  if (columns != wanted)
    return fail(Errc::shape_mismatch,
                std::string(kind == LossTargets::values ? "stream.targets: " : "stream.labels: ") +
                    std::to_string(columns) + (columns == 1 ? " column" : " columns") + "; " + outputs.text() +
                    (outputs.has_several() ? " take " : " takes ") + std::to_string(wanted) + " under learning.loss " +
                    loss +
                    (kind == LossTargets::labels && wanted == 1
                         ? "; several labels a sample need " + loss_words(LossTargets::head_labels) +
                               ", or an output [places, classes]"
                         : ""));
  for (const std::vector<float>* list : {&options.target_mean, &options.target_deviation})
    if (!list->empty() && list->size() != columns)
      return fail(Errc::shape_mismatch,
                  std::string(list == &options.target_mean ? "stream.target_mean: " : "stream.target_deviation: ") +
                      std::to_string(list->size()) + " values, " + std::to_string(columns) + " targets");
  if (!options.head_classes.empty() && options.head_classes.size() != columns)
    return fail(Errc::shape_mismatch, "stream.head_classes: " + std::to_string(options.head_classes.size()) +
                                          " lists, " + std::to_string(columns) + " columns of labels");
  bounds.heads = outputs.own_classes();
  const std::size_t width = kind == LossTargets::labels ? outputs.parts()[1] : outputs.width();
  bounds.width = static_cast<std::uint32_t>(std::min<std::size_t>(width, bounds.width));
  return bounds;
}

Result<Dataset> read_dataset(storage::FileSystem& files, const std::string& path, const TableOptions& options,
                             const LabelBounds& bounds) {
  Dataset data;
  WEFT_TRY(const std::string text, read_unpacked(files, path, data));
  if (formats::is_idx(as_bytes(text)))
    return read_idx_samples(files, as_bytes(text), path, options, bounds, std::move(data));
  std::string_view rest = text;
  const auto source = [&rest](std::span<char> buffer) -> Result<std::size_t> {
    const std::size_t now = std::min(buffer.size(), rest.size());
    std::copy_n(rest.data(), now, buffer.data());
    rest.remove_prefix(now);
    return now;
  };
  WEFT_TRY(auto table, open_rows(source, path, options));
  WEFT_TRY(SampleReader reader, SampleReader::open(std::move(table), options, SampleReader::Label::required));
  data.features = reader.features();
  data.names = reader.feature_names();
  data.targets = reader.target_count();
  data.target_names = reader.target_names();
  const bool has_values = !options.targets.empty();
  LabelColumns labels(options, bounds);
  for (;;) {
    WEFT_TRY(const bool has_sample, reader.next());
    if (!has_sample) break;
    if (data.inputs.size() + data.features + data.values.size() + data.labels.size() > kMaxSampleValues)
      return reader.table().refuse(Errc::too_large, "more than " + std::to_string(kMaxSampleValues) + " values");
    data.inputs.insert(data.inputs.end(), reader.values().begin(), reader.values().end());
    if (reader.has_weights()) data.weights.push_back(reader.weight());
    if (has_values)
      data.values.insert(data.values.end(), reader.target_values().begin(), reader.target_values().end());
    else
      WEFT_CHECK(labels.take(reader, data));
    ++data.size;
  }
  data.dropped = reader.dropped();
  data.missing = reader.missing();
  if (data.size == 0)
    return fail(Errc::parse_failed,
                path + ": no rows" + (data.dropped ? " left; " + std::to_string(data.dropped) + " were dropped" : ""));
  if (!has_values) WEFT_CHECK(labels.finish(data, path));
  return data;
}

}  // namespace weft::learning
