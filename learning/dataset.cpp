// SPDX-License-Identifier: Apache-2.0

#include "learning/dataset.hpp"

#include "learning/internal/shuffle.hpp"

#include "formats/csv/gzip.hpp"

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

/// Distinct labels in the order in which they come, and then what each of them is as a class.
class Labels {
 public:
  Labels(const TableOptions& options, const LabelBounds& bounds) : bounds_(bounds), classes_(options.classes) {
    for (std::size_t i = 0; i < classes_.size(); ++i)
      seen_.emplace(canonical_label(classes_[i]).text, static_cast<std::uint32_t>(i));
  }

  /// The label of the row that `reader` stands at.
  Result<std::uint32_t> take(const SampleReader& reader) {
    LabelText label = canonical_label(reader.label());
    if (const auto found = seen_.find(label.text); found != seen_.end()) return found->second;
    if (!classes_.empty())
      return refuse(reader, "is none of the classes that the model knows: " + listed_labels(classes_));
    if (!bounds_.may_number && (!label.whole || *label.whole < 0 || *label.whole >= bounds_.width))
      return refuse(reader,
                    "is no class of the model, which knows them by number, 0 to " + std::to_string(bounds_.width - 1));
    if (distinct_.size() == kMaxClasses)
      return fail(Errc::too_large,
                  reader.table().source_name() + ": more than " + std::to_string(kMaxClasses) + " different labels");
    // A name of a class is kept in network files, which are UTF-8.
    if (!write_json(Json(label.text))) return refuse(reader, "is not UTF-8; save the table as UTF-8");
    const auto id = static_cast<std::uint32_t>(distinct_.size());
    seen_.emplace(label.text, id);
    distinct_.push_back(std::move(label));
    lines_.push_back(reader.table().line());
    return id;
  }

  /// Makes classes of what `take` gave out.
  Status finish(Dataset& data, const std::string& source_name) {
    if (!classes_.empty()) {
      data.class_names = classes_;
      data.classes = static_cast<std::uint32_t>(classes_.size());
      return {};
    }
    std::vector<std::uint32_t> order(distinct_.size()), number(distinct_.size());
    std::iota(order.begin(), order.end(), 0u);
    const auto is_whole = [](const LabelText& label) { return label.whole.has_value(); };
    const bool all_whole = std::all_of(distinct_.begin(), distinct_.end(), is_whole);
    std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
      return all_whole ? *distinct_[a].whole < *distinct_[b].whole : distinct_[a].text < distinct_[b].text;
    });
    const std::int64_t largest = all_whole ? *distinct_[order.back()].whole : -1;
    if (all_whole && *distinct_[order.front()].whole >= 0 && largest < bounds_.width) {
      for (std::size_t i = 0; i < number.size(); ++i) number[i] = static_cast<std::uint32_t>(*distinct_[i].whole);
      data.classes = static_cast<std::uint32_t>(largest) + 1;
    } else {
      if (!all_whole) WEFT_CHECK(refuse_values(source_name));
      for (const std::uint32_t id : order) {
        number[id] = static_cast<std::uint32_t>(data.class_names.size());
        data.class_names.push_back(distinct_[id].text);
      }
      data.classes = static_cast<std::uint32_t>(order.size());
      if (data.classes > bounds_.width)
        return fail(Errc::shape_mismatch, source_name + ": " + std::to_string(data.classes) + " classes (" +
                                              listed_labels(data.class_names) + "); the network's output has " +
                                              std::to_string(bounds_.width) + " values");
    }
    for (std::uint32_t& label : data.labels) label = number[label];
    return {};
  }

 private:
  static Failure refuse(const SampleReader& reader, const std::string& reason) {
    return reader.table().refuse(Errc::out_of_range, "label " + formats::csv_excerpt({reader.label()}) + " " + reason);
  }

  /// Numbers with decimals are nobody's classes.
  Status refuse_values(const std::string& source_name) const {
    const auto is_number = [](const LabelText& label) {
      return formats::csv_number({label.text, false}).kind == formats::CsvNumber::Kind::number;
    };
    if (!std::all_of(distinct_.begin(), distinct_.end(), is_number)) return {};
    const auto found = std::find_if(distinct_.begin(), distinct_.end(), [](const auto& l) { return !l.whole; });
    const std::size_t line = lines_[static_cast<std::size_t>(found - distinct_.begin())];
    return fail(Errc::unsupported, source_name + ":" + std::to_string(line) + ": labels such as " + found->text +
                                       " are values, not classes; a stream learns classes. Name the column of the "
                                       "class with --label");
  }

  LabelBounds bounds_;
  const std::vector<std::string>& classes_;
  std::unordered_map<std::string, std::uint32_t> seen_;
  std::vector<LabelText> distinct_;
  std::vector<std::size_t> lines_;  // of the first row with each
};

