// SPDX-License-Identifier: Apache-2.0

#include "formats/csv/csv.hpp"

#include "formats/csv/gzip.hpp"
#include "storage/file_system.hpp"

#include "core/printable.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <system_error>
#include <unordered_set>

namespace weft::formats {
namespace {

/// For a number that is not zero and that no float holds: whether it is too small rather than too large.
bool is_below_one(std::string_view field) {
  const std::size_t mark = std::min(field.find_first_of("eE"), field.size());
  const std::string_view digits = field.substr(0, mark);
  const auto point = static_cast<std::int64_t>(std::min(digits.find('.'), digits.size()));
  const auto first = static_cast<std::int64_t>(digits.find_first_of("123456789"));
  std::int64_t exponent = 0;
  if (mark != field.size()) {
    const std::string_view text = field.substr(mark + 1);
    const bool has_plus = text.substr(0, 1) == "+";
    const auto parsed = std::from_chars(text.data() + has_plus, text.data() + text.size(), exponent);
    if (parsed.ec == std::errc::result_out_of_range) return text[0] == '-';
  }
  // first stands 10^(point - first - 1) when before the point, 10^(point - first) when behind it.
  const std::int64_t place = first < point ? point - first - 1 : point - first;
  return exponent < -place;
}

/// A field's number (infinite when no float holds it), or nothing when it is not one.
std::optional<float> parse_number(std::string_view field) {
  // from_chars also takes "inf" and "nan"; a table of numbers has neither.
  if (field.find_first_not_of("0123456789+-.eE") != field.npos) return std::nullopt;
  float number = 0;
  const char* last = field.data() + field.size();
  const auto [end, error] = std::from_chars(field.data(), last, number);
  if (end != last || error == std::errc::invalid_argument) return std::nullopt;
  if (error == std::errc()) return number;
  // Out of range does not say which way; what is too small for a subnormal is nearest to zero.
  if (!is_below_one(field)) return std::numeric_limits<float>::infinity();
  return field[0] == '-' ? -0.0f : 0.0f;
}

class CsvParser {
 public:
  CsvParser(std::string_view text, std::string_view source_name, const CsvOptions& options)
      : text_(text), source_name_(source_name), options_(options) {}

  Result<CsvTable> parse() {
    table_.columns = options_.columns;
    while (!text_.empty()) {
      ++line_;
      const std::size_t newline = text_.find('\n');
      std::string_view line = text_.substr(0, newline);
      text_.remove_prefix(newline == text_.npos ? text_.size() : newline + 1);
      if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
      WEFT_CHECK(take_line(line));
    }
    if (table_.rows == 0) return fail(Errc::parse_failed, std::string(source_name_) + ": no rows");
    return std::move(table_);
  }

 private:
  Failure refuse(Errc code, const std::string& reason) const {
    return fail(code, std::string(source_name_) + ":" + std::to_string(line_) + ": " + reason);
  }

  Status take_line(std::string_view line) {
    if (line.empty()) return refuse(Errc::parse_failed, "an empty line");
    WEFT_CHECK(split(line));
    if (line_ == 1) {
      if (table_.columns == 0) table_.columns = fields_.size();
      if (options_.header == CsvHeader::present || (options_.header == CsvHeader::detect && has_no_number()))
        return take_names();
    }
    if (fields_.size() != table_.columns)
      return refuse(Errc::parse_failed,
                    std::to_string(fields_.size()) + " fields, expected " + std::to_string(table_.columns));
    if (table_.values.size() + table_.columns > options_.max_values)
      return refuse(Errc::too_large, "more than " + std::to_string(options_.max_values) + " values");
    for (std::size_t i = 0; i < fields_.size(); ++i) {
      const auto number = parse_number(fields_[i]);
      const auto field = [&] { return "field " + std::to_string(i + 1) + ": " + in_quotes(fields_[i]) + " "; };
      if (!number) return refuse(Errc::parse_failed, field() + "is not a plain decimal number");
      if (!std::isfinite(*number)) return refuse(Errc::out_of_range, field() + "is more than a float can hold");
      table_.values.push_back(*number);
    }
    ++table_.rows;
    return {};
  }

  Status split(std::string_view line) {
    fields_.clear();
    for (;;) {
      const std::size_t comma = line.find(',');
      fields_.push_back(line.substr(0, comma));
      if (fields_.size() > options_.max_columns)
        return refuse(Errc::too_large, "more than " + std::to_string(options_.max_columns) + " fields");
      if (comma == line.npos) return {};
      line.remove_prefix(comma + 1);
    }
  }

  bool has_no_number() const {
    for (const std::string_view field : fields_) {
      if (field.empty() || parse_number(field)) return false;
    }
    return true;
  }

  Status take_names() {
    if (fields_.size() != table_.columns)
      return refuse(Errc::parse_failed,
                    std::to_string(fields_.size()) + " column names, expected " + std::to_string(table_.columns));
    std::unordered_set<std::string_view> seen;
    for (const std::string_view field : fields_) {
      if (field.empty() || field.size() > 256 || printable(field, 256 * 4) != field || field.find('"') != field.npos)
        return refuse(Errc::parse_failed, in_quotes(field) + " cannot name a column");
      if (!seen.insert(field).second)
        return refuse(Errc::duplicate_name, "column " + in_quotes(field) + " is there twice");
      table_.names.emplace_back(field);
    }
    return {};
  }

  std::string_view text_, source_name_;
  const CsvOptions& options_;
  std::vector<std::string_view> fields_;
  std::size_t line_ = 0;
  CsvTable table_;
};

}  // namespace

Result<CsvTable> parse_csv(ByteSpan bytes, std::string_view source_name, const CsvOptions& options) {
  std::string unpacked;
  std::string_view text = as_text(bytes);
  if (is_gzip(bytes)) {
    WEFT_TRY(unpacked, gunzip(bytes, options.max_bytes, source_name));
    text = unpacked;
  }
  if (text.size() > options.max_bytes)
    return fail(Errc::too_large, std::string(source_name) + ": " + std::to_string(text.size()) + " bytes, at most " +
                                     std::to_string(options.max_bytes) + " are read");
  return CsvParser(text, source_name, options).parse();
}

Result<CsvTable> read_csv(storage::FileSystem& files, const std::string& path, const CsvOptions& options) {
  WEFT_TRY(const ByteBuffer bytes, files.read(path, options.max_bytes));
  return parse_csv(bytes, path, options);
}

}  // namespace weft::formats
