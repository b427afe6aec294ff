// SPDX-License-Identifier: Apache-2.0

#include "learning/dataset.hpp"

#include "learning/internal/shuffle.hpp"
#include "learning/learner.hpp"
#include "learning/losses.hpp"

#include "formats/csv/gzip.hpp"
#include "formats/idx/idx.hpp"

#include "core/json.hpp"
#include "core/philox.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <unordered_map>
#include <utility>

namespace weft::learning {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{1} << 30;
constexpr std::size_t kMaxValues = std::size_t{1} << 28;
constexpr std::size_t kMaxClasses = 65536;
// A place no grid reaches, so that it shares no random numbers with weights.
constexpr std::uint64_t kSplitPlace = std::uint64_t{1} << 35;

std::string listed_labels(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < 12; ++i) text += (i ? ", " : "") + formats::csv_excerpt({names[i]});
  return names.size() > 12 ? text + ", ..." : text;
}

/// Distinct labels of one or several columns in the order in which they come, and then what each of them is as a class.
class Labels {
 public:
  Labels(const std::vector<std::string>& classes, std::uint32_t width, bool may_number)
      : classes_(classes), width_(width), may_number_(may_number) {
    for (std::size_t i = 0; i < classes_.size(); ++i)
      seen_.emplace(canonical_label(classes_[i]).text, static_cast<std::uint32_t>(i));
  }

  /// Label `i` of the row that `reader` stands at.
  Result<std::uint32_t> take(const SampleReader& reader, std::size_t i) {
    LabelText label = canonical_label(reader.label(i));
    if (label.text.empty()) return kNoLabel;
    if (const auto found = seen_.find(label.text); found != seen_.end()) return found->second;
    const auto refuse = [&](const std::string& reason) {
      return reader.table().refuse(Errc::out_of_range,
                                   "label " + formats::csv_excerpt({reader.label(i)}) + " " + reason);
    };
    if (!classes_.empty()) return refuse("is none of the classes that the model knows: " + listed_labels(classes_));
    if (!may_number_ && (!label.whole || *label.whole < 0 || *label.whole >= width_))
      return refuse("is no class of the model, which knows them by number, 0 to " + std::to_string(width_ - 1));
    if (distinct_.size() == kMaxClasses)
      return fail(Errc::too_large,
                  reader.table().source_name() + ": more than " + std::to_string(kMaxClasses) + " different labels");
    // A name of a class is kept in network files, which are UTF-8.
    if (!write_json(Json(label.text))) return refuse("is not UTF-8; save the table as UTF-8");
    const auto id = static_cast<std::uint32_t>(distinct_.size());
    seen_.emplace(label.text, id);
    distinct_.push_back(std::move(label));
    lines_.push_back(reader.table().line());
    return id;
  }

