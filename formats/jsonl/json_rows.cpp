// SPDX-License-Identifier: Apache-2.0

#include "formats/jsonl/json_rows.hpp"

#include "core/near_word.hpp"
#include "core/printable.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace weft::formats {
namespace {

constexpr std::size_t kLineChunk = std::size_t{64} << 10;
constexpr std::size_t kLongestId = 256;
constexpr std::string_view kSpace = " \t\r";
constexpr std::string_view kMark = "\xEF\xBB\xBF";

bool is_bare_name(std::string_view column) {
  return column != "first" && column != "last" && column.find_first_not_of("0123456789") != column.npos;
}

}  // namespace

bool is_json_lines(std::string_view text) noexcept {
  if (text.starts_with(kMark)) text.remove_prefix(kMark.size());
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  return begin != text.npos && text[begin] == '{';
}

JsonRows::JsonRows(CsvSource source, std::string source_name, JsonRowsOptions options)
    : RowReader(std::move(source_name)), source_(std::move(source)), options_(std::move(options)) {
  may_bring_targets_ = true;
}

Result<std::unique_ptr<JsonRows>> JsonRows::open(CsvSource source, std::string source_name, JsonRowsOptions options) {
  std::unique_ptr<JsonRows> rows(new JsonRows(std::move(source), std::move(source_name), std::move(options)));
  // The first sample says which columns there are.
  auto first = rows->next();
  if (first) {
    rows->holds_first_ = *first;
    return rows;
  }
  const Errc code = first.error().code();
  if (!rows->options_.defers_refusal || code == Errc::interrupted || code == Errc::storage || code == Errc::too_large)
    return fail(std::move(first).error());
  rows->first_refusal_ = std::move(first).error();
  return rows;
}

/// A line without its end; nothing at the end of the source.
Result<std::optional<std::string_view>> JsonRows::take_line() {
  for (std::size_t from = begin_;;) {
    const std::size_t end = buffer_.find('\n', from);
    if (end != buffer_.npos || at_end_) {
      is_cut_ = end == buffer_.npos;
      if (is_cut_ && begin_ == buffer_.size()) return std::optional<std::string_view>();
      const std::string_view line(buffer_.data() + begin_, (is_cut_ ? buffer_.size() : end) - begin_);
      begin_ = is_cut_ ? buffer_.size() : end + 1;
      return std::optional(line);
    }
    if (buffer_.size() - begin_ > options_.max_line)
      return refuse(Errc::too_large, "a line of more than " + std::to_string(options_.max_line) + " bytes");
    buffer_.erase(0, std::exchange(begin_, 0));
    from = buffer_.size();
    buffer_.resize(from + std::max(kLineChunk, from));
    auto count = source_({buffer_.data() + from, buffer_.size() - from});
    buffer_.resize(from + (count ? *count : 0));
    if (!count) return fail(std::move(count).error().within(source_name_));
    at_end_ = *count == 0;
  }
}

Result<bool> JsonRows::next() {
  if (std::exchange(holds_first_, false)) return true;
  if (first_refusal_) return fail(*std::exchange(first_refusal_, std::nullopt));
  for (;;) {
    line_ = next_line_;
    WEFT_TRY(auto line, take_line());
    if (!line) return false;
    if (next_line_++ == 1 && line->starts_with(kMark)) line->remove_prefix(kMark.size());
    if (line->find_first_not_of(kSpace) == line->npos) continue;
    auto document = parse_json(*line, "", {.max_bytes = options_.max_line + kLineChunk, .max_depth = 4});
    if (!document) {
      // Its place in the line, which the parser takes for the first.
      std::string_view reason = document.error().text();
      if (reason.starts_with(":1:")) reason.remove_prefix(3);
      return refuse(Errc::parse_failed, "no JSON object on the line" +
                                            std::string(is_cut_ ? ", inside which the data end" : "") + ": column " +
                                            std::string(reason) +
                                            (columns_ ? "" : "; a network file is JSON, and no table of samples"));
    }
    WEFT_CHECK(take(*document));
    is_cut_ = false;  // the object is whole
    return true;
  }
}