/// Rows of each class that are held out.
std::vector<std::size_t> class_shares(const Dataset& data, double held_out, std::size_t total) {
  std::vector<std::size_t> sizes(data.classes, 0), shares(data.classes, 0);
  for (const std::uint32_t label : data.labels) ++sizes[label];
  std::vector<std::pair<double, std::uint32_t>> remainders;
  std::size_t given = 0;
  for (std::uint32_t c = 0; c < data.classes; ++c) {
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

}  // namespace

Result<Dataset> read_dataset(storage::FileSystem& files, const std::string& path, const TableOptions& options,
                             const LabelBounds& bounds) {
  WEFT_TRY(const ByteBuffer bytes, files.read(path, kMaxBytes));
  std::string unpacked;
  std::string_view text = as_text(bytes);
  if (formats::is_gzip(bytes)) {
    WEFT_TRY(unpacked, formats::gunzip(bytes, kMaxBytes, path));
    text = unpacked;
  }
  formats::CsvOptions csv;
  csv.header = options.header;
  csv.separator = options.separator;
  WEFT_TRY(auto table, formats::CsvReader::open(text, path, csv));
  WEFT_TRY(SampleReader reader, SampleReader::open(std::move(table), options, SampleReader::Label::required));
  Dataset data;
  data.features = reader.features();
  data.names = reader.feature_names();
  Labels labels(options, bounds);
  for (;;) {
    WEFT_TRY(const bool has_sample, reader.next());
    if (!has_sample) break;
    if (data.inputs.size() + data.features > kMaxValues)
      return reader.table().refuse(Errc::too_large, "more than " + std::to_string(kMaxValues) + " values");
    data.inputs.insert(data.inputs.end(), reader.values().begin(), reader.values().end());
    WEFT_TRY(data.labels.emplace_back(), labels.take(reader));
    ++data.size;
  }
  data.dropped = reader.dropped();
  data.missing = reader.missing();
  if (data.size == 0)
    return fail(Errc::parse_failed,
                path + ": no rows" + (data.dropped ? " left; " + std::to_string(data.dropped) + " were dropped" : ""));
  WEFT_CHECK(labels.finish(data, path));
  return data;
}

Split split_rows(const Dataset& data, double held_out, bool is_stratified, std::uint64_t seed) {
  std::vector<std::uint32_t> rows(data.size);
  std::iota(rows.begin(), rows.end(), 0u);
  shuffle(rows, RandomStream(seed, kSplitPlace, RandomPurpose::shuffle));
  const auto total = static_cast<std::size_t>(std::llround(held_out * static_cast<double>(data.size)));
  Split split;
  if (!is_stratified) {
    split.held_out.assign(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(total));
    split.train.assign(rows.begin() + static_cast<std::ptrdiff_t>(total), rows.end());
    return split;
  }
  std::vector<std::size_t> shares = class_shares(data, held_out, total);
  for (const std::uint32_t row : rows) {
    std::size_t& share = shares[data.labels[row]];
    (share > 0 ? split.held_out : split.train).push_back(row);
    if (share > 0) --share;
  }
  return split;
}

ColumnStatistics column_statistics(const Dataset& data, std::span<const std::uint32_t> rows) {
  std::vector<std::uint32_t> ascending(rows.begin(), rows.end());
  std::sort(ascending.begin(), ascending.end());
  ColumnStatistics s;
  s.count.assign(data.features, 0);
  s.mean.assign(data.features, 0.0);
  s.deviation.assign(data.features, 0.0);
  const auto each = [&](auto&& take) {
    for (const std::uint32_t row : ascending)
      for (std::size_t j = 0; j < data.features; ++j)
        if (const float value = data.row(row)[j]; !std::isnan(value)) take(j, static_cast<double>(value));
  };
  each([&](std::size_t j, double value) {
    s.mean[j] += value;
    ++s.count[j];
  });
  for (std::size_t j = 0; j < data.features; ++j)
    if (s.count[j]) s.mean[j] /= static_cast<double>(s.count[j]);
  each([&](std::size_t j, double value) {
    const double distance = value - s.mean[j];
    const double square = distance * distance;
    s.deviation[j] += square;
  });
  for (std::size_t j = 0; j < data.features; ++j)
    if (s.count[j]) s.deviation[j] = std::sqrt(s.deviation[j] / static_cast<double>(s.count[j]));
  return s;
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