  /// Makes classes of what `take` gave out: label number `first` and each `stride`th after it.
  Result<ClassSet> finish(std::vector<std::uint32_t>& labels, std::size_t first, std::size_t stride,
                          const std::string& source_name) const {
    if (!classes_.empty()) return ClassSet{static_cast<std::uint32_t>(classes_.size()), classes_};
    ClassSet made;
    if (distinct_.empty()) return fail(Errc::parse_failed, source_name + ": no row has a label");
    std::vector<std::uint32_t> order(distinct_.size()), number(distinct_.size());
    std::iota(order.begin(), order.end(), 0u);
    const auto is_whole = [](const LabelText& label) { return label.whole.has_value(); };
    const bool all_whole = std::all_of(distinct_.begin(), distinct_.end(), is_whole);
    std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
      return all_whole ? *distinct_[a].whole < *distinct_[b].whole : distinct_[a].text < distinct_[b].text;
    });
    const std::int64_t largest = all_whole ? *distinct_[order.back()].whole : -1;
    if (all_whole && *distinct_[order.front()].whole >= 0 && largest < width_) {
      for (std::size_t i = 0; i < number.size(); ++i) number[i] = static_cast<std::uint32_t>(*distinct_[i].whole);
      made.count = static_cast<std::uint32_t>(largest) + 1;
    } else {
      if (!all_whole) WEFT_CHECK(refuse_values(source_name));
      for (const std::uint32_t id : order) {
        number[id] = static_cast<std::uint32_t>(made.names.size());
        made.names.push_back(distinct_[id].text);
      }
      made.count = static_cast<std::uint32_t>(order.size());
      if (made.count > width_)
        return fail(Errc::shape_mismatch, source_name + ": " + std::to_string(made.count) + " classes (" +
                                              listed_labels(made.names) + "); the network's output has " +
                                              std::to_string(width_) + " values");
    }
    for (std::size_t i = first; i < labels.size(); i += stride)
      if (labels[i] != kNoLabel) labels[i] = number[labels[i]];
    return made;
  }

 private:
  /// Numbers with decimals are nobody's classes.
  Status refuse_values(const std::string& source_name) const {
    const auto is_number = [](const LabelText& label) {
      return formats::csv_number({label.text, false}).kind == formats::CsvNumber::Kind::number;
    };
    if (!std::all_of(distinct_.begin(), distinct_.end(), is_number)) return {};
    const auto found = std::find_if(distinct_.begin(), distinct_.end(), [](const auto& l) { return !l.whole; });
    const std::size_t line = lines_[static_cast<std::size_t>(found - distinct_.begin())];
    return fail(Errc::unsupported, source_name + ":" + std::to_string(line) + ": labels such as " + found->text +
                                       " are values, not classes. Name the column of the class with --label, or learn "
                                       "values: weft new --target, learning.loss " +
                                       std::string(name(kernels::default_loss(LossTargets::values))));
  }

  std::vector<std::string> classes_;
  std::uint32_t width_;
  bool may_number_;
  std::unordered_map<std::string, std::uint32_t> seen_;
  std::vector<LabelText> distinct_;
  std::vector<std::size_t> lines_;  // of the first row with each
};

/// The labels of all columns of a table.
class LabelColumns {
 public:
  LabelColumns(const TableOptions& options, const LabelBounds& bounds) {
    for (std::size_t i = 0; i < std::max<std::size_t>(bounds.heads.size(), 1); ++i) {
      const bool has_own = !bounds.heads.empty();
      const std::vector<std::string> none;
      const auto& classes = !has_own                          ? options.classes
                            : i < options.head_classes.size() ? options.head_classes[i]
                                                              : none;
      sets_.emplace_back(classes, has_own ? bounds.heads[i] : bounds.width, bounds.may_number);
    }
    has_heads_ = !bounds.heads.empty();
  }
  Status take(const SampleReader& reader, Dataset& data) {
    for (std::size_t i = 0; i < data.targets; ++i) {
      WEFT_TRY(data.labels.emplace_back(), sets_[has_heads_ ? i : 0].take(reader, i));
    }
    return {};
  }
  Status finish(Dataset& data, const std::string& source_name) const {
    for (std::size_t i = 0; i < sets_.size(); ++i) {
      WEFT_TRY(ClassSet made, sets_[i].finish(data.labels, i, sets_.size(), source_name));
      if (has_heads_) {
        data.heads.push_back(std::move(made));
      } else {
        data.classes = made.count;
        data.class_names = std::move(made.names);
      }
    }
    return {};
  }

 private:
  std::vector<Labels> sets_;
  bool has_heads_ = false;
};

/// Rows of each class that are held out.
std::vector<std::size_t> class_shares(const Dataset& data, std::size_t rows, double held_out, std::size_t total) {
  const std::size_t classes = data.classes_of(0).count;
  std::vector<std::size_t> sizes(classes, 0), shares(classes, 0);
  for (std::size_t i = 0; i < rows; ++i) ++sizes[data.labels[i]];
  std::vector<std::pair<double, std::uint32_t>> remainders;
  std::size_t given = 0;
  for (std::uint32_t c = 0; c < classes; ++c) {
    const double wanted = held_out * static_cast<double>(sizes[c]);
    shares[c] = static_cast<std::size_t>(wanted);
    given += shares[c];
    // The last row of a class is learned from.
    if (shares[c] + 1 < sizes[c]) remainders.emplace_back(static_cast<double>(shares[c]) - wanted, c);
  }
  std::sort(remainders.begin(), remainders.end());
  for (const auto& [remainder, c] : remainders) {
    if (given >= total) break;
    ++shares[c];
    ++given;
  }
  return shares;
}