Status JsonRows::take(const Json& document) {
  if (!document.is_object())
    return refuse(Errc::parse_failed, "JSON, but no object: expected {\"column\": value, ...}");
  WEFT_CHECK(take_id(document));
  fields_.clear();
  weight_.reset(), gradient_.clear();
  texts_.all.clear(), texts_.ends.clear(), texts_.is_quoted.clear();
  if (const Json* const forgo = document.find("forgo")) {
    if (!forgo->is_bool() || !forgo->get<bool>() || id_.empty() || document.size() != 2)
      return refuse(Errc::parse_failed, "'forgo': expected {\"id\": ..., \"forgo\": true} alone");
    kind_ = RowKind::forgo;
    return {};
  }
  if (!id_.empty() && brings_target(document)) {
    kind_ = RowKind::target;
    return document.contains("gradient") && !is_target("gradient") ? take_gradient(document) : take_target(document);
  }
  kind_ = RowKind::sample;
  if (!columns_) WEFT_CHECK(name_columns(document));
  return take_sample(document);
}

Status JsonRows::take_id(const Json& document) {
  id_.clear();
  const Json* const id = document.find("id");
  if (!id) return {};
  if (!id->is_integer() && !id->is_string())
    return refuse(Errc::parse_failed, "'id': expected a whole number or a text");
  id_ = id->dump();
  if (id_.size() <= kLongestId) return {};
  id_.clear();
  return refuse(Errc::parse_failed, "'id': more than " + std::to_string(kLongestId) + " bytes");
}

bool JsonRows::is_target(std::string_view key) const {
  return std::find(options_.targets.begin(), options_.targets.end(), key) != options_.targets.end();
}
bool JsonRows::is_column(std::string_view key) const {
  return std::find(names_.begin(), names_.end(), key) != names_.end();
}

/// A number, rounded once.
static std::optional<float> float_of(const Json& value) {
  if (!value.is_integer() && !value.is_natural() && !value.is_real()) return std::nullopt;
  return static_cast<float>(value.get<double>());
}

/// No values of a sample beside a target.
bool JsonRows::brings_target(const Json& document) const {
  if (document.size() < 2) return false;
  for (const auto& [key, value] : document.members()) {
    const bool is_own = (key == "y" || key == "weight" || key == "gradient") && (is_list_ || !is_column(key));
    const bool is_weight = !options_.weight.empty() && key == options_.weight;
    if (key != "id" && !is_target(key) && !is_own && !is_weight) return false;
  }
  return true;
}

/// Of the first sample: its keys, and columns of targets, which it may not have yet.
Status JsonRows::name_columns(const Json& document) {
  const auto too_many = [&] {
    names_.clear();
    return refuse(Errc::shape_mismatch, "more than " + std::to_string(options_.max_columns) + " values");
  };
  if (document.size() > options_.max_columns) return too_many();
  if (document.contains("weft") && (document.contains("layers") || document.contains("chain")))
    return refuse(Errc::parse_failed, "is JSON, such as a network file, and no table of samples");
  const Json* const x = document.find("x");
  is_list_ = x && x->is_array();
  if (is_list_) {
    if (x->empty() || x->size() + options_.targets.size() > options_.max_columns) return too_many();
    if (options_.features && x->size() != options_.features)
      return refuse(Errc::shape_mismatch, "'x': " + std::to_string(x->size()) + " values; the network takes " +
                                              std::to_string(options_.features));
    for (std::size_t i = 0; i < x->size(); ++i) names_.push_back("x[" + std::to_string(i) + "]");
    names_.insert(names_.end(), options_.targets.begin(), options_.targets.end());
  } else {
    std::size_t skipped = 0;
    for (const auto* member : document.members_as_set()) {
      const std::string& key = member->first;
      if (key == "id") continue;
      if (key.empty() || key.size() > kLongestId || printable(key, kLongestId * 4) != key) {
        names_.clear();
        return refuse(Errc::parse_failed, in_quotes(key) + " cannot name a column");
      }
      names_.push_back(key);
      skipped += std::find(options_.skip.begin(), options_.skip.end(), key) != options_.skip.end();
    }
    if (is_bare_name(options_.weight) && !options_.weight.empty()) {
      if (!is_column(options_.weight)) names_.push_back(options_.weight);
      ++skipped;  // no value of a sample
    }
    // A target that has no name of its own is the one that the first sample has beyond the network's values.
    const bool is_bare = options_.features && names_.size() - skipped == options_.features;
    for (const std::string& target : options_.targets)
      if (!is_column(target) && (is_bare_name(target) || is_bare)) names_.push_back(target);
  }
  columns_ = names_.size();
  return columns_ ? Status() : refuse(Errc::parse_failed, "an object without values");
}

