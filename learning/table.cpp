// SPDX-License-Identifier: Apache-2.0

#include "learning/table.hpp"

#include "formats/jsonl/json_rows.hpp"

#include "core/near_word.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <system_error>
#include <utility>

namespace weft::learning {
namespace {

using formats::CsvNumber;

constexpr std::array<std::string_view, 4> kMissing{"refuse", "drop", "mean", "zero"};
constexpr std::size_t kListed = 12;  // columns that an error text names
constexpr std::size_t kProbed = 64;  // bytes that tell JSON lines from a table

std::string listed_columns(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < kListed; ++i) text += (i ? ", " : "") + names[i];
  return names.size() > kListed ? text + ", ..." : text;
}

}  // namespace

std::string_view name(Missing missing) noexcept { return kMissing[static_cast<std::size_t>(missing)]; }
std::optional<Missing> parse_missing(std::string_view text) noexcept {
  const auto found = std::find(kMissing.begin(), kMissing.end(), text);
  if (found == kMissing.end()) return std::nullopt;
  return static_cast<Missing>(found - kMissing.begin());
}

std::optional<char> parse_separator(std::string_view text) noexcept {
  if (text == "auto") return '\0';
  if (text == "tab" || text == "\t") return '\t';
  if (text == "," || text == ";" || text == "|") return text[0];
  return std::nullopt;
}

std::string separator_name(char separator) {
  if (separator == '\0') return "auto";
  return separator == '\t' ? "tab" : std::string(1, separator);
}

LabelText canonical_label(std::string_view text) {
  LabelText label{std::string(text), std::nullopt};
  std::string_view digits = text;
  if (digits.starts_with('+')) digits.remove_prefix(1);
  const std::size_t point = digits.find('.');
  // "3.0" is what data frames make of 3.
  if (point != digits.npos && point + 1 < digits.size() && digits.find_first_not_of('0', point + 1) == digits.npos)
    digits = digits.substr(0, point);
  std::int64_t whole = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), whole);
  if (error != std::errc() || end != digits.data() + digits.size()) return label;
  label.text = std::to_string(whole);
  label.whole = whole;
  return label;
}

std::vector<std::string> target_columns(const TableOptions& options) {
  if (!options.targets.empty()) return options.targets;
  return options.labels.empty() ? std::vector{options.label} : options.labels;
}

std::optional<RowFormat> parse_row_format(std::string_view text) noexcept {
  if (text == "detect") return RowFormat::detect;
  if (text == "csv") return RowFormat::csv;
  if (text == "jsonl") return RowFormat::jsonl;
  return std::nullopt;
}

Result<std::unique_ptr<formats::RowReader>> open_rows(formats::CsvSource source, const std::string& source_name,
                                                      const TableOptions& options, const RowsExpected& expected) {
  RowFormat format = expected.format;
  if (format == RowFormat::detect) {
    std::string begin;
    // The bytes read to decide are given out again.
    while (begin.size() < kProbed && begin.find_first_not_of(" \t\r\n\xEF\xBB\xBF") == begin.npos) {
      const std::size_t kept = begin.size();
      begin.resize(kept + kProbed);
      auto count = source({begin.data() + kept, kProbed});
      begin.resize(kept + (count ? *count : 0));
      if (!count) return fail(std::move(count).error().within(source_name));
      if (*count == 0) break;
    }
    format = formats::is_json_lines(begin) ? RowFormat::jsonl : RowFormat::csv;
    source = [begin, at = std::size_t{0},
              rest = std::move(source)](std::span<char> buffer) mutable -> Result<std::size_t> {
      if (at == begin.size()) return rest(buffer);
      const std::size_t now = std::min(buffer.size(), begin.size() - at);
      std::copy_n(begin.data() + at, now, buffer.data());
      at += now;
      return now;
    };
  }
  if (format == RowFormat::jsonl) {
    formats::JsonRowsOptions json{.targets = target_columns(options), .skip = options.skip, .weight = options.weight};
    json.features = expected.features;
    json.defers_refusal = expected.arrives;
    if (expected.longest_row) json.max_line = expected.longest_row;
    WEFT_TRY(auto rows, formats::JsonRows::open(std::move(source), source_name, std::move(json)));
    return std::unique_ptr<formats::RowReader>(std::move(rows));
  }
  formats::CsvOptions csv;
  csv.header = options.header;
  csv.separator = options.separator;
  csv.passes_blank = expected.arrives;
  if (expected.longest_row) csv.max_record = expected.longest_row;
  WEFT_TRY(auto table, formats::CsvReader::open(std::move(source), source_name, csv));
  return std::unique_ptr<formats::RowReader>(std::make_unique<formats::CsvReader>(std::move(table)));
}