Result<std::string> read_unpacked(storage::FileSystem& files, const std::string& path) {
  WEFT_TRY(const ByteBuffer bytes, files.read(path, kMaxBytes));
  if (formats::is_gzip(bytes)) return formats::gunzip(bytes, kMaxBytes, path);
  return std::string(as_text(bytes));
}

/// The label of a sample as the model knows it.
Result<std::uint32_t> idx_label(float value, std::size_t row, const std::string& path, const TableOptions& options,
                                const LabelBounds& bounds) {
  const auto refuse = [&](const std::string& reason) {
    return fail(Errc::out_of_range, path + ": label " + std::to_string(row) + ": " + std::to_string(value) + reason);
  };
  if (!(value >= 0 && value < static_cast<float>(kMaxClasses)) || value != std::floor(value))
    return refuse(" is no class: a whole number from 0");
  const auto label = static_cast<std::uint32_t>(value);
  if (options.classes.empty()) {
    if (label >= bounds.width) return refuse("; the network's output has " + std::to_string(bounds.width) + " values");
    return label;
  }
  const std::string text = std::to_string(label);
  for (std::size_t i = 0; i < options.classes.size(); ++i)
    if (canonical_label(options.classes[i]).text == text) return static_cast<std::uint32_t>(i);
  return refuse(" is none of the classes that the model knows: " + listed_labels(options.classes));
}

/// Samples of an IDX file, and their labels in the file beside it.
Result<Dataset> read_idx(storage::FileSystem& files, ByteSpan bytes, const std::string& path,
                         const TableOptions& options, const LabelBounds& bounds) {
  if (!options.targets.empty() || !options.labels.empty())
    return fail(Errc::unsupported, path + ": an IDX file has one class a sample, and neither columns nor targets");
  WEFT_TRY(const auto samples, formats::IdxArray::open(bytes, path, kMaxValues));
  const auto beside = label_file(path);
  if (!beside)
    return fail(Errc::not_found,
                path +
                    ": an IDX file of samples has \"images\" in its name, where that of its labels has "
                    "\"labels\"");
  auto text = read_unpacked(files, *beside);
  if (!text) return fail(text.error().code(), *beside + ": the labels of " + path + ": " + text.error().text());
  WEFT_TRY(const auto labels, formats::IdxArray::open(as_bytes(*text), *beside, kMaxValues));
  if (labels.width() != 1 || labels.rows() != samples.rows())
    return fail(Errc::shape_mismatch, *beside + ": " + std::to_string(labels.rows()) + " labels of " +
                                          std::to_string(labels.width()) + " values; " + path + " has " +
                                          std::to_string(samples.rows()) + " samples");
  Dataset data;
  data.size = samples.rows();
  data.features = samples.width();
  data.has_pixels = samples.is_bytes();
  data.inputs.resize(data.size * data.features);
  for (std::size_t i = 0; i < data.inputs.size(); ++i) {
    data.inputs[i] = samples.value(i) * options.scale;
    if (!std::isfinite(data.inputs[i]))
      return fail(Errc::not_finite, path + ": sample " + std::to_string(i / data.features) + ": value " +
                                        std::to_string(i % data.features) + " is " + std::to_string(data.inputs[i]));
  }
  data.labels.reserve(data.size);
  for (std::size_t i = 0; i < data.size; ++i) {
    WEFT_TRY(data.labels.emplace_back(), idx_label(labels.value(i), i, *beside, options, bounds));
    data.classes = std::max(data.classes, data.labels.back() + 1);
  }
  data.class_names = options.classes;
  if (!options.classes.empty()) data.classes = static_cast<std::uint32_t>(options.classes.size());
  return data;
}

}  // namespace