Status JsonRows::take_sample(const Json& document) {
  const Json* const x = document.find("x");
  if (is_list_) {
    const std::size_t width = columns_ - options_.targets.size();
    if (!x || !x->is_array() || x->size() != width)
      return refuse(Errc::shape_mismatch, "'x': expected a list of " + std::to_string(width) + " values" +
                                              (x && x->is_array() ? ", found " + std::to_string(x->size()) : ""));
    for (const auto& [key, value] : document.members())
      if (key != "x" && key != "id" && key != "y" && key != "weight" && !is_target(key))
        return refuse(Errc::unknown_name, "unknown key " + in_quotes(key) + "; expected x, y, weight and id");
    WEFT_CHECK(take_weight(document));
    for (const Json& value : *x) WEFT_CHECK(add(&value, "x"));
    WEFT_CHECK(add_targets(document));
  } else {
    for (const auto& [key, value] : document.members())
      if (key != "id" && !is_column(key))
        return refuse(Errc::unknown_name,
                      "unknown key " + in_quotes(key) +
                          did_you_mean(key, std::vector<std::string_view>(names_.begin(), names_.end())) +
                          "; columns are those of the first sample");
    for (const std::string& name : names_) WEFT_CHECK(add(document.find(name), name));
  }
  finish_fields();
  return {};
}

/// "weight", of a target or beside a list of values.
Status JsonRows::take_weight(const Json& document) {
  const bool has_column = !is_list_ && !options_.weight.empty();
  const std::string key = has_column ? options_.weight : "weight";
  const Json* const weight = document.find(key);
  if (!weight || is_target(key)) return {};
  const auto number = float_of(*weight);
  if (!number) return refuse(Errc::parse_failed, "'" + key + "': expected a number");
  weight_ = *number;
  return {};
}

/// "gradient": values of the outputs in turn.
Status JsonRows::take_gradient(const Json& document) {
  WEFT_CHECK(take_weight(document));
  const Json& gradient = *document.find("gradient");
  if (document.size() != 2u + weight_.has_value())
    return refuse(Errc::parse_failed, "'gradient': beside it a target; give one of them");
  if (!gradient.is_array() || gradient.empty())
    return refuse(Errc::parse_failed, "'gradient': expected a list of numbers");
  for (const Json& value : gradient) {
    const auto number = float_of(value);
    if (!number) return refuse(Errc::parse_failed, "'gradient': expected a list of numbers");
    gradient_.push_back(*number);
  }
  return {};
}

Status JsonRows::take_target(const Json& document) {
  WEFT_CHECK(take_weight(document));
  WEFT_CHECK(add_targets(document));
  finish_fields();
  return {};
}

/// "y", or each target by its name.
Status JsonRows::add_targets(const Json& document) {
  const std::size_t count = options_.targets.size();
  const Json* const y = document.find("y");
  if (y && (y->is_array() || !is_target("y"))) {
    if (!y->is_array() && count == 1) return add(y, "y");
    if (!y->is_array() || y->size() != count)
      return refuse(Errc::shape_mismatch, "'y': expected a list of " + std::to_string(count) + " values");
    for (const Json& value : *y) WEFT_CHECK(add(&value, "y"));
    return {};
  }
  for (const std::string& target : options_.targets) WEFT_CHECK(add(document.find(target), target));
  return {};
}

Status JsonRows::add(const Json* value, std::string_view key) {
  std::array<char, 32> number;
  const auto put = [&](auto n) {
    const auto end = std::to_chars(number.data(), number.data() + number.size(), n).ptr;
    texts_.all.append(number.data(), end);
  };
  if (!value || value->is_null()) {
    // Missing, as an empty field is.
  } else if (value->is_string()) {
    texts_.all += value->text();
  } else if (value->is_natural()) {
    put(value->get<std::uint64_t>());
  } else if (value->is_integer()) {
    put(value->get<std::int64_t>());
  } else if (value->is_real()) {
    put(value->get<double>());
  } else if (value->is_bool()) {
    texts_.all += value->get<bool>() ? "true" : "false";
  } else {
    return refuse(Errc::parse_failed, in_quotes(key) + ": expected a number or a text");
  }
  texts_.ends.push_back(texts_.all.size());
  texts_.is_quoted.push_back(value && value->is_string());
  return {};
}

void JsonRows::finish_fields() {
  std::size_t begin = 0;
  for (std::size_t i = 0; i < texts_.ends.size(); ++i) {
    fields_.push_back({std::string_view(texts_.all).substr(begin, texts_.ends[i] - begin), texts_.is_quoted[i]});
    begin = texts_.ends[i];
  }
}

}  // namespace weft::formats