Result<SampleReader> SampleReader::open(formats::CsvReader table, const TableOptions& options, Label label,
                                        std::size_t features) {
  return open(std::make_unique<formats::CsvReader>(std::move(table)), options, label, features);
}

Result<SampleReader> SampleReader::open(std::unique_ptr<formats::RowReader> table, const TableOptions& options,
                                        Label label, std::size_t features) {
  SampleReader reader(std::move(table), options);
  reader.use_ = label;
  reader.wanted_ = features;
  if (reader.table_->columns() > 0) WEFT_CHECK(reader.begin());
  return reader;
}

/// Once columns are known.
Status SampleReader::begin() {
  WEFT_CHECK(choose_columns());
  if (!options_.fill.empty() && options_.fill.size() != columns_.size())
    return fail(Errc::shape_mismatch, "stream.fill: " + std::to_string(options_.fill.size()) + " values, " +
                                          table_->source_name() + " has " + std::to_string(columns_.size()) +
                                          " values a sample");
  return {};
}

/// `key`: what the column is for, as its option is called.
Result<std::size_t> SampleReader::find_column(std::string_view text, std::string_view key,
                                              const std::vector<bool>& skipped) const {
  const auto& names = table_->names();
  if (const auto found = std::find(names.begin(), names.end(), text); found != names.end())
    return static_cast<std::size_t>(found - names.begin());
  if (text == "first")
    return static_cast<std::size_t>(std::find(skipped.begin(), skipped.end(), false) - skipped.begin());
  if (text == "last") {
    std::size_t last = skipped.size() - 1;
    while (last > 0 && skipped[last]) --last;
    return last;
  }
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_number = end == text.data() + text.size() && error == std::errc();
  if (is_number && number >= 1 && number <= table_->columns()) return number - 1;
  std::string reason = table_->source_name() + ": " + std::string(key) + ": no column '" + std::string(text) + "'";
  if (names.empty() || is_number)
    reason += "; the table has " + std::to_string(table_->columns()) + " columns, numbered from 1" +
              (names.empty() ? ", and no line of names" : "");
  else
    reason += did_you_mean(text, std::vector<std::string_view>(names.begin(), names.end())) + "; there are " +
              listed_columns(names);
  return fail(Errc::unknown_name, std::move(reason));
}

Status SampleReader::choose_columns() {
  const std::size_t features = wanted_;
  const std::size_t count = table_->columns();
  std::vector<bool> skipped(count, false), none(count, false);
  for (const std::string& column : options_.skip) {
    auto found = find_column(column, "skip", none);
    // A table to answer for need not have what is left out anyway.
    if (!found && use_ == Label::optional && !table_->names().empty()) continue;
    if (!found) return fail(std::move(found).error());
    skipped[*found] = true;
  }
  WEFT_CHECK(choose_weight(skipped));
  const auto left = static_cast<std::size_t>(std::count(skipped.begin(), skipped.end(), false));
  needs_label_ = use_ != Label::optional;
  if (needs_label_ || left != features) WEFT_CHECK(choose_targets(skipped));
  for (std::size_t i = 0; i < count; ++i)
    if (!skipped[i] && std::find(targets_.begin(), targets_.end(), i) == targets_.end()) columns_.push_back(i);
  const std::string what = has_values() ? "target" : "label";
  if (columns_.empty())
    return fail(Errc::shape_mismatch,
                table_->source_name() + ": " + std::to_string(count) + (count == 1 ? " column" : " columns") +
                    "; needed are samples with at least one value" + (needs_label_ ? " and a " + what : "") +
                    (count == 1 ? ". Fields are separated by commas, semicolons, tabs or |, and the first line is the "
                                  "heading or a sample"
                                : ""));
  if (features && columns_.size() != features)
    return fail(Errc::shape_mismatch, table_->source_name() + ": " + std::to_string(columns_.size()) +
                                          " values a sample" + (targets_.empty() ? "" : " beside the " + what) +
                                          "; the network takes " + std::to_string(features) +
                                          ". Leave columns out with --skip, or name the " + what + "'s with --" + what);
  values_.resize(columns_.size());
  label_texts_.resize(has_values() ? 0 : targets_.size());
  target_values_.resize(has_values() && needs_label_ ? targets_.size() : 0);
  return {};
}

