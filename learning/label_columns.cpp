// SPDX-License-Identifier: Apache-2.0

#include "learning/internal/label_columns.hpp"

#include "learning/learner.hpp"
#include "learning/losses.hpp"

#include "formats/csv/csv.hpp"

#include "core/json.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

namespace weft::learning {

std::string listed_labels(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < 12; ++i) text += (i ? ", " : "") + formats::csv_excerpt({names[i]});
  return names.size() > 12 ? text + ", ..." : text;
}

LabelNumbers::LabelNumbers(const std::vector<std::string>& classes, std::uint32_t width, bool may_number)
    : classes_(classes), width_(width), may_number_(may_number) {
  for (std::size_t i = 0; i < classes_.size(); ++i)
    seen_.emplace(canonical_label(classes_[i]).text, static_cast<std::uint32_t>(i));
}

Result<std::uint32_t> LabelNumbers::take(const SampleReader& reader, std::size_t i) {
  LabelText label = canonical_label(reader.label(i));
  if (label.text.empty()) return kNoLabel;
  if (const auto found = seen_.find(label.text); found != seen_.end()) return found->second;
  const auto refuse = [&](const std::string& reason) {
    return reader.table().refuse(Errc::out_of_range, "label " + formats::csv_excerpt({reader.label(i)}) + " " + reason);
  };
  if (!classes_.empty()) return refuse("is none of the classes that the model knows: " + listed_labels(classes_));
  if (!may_number_ && (!label.whole || *label.whole < 0 || *label.whole >= width_))
    return refuse("is no class of the model, which knows them by number, 0 to " + std::to_string(width_ - 1));
  if (distinct_.size() == kMaxLabels)
    return fail(Errc::too_large,
                reader.table().source_name() + ": more than " + std::to_string(kMaxLabels) + " different labels");
  // A name of a class is kept in network files, which are UTF-8.
  if (!write_json(Json(label.text))) return refuse("is not UTF-8; save the table as UTF-8");
  const auto id = static_cast<std::uint32_t>(distinct_.size());
  seen_.emplace(label.text, id);
  distinct_.push_back(std::move(label));
  lines_.push_back(reader.table().line());
  return id;
}

Result<ClassSet> LabelNumbers::finish(std::vector<std::uint32_t>& labels, std::size_t first, std::size_t stride,
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

/// Numbers with decimals are nobody's classes.
Status LabelNumbers::refuse_values(const std::string& source_name) const {
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

LabelColumns::LabelColumns(const TableOptions& options, const LabelBounds& bounds) {
  for (std::size_t i = 0; i < std::max<std::size_t>(bounds.heads.size(), 1); ++i) {
    const bool has_own = !bounds.heads.empty();
    const std::vector<std::string> none;
    const auto& classes = !has_own ? options.classes : i < options.head_classes.size() ? options.head_classes[i] : none;
    sets_.emplace_back(classes, has_own ? bounds.heads[i] : bounds.width, bounds.may_number);
  }
  has_heads_ = !bounds.heads.empty();
}

Status LabelColumns::take(const SampleReader& reader, Dataset& data) {
  for (std::size_t i = 0; i < data.targets; ++i) {
    WEFT_TRY(data.labels.emplace_back(), sets_[has_heads_ ? i : 0].take(reader, i));
  }
  return {};
}

Status LabelColumns::finish(Dataset& data, const std::string& source_name) const {
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

}  // namespace weft::learning
