// SPDX-License-Identifier: Apache-2.0

#include "learning/internal/idx_samples.hpp"

#include "learning/internal/label_columns.hpp"

#include "formats/csv/gzip.hpp"
#include "formats/idx/idx.hpp"
#include "formats/idx/idx_rows.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

namespace weft::learning {
namespace {

constexpr std::size_t kMaxSampleBytes = std::size_t{1} << 30;

/// The label of a sample as the model knows it.
Result<std::uint32_t> idx_label(float value, std::size_t row, const std::string& path,
                                const std::vector<std::string>& classes, std::uint32_t width) {
  const auto refuse = [&](const std::string& reason) {
    return fail(Errc::out_of_range, path + ": label " + std::to_string(row) + ": " + std::to_string(value) + reason);
  };
  if (!(value >= 0 && value < static_cast<float>(kMaxLabels)) || value != std::floor(value))
    return refuse(" is no class: a whole number from 0");
  const auto label = static_cast<std::uint32_t>(value);
  if (classes.empty()) {
    if (label >= width) return refuse("; the network's output has " + std::to_string(width) + " values");
    return label;
  }
  const std::string text = std::to_string(label);
  for (std::size_t i = 0; i < classes.size(); ++i)
    if (canonical_label(classes[i]).text == text) return static_cast<std::uint32_t>(i);
  return refuse(" is none of the classes that the model knows: " + listed_labels(classes));
}

/// Labels of all samples, one or several each.
Status take_idx_labels(const formats::IdxArray& labels, const std::vector<std::size_t>& columns,
                       const std::string& path, const TableOptions& options, const LabelBounds& bounds, Dataset& data) {
  const bool has_own = !bounds.heads.empty();
  const std::vector<std::string> none;
  data.heads.resize(has_own ? columns.size() : 0);
  std::vector<ClassSet> sets(has_own ? columns.size() : 1);
  for (std::size_t set = 0; set < sets.size(); ++set) {
    const auto& own = options.head_classes;
    sets[set].names = !has_own ? options.classes : set < own.size() ? own[set] : none;
    sets[set].count = static_cast<std::uint32_t>(sets[set].names.size());
  }
  for (std::size_t i = 0; i < data.size * columns.size(); ++i) {
    const std::size_t row = i / columns.size(), column = i % columns.size();
    ClassSet& set = sets[has_own ? column : 0];
    WEFT_TRY(data.labels.emplace_back(), idx_label(labels.value(row * labels.width() + columns[column]), row, path,
                                                   set.names, has_own ? bounds.heads[column] : bounds.width));
    if (set.names.empty()) set.count = std::max(set.count, data.labels.back() + 1);
  }
  if (has_own) {
    data.heads = std::move(sets);
  } else {
    data.classes = sets[0].count;
    data.class_names = std::move(sets[0].names);
  }
  return {};
}

/// Values to learn of all samples.
Status take_idx_values(const formats::IdxArray& values, const std::vector<std::size_t>& columns,
                       const std::string& path, Dataset& data) {
  for (std::size_t row = 0; row < data.size; ++row)
    for (const std::size_t column : columns) {
      data.values.push_back(values.value(row * values.width() + column));
      if (!std::isfinite(data.values.back()))
        return fail(Errc::out_of_range, path + ": sample " + std::to_string(row) + ": target " +
                                            std::to_string(column + 1) + " is " + std::to_string(data.values.back()));
    }
  return {};
}

}  // namespace

std::optional<std::string> label_file(const std::string& path) {
  const std::size_t folder = path.rfind('/') == path.npos ? 0 : path.rfind('/') + 1;
  std::string name = path.substr(folder);
  const std::size_t images = name.rfind("images");
  if (images == name.npos) return std::nullopt;
  name.replace(images, 6, "labels");
  if (const std::size_t axes = name.rfind("idx3"); axes != name.npos) name.replace(axes, 4, "idx1");
  return path.substr(0, folder) + name;
}

Result<std::string> read_unpacked(storage::FileSystem& files, const std::string& path, Dataset& data) {
  WEFT_TRY(const ByteBuffer bytes, files.read(path, kMaxSampleBytes));
  data.files.push_back({path, hash_bytes(bytes.data(), bytes.size())});
  if (formats::is_gzip(bytes)) return formats::gunzip(bytes, kMaxSampleBytes, path);
  return std::string(as_text(bytes));
}

Result<Dataset> read_idx_samples(storage::FileSystem& files, ByteSpan bytes, const std::string& path,
                                 const TableOptions& options, const LabelBounds& bounds, Dataset data) {
  if (!options.weight.empty())
    return fail(Errc::unsupported, path + ": weight '" + options.weight + "': an IDX file has no weights of samples");
  WEFT_TRY(const auto samples, formats::IdxArray::open(bytes, path, kMaxSampleValues));
  const auto beside = label_file(path);
  if (!beside)
    return fail(Errc::not_found,
                path +
                    ": an IDX file of samples has \"images\" in its name, where that of its labels has "
                    "\"labels\"");
  auto text = read_unpacked(files, *beside, data);
  if (!text) return fail(text.error().code(), *beside + ": the labels of " + path + ": " + text.error().text());
  WEFT_TRY(const auto labels, formats::IdxArray::open(as_bytes(*text), *beside, kMaxSampleValues));
  const auto named = target_columns(options);
  if (labels.rows() != samples.rows())
    return fail(Errc::shape_mismatch, *beside + ": " + std::to_string(labels.rows()) + " labels of " +
                                          std::to_string(labels.width()) + " values; " + path + " has " +
                                          std::to_string(samples.rows()) + " samples");
  data.size = samples.rows();
  data.features = samples.width();
  data.has_pixels = samples.is_bytes();
  data.inputs.resize(data.size * data.features);
  for (std::size_t i = 0; i < data.inputs.size(); ++i) {
    data.inputs[i] = samples.value(i) * options.scale;
    if (!std::isfinite(data.inputs[i]))
      return fail(Errc::out_of_range, path + ": sample " + std::to_string(i / data.features) + ": value " +
                                          std::to_string(i % data.features) + " is " + std::to_string(data.inputs[i]));
  }
  WEFT_TRY(const auto columns, formats::idx_columns(named, labels.width(), *beside));
  data.targets = columns.size();
  if (labels.width() > 1) data.target_names = named;
  if (options.targets.empty())
    WEFT_CHECK(take_idx_labels(labels, columns, *beside, options, bounds, data));
  else
    WEFT_CHECK(take_idx_values(labels, columns, *beside, data));
  return data;
}

}  // namespace weft::learning