/// The column is none of the values.
Status SampleReader::choose_weight(std::vector<bool>& skipped) {
  if (options_.weight.empty() || table_->has_lists()) return {};
  auto found = find_column(options_.weight, "weight", skipped);
  // A table to answer for need not have one.
  if (!found && use_ == Label::optional) return {};
  if (!found) return fail(std::move(found).error());
  if (skipped[*found])
    return fail(Errc::invalid_argument, table_->source_name() + ": weight: " + table_->column_name(*found) +
                                            " is one of those left out by skip");
  skipped[*found] = true;
  weight_column_ = *found;
  return {};
}

Status SampleReader::choose_targets(const std::vector<bool>& skipped) {
  const std::string key = has_values() ? "target" : "label";
  for (const std::string& column : target_columns(options_)) {
    auto found = find_column(column, key, skipped);
    if (found && *found < skipped.size() && !skipped[*found]) {
      if (std::find(targets_.begin(), targets_.end(), *found) != targets_.end())
        return fail(Errc::duplicate_name,
                    table_->source_name() + ": " + key + ": " + table_->column_name(*found) + " is named twice");
      targets_.push_back(*found);
    } else if (needs_label_ && found) {
      return fail(Errc::invalid_argument,
                  table_->source_name() + ": " + key + ": " + table_->column_name(*found) +
                      (weight_column_ == *found ? " is that of the weights" : " is one of those left out by skip"));
    } else if (needs_label_) {
      return fail(std::move(found).error());
    }
  }
  return {};
}

std::vector<std::string> SampleReader::feature_names() const {
  std::vector<std::string> names;
  if (table_->names().empty()) return names;
  for (const std::size_t column : columns_) names.push_back(table_->names()[column]);
  return names;
}

std::vector<std::string> SampleReader::target_names() const {
  std::vector<std::string> names;
  if (table_->names().empty()) return names;
  for (const std::size_t column : targets_) names.push_back(table_->names()[column]);
  return names;
}

Result<bool> SampleReader::next() {
  for (;;) {
    WEFT_TRY(const bool has_record, table_->next());
    if (!has_record) return false;
    const formats::RowKind kind = table_->kind();
    if (kind != formats::RowKind::sample && use_ != Label::late)
      return table_->refuse(Errc::unsupported, "no sample, but the target of one: for weft run with --data -");
    if (kind == formats::RowKind::sample && columns_.empty()) {
      Status begun = begin();
      if (!begun) {
        columns_.clear(), targets_.clear();
        return table_->refuse(begun.error().code(), begun.error().text());
      }
    }
    has_target_ = false;
    if (kind == formats::RowKind::forgo) return true;
    WEFT_TRY(const bool is_taken, kind == formats::RowKind::sample ? take_row() : take_targets());
    if (is_taken) return true;
    ++dropped_;
  }
}

/// False: the row is left out.
Result<bool> SampleReader::take_row() {
  const auto fields = table_->fields();
  for (std::size_t j = 0; j < columns_.size(); ++j) {
    const CsvNumber number = csv_number(fields[columns_[j]]);
    values_[j] = number.value * options_.scale;
    if (number.kind == CsvNumber::Kind::number && std::isfinite(values_[j])) continue;
    if (number.kind != CsvNumber::Kind::missing || options_.missing == Missing::refuse)
      return refuse_value(columns_[j], number.kind);
    if (options_.missing == Missing::drop) return false;
    ++missing_;
    if (options_.missing == Missing::zero)
      values_[j] = 0.0f;
    else if (!options_.fill.empty())
      values_[j] = options_.fill[j];
  }
  WEFT_TRY(const bool is_taken, take_targets());
  if (is_taken && use_ != Label::optional) WEFT_CHECK(take_weight());
  return is_taken;
}