Result<LabelBounds> label_bounds(const mesh::Node& output, const LearningOptions& learning, TableOptions& options) {
  LabelBounds bounds;
  const std::string loss(name(learning.loss));
  const LossTargets kind = targets_of(learning.loss);
  if (kind == LossTargets::values && options.targets.empty()) options.targets = target_columns(options);
  if (kind != LossTargets::values && !options.targets.empty())
    return fail(Errc::unsupported, "stream.targets: values, and learning.loss " + loss + " learns classes; give " +
                                       loss_words(LossTargets::values));
  const std::size_t columns = target_columns(options).size();
  const std::size_t places = output.width / std::max<std::size_t>(output.shape.back(), 1);
  const std::size_t wanted = kind == LossTargets::values        ? output.width
                             : kind == LossTargets::head_labels ? learning.heads.size()
                                                                : places;
  if (columns != wanted)
    return fail(Errc::shape_mismatch,
                std::string(kind == LossTargets::values ? "stream.targets: " : "stream.labels: ") +
                    std::to_string(columns) + (columns == 1 ? " column" : " columns") + "; output '" + output.object +
                    "' takes " + std::to_string(wanted) + " under learning.loss " + loss +
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
  bounds.heads = kind == LossTargets::head_labels ? learning.heads : std::vector<std::uint32_t>();
  const std::size_t width = kind == LossTargets::labels ? output.shape.back() : output.width;
  bounds.width = static_cast<std::uint32_t>(std::min<std::size_t>(width, bounds.width));
  return bounds;
}

Result<Dataset> read_dataset(storage::FileSystem& files, const std::string& path, const TableOptions& options,
                             const LabelBounds& bounds) {
  WEFT_TRY(const std::string text, read_unpacked(files, path));
  if (formats::is_idx(as_bytes(text))) return read_idx(files, as_bytes(text), path, options, bounds);
  std::string_view rest = text;
  const auto source = [&rest](std::span<char> buffer) -> Result<std::size_t> {
    const std::size_t now = std::min(buffer.size(), rest.size());
    std::copy_n(rest.data(), now, buffer.data());
    rest.remove_prefix(now);
    return now;
  };
  WEFT_TRY(auto table, open_rows(source, path, options));
  WEFT_TRY(SampleReader reader, SampleReader::open(std::move(table), options, SampleReader::Label::required));
  Dataset data;
  data.features = reader.features();
  data.names = reader.feature_names();
  data.targets = reader.target_count();
  data.target_names = reader.target_names();
  const bool has_values = !options.targets.empty();
  LabelColumns labels(options, bounds);
  for (;;) {
    WEFT_TRY(const bool has_sample, reader.next());
    if (!has_sample) break;
    if (data.inputs.size() + data.features + data.values.size() + data.labels.size() > kMaxValues)
      return reader.table().refuse(Errc::too_large, "more than " + std::to_string(kMaxValues) + " values");
    data.inputs.insert(data.inputs.end(), reader.values().begin(), reader.values().end());
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

std::optional<std::string> label_file(const std::string& path) {
  const std::size_t folder = path.rfind('/') == path.npos ? 0 : path.rfind('/') + 1;
  std::string name = path.substr(folder);
  const std::size_t images = name.rfind("images");
  if (images == name.npos) return std::nullopt;
  name.replace(images, 6, "labels");
  if (const std::size_t axes = name.rfind("idx3"); axes != name.npos) name.replace(axes, 4, "idx1");
  return path.substr(0, folder) + name;
}

Status append_part(Dataset& data, Dataset part, Part which, const std::string& path) {
  const auto refuse = [&](const std::string& what, std::size_t found, std::size_t wanted) {
    return fail(Errc::shape_mismatch, path + ": " + std::to_string(found) + " " + what +
                                          "; the samples to learn from have " + std::to_string(wanted));
  };
  if (part.features != data.features) return refuse("values a sample", part.features, data.features);
  if (part.targets != data.targets || part.has_values() != data.has_values())
    return refuse("labels or targets a sample", part.targets, data.targets);
  if (part.heads.size() != data.heads.size()) return refuse("heads", part.heads.size(), data.heads.size());
  data.inputs.insert(data.inputs.end(), part.inputs.begin(), part.inputs.end());
  data.labels.insert(data.labels.end(), part.labels.begin(), part.labels.end());
  data.values.insert(data.values.end(), part.values.begin(), part.values.end());
  data.classes = std::max(data.classes, part.classes);
  for (std::size_t i = 0; i < data.heads.size(); ++i)
    data.heads[i].count = std::max(data.heads[i].count, part.heads[i].count);
  (which == Part::test ? data.tested : data.validated) = part.size;
  data.size += part.size;
  data.dropped += part.dropped;
  data.missing += part.missing;
  return {};
}

Split split_rows(const Dataset& data, double held_out, bool is_stratified, std::uint64_t seed) {
  Split split;
  const auto own = static_cast<std::uint32_t>(data.size - data.validated - data.tested);
  const auto tested = static_cast<std::uint32_t>(data.size - data.tested);
  for (std::uint32_t row = own; row < tested; ++row) split.validation.push_back(row);
  for (std::uint32_t row = tested; row < data.size; ++row) split.held_out.push_back(row);
  std::vector<std::uint32_t> rows(own);
  std::iota(rows.begin(), rows.end(), 0u);
  shuffle(rows, RandomStream(seed, kSplitPlace, RandomPurpose::shuffle));
  if (data.tested > 0) {
    split.train = std::move(rows);
    return split;
  }
  const auto total = static_cast<std::size_t>(std::llround(held_out * static_cast<double>(own)));
  if (!is_stratified || data.targets != 1 || data.has_values()) {
    split.held_out.assign(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(total));
    split.train.assign(rows.begin() + static_cast<std::ptrdiff_t>(total), rows.end());
    return split;
  }
  std::vector<std::size_t> shares = class_shares(data, own, held_out, total);
  for (const std::uint32_t row : rows) {
    std::size_t& share = shares[data.labels[row]];
    (share > 0 ? split.held_out : split.train).push_back(row);
    if (share > 0) --share;
  }
  return split;
}

/// Of columns [size][columns], whose value j of row i `at` gives.
template <class At>
static ColumnStatistics statistics_of(std::size_t columns, std::span<const std::uint32_t> rows, At&& at) {
  std::vector<std::uint32_t> ascending(rows.begin(), rows.end());
  std::sort(ascending.begin(), ascending.end());
  ColumnStatistics s;
  s.count.assign(columns, 0);
  s.mean.assign(columns, 0.0);
  s.deviation.assign(columns, 0.0);
  const auto each = [&](auto&& take) {
    for (const std::uint32_t row : ascending)
      for (std::size_t j = 0; j < columns; ++j)
        if (const float value = at(row, j); !std::isnan(value)) take(j, static_cast<double>(value));
  };
  each([&](std::size_t j, double value) {
    s.mean[j] += value;
    ++s.count[j];
  });
  for (std::size_t j = 0; j < columns; ++j)
    if (s.count[j]) s.mean[j] /= static_cast<double>(s.count[j]);
  each([&](std::size_t j, double value) {
    const double distance = value - s.mean[j];
    const double square = distance * distance;
    s.deviation[j] += square;
  });
  for (std::size_t j = 0; j < columns; ++j)
    if (s.count[j]) s.deviation[j] = std::sqrt(s.deviation[j] / static_cast<double>(s.count[j]));
  return s;
}

ColumnStatistics column_statistics(const Dataset& data, std::span<const std::uint32_t> rows) {
  return statistics_of(data.features, rows, [&](std::uint32_t row, std::size_t j) { return data.row(row)[j]; });
}

ColumnStatistics target_statistics(const Dataset& data, std::span<const std::uint32_t> rows) {
  return statistics_of(data.targets, rows,
                       [&](std::uint32_t row, std::size_t j) { return data.values[row * data.targets + j]; });
}

Status fill_missing(Dataset& data, std::span<const std::uint32_t> train, std::vector<float>& fill) {
  const bool is_whole = std::none_of(data.inputs.begin(), data.inputs.end(), [](float v) { return std::isnan(v); });
  if (is_whole) return {};
  if (fill.empty()) {
    const ColumnStatistics statistics = column_statistics(data, train);
    for (std::size_t j = 0; j < data.features; ++j) {
      if (statistics.count[j] == 0)
        return fail(Errc::invalid_argument,
                    "value " + std::to_string(j + 1) + (j < data.names.size() ? " '" + data.names[j] + "'" : "") +
                        ": missing in every row that is learned from, so there is no mean to fill it with; leave the "
                        "column out with --skip");
      fill.push_back(static_cast<float>(statistics.mean[j]));
    }
  }
  for (std::size_t i = 0; i < data.inputs.size(); ++i)
    if (std::isnan(data.inputs[i])) data.inputs[i] = fill[i % data.features];
  return {};
}

}  // namespace weft::learning