Status SampleReader::take_weight() {
  weight_ = 1.0f;
  if (!has_target_ && !table_->weight()) return {};
  if (!has_target_)
    return table_->refuse(Errc::invalid_argument,
                          "'weight': beside no target; it goes with the target, when that comes");
  const std::optional<float> own = table_->weight();  // of a row of lists
  if (own && options_.weight.empty())
    return table_->refuse(Errc::invalid_argument,
                          "'weight': a sample with a weight, and samples have none; give --weight weight");
  if (own) weight_ = *own;
  std::string place = "'weight'", text = std::to_string(weight_);
  if (weight_column_) {
    const formats::CsvField& field = table_->fields()[*weight_column_];
    place = table_->column_name(*weight_column_);
    text = formats::csv_excerpt(field);
    const CsvNumber number = csv_number(field);
    if (number.kind == CsvNumber::Kind::missing) return table_->refuse(Errc::parse_failed, place + ": no weight");
    if (number.kind == CsvNumber::Kind::text)
      return table_->refuse(Errc::parse_failed, place + ": " + text + " is not a number, and samples have weights");
    weight_ = number.kind == CsvNumber::Kind::too_large ? HUGE_VALF : number.value;
  }
  if (weight_ >= 0.0f && std::isfinite(weight_)) return {};
  return table_->refuse(Errc::out_of_range, place + ": " + text + "; weights are finite and not below 0");
}

const formats::CsvField& SampleReader::target_field(std::size_t i) const {
  return table_->fields()[table_->kind() == formats::RowKind::target ? i : targets_[i]];
}

std::string SampleReader::target_name(std::size_t i) const {
  if (table_->kind() == formats::RowKind::target) return "target " + std::to_string(i + 1);
  return table_->column_name(targets_[i]);
}

bool SampleReader::lacks_targets() const {
  for (std::size_t i = 0; i < targets_.size(); ++i)
    if (csv_number(target_field(i)).kind != CsvNumber::Kind::missing) return false;
  return true;
}

/// False: the row is left out.
Result<bool> SampleReader::take_targets() {
  const bool is_target = table_->kind() == formats::RowKind::target;
  has_target_ = is_target && !table_->gradient().empty();
  if (has_target_) return true;
  const std::size_t count = is_target ? table_->fields().size() : targets_.size();
  if (is_target) {
    // Of a sample before the first one here.
    label_texts_.resize(has_values() ? 0 : count);
    target_values_.resize(has_values() ? count : 0);
  }
  for (std::string& text : label_texts_) text.clear();
  if (use_ == Label::late && !is_target && lacks_targets()) return true;
  for (std::size_t i = 0; i < count; ++i) {
    const formats::CsvField& field = target_field(i);
    const CsvNumber number = csv_number(field);
    if (number.kind == CsvNumber::Kind::missing) {
      if (use_ == Label::optional) continue;
      if (options_.missing == Missing::drop && !is_target) return false;
      // A sequence that is shorter than others has places without a label.
      if (!has_values() && count > 1 && options_.missing != Missing::refuse) continue;
      std::string text = target_name(i) + (has_values() ? ": no value" : ": no label");
      if (!is_target) text += "; --missing drop leaves such rows out";
      if (!has_values() && count > 1)
        text += is_target ? "; --missing zero takes the others" : ", zero takes the row's other labels";
      return table_->refuse(Errc::parse_failed, text);
    }
    if (!has_values()) {
      label_texts_[i] = field.text;
    } else if (use_ != Label::optional) {
      if (number.kind != CsvNumber::Kind::number || !std::isfinite(number.value)) return refuse_target(i, number.kind);
      target_values_[i] = number.value;
    }
  }
  has_target_ = true;
  return true;
}

Failure SampleReader::refuse_target(std::size_t i, CsvNumber::Kind kind) const {
  const std::string text = target_name(i) + ": " + csv_excerpt(target_field(i));
  if (kind != CsvNumber::Kind::text) return table_->refuse(Errc::out_of_range, text + " is more than a float can hold");
  return table_->refuse(Errc::parse_failed, text + " is not a number, and the network learns values (learning.loss)");
}

Failure SampleReader::refuse_value(std::size_t column, CsvNumber::Kind kind) const {
  const formats::CsvField& field = table_->fields()[column];
  const std::string place = table_->column_name(column) + ": ";
  if (kind == CsvNumber::Kind::missing)
    return table_->refuse(Errc::parse_failed,
                          place + "no value; --missing drop leaves such rows out, mean or zero fills them");
  if (kind != CsvNumber::Kind::text)
    return table_->refuse(Errc::out_of_range, place + csv_excerpt(field) + " is more than a float can hold");
  return table_->refuse(Errc::parse_failed,
                        place + csv_excerpt(field) + " is not a number; " +
                            (field.text.find(',') != field.text.npos
                                 ? "write decimals with a point"
                                 : "leave the column out with --skip, or name it with --label if it is the class"));
}

}  // namespace weft::learning
