// SPDX-License-Identifier: Apache-2.0

#include "formats/csv/csv.hpp"

#include "formats/csv/gzip.hpp"
#include "formats/entity/entity.hpp"

#include "core/printable.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <system_error>
#include <unordered_set>
#include <utility>

namespace weft::formats {
namespace {

constexpr std::string_view kBlanks = " \t";
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr std::size_t kChunk = std::size_t{64} << 10;
constexpr std::array<std::string_view, 3> kHeaders{"detect", "absent", "present"};

std::string_view trimmed(std::string_view text, std::string_view blanks) {
  const std::size_t first = text.find_first_not_of(blanks);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

/// Blanks around a field: a tab is none where it separates.
std::string_view blanks_of(char separator) { return separator == '\t' ? kBlanks.substr(0, 1) : kBlanks; }

/// For a number that is not zero and that no float holds: true when it is too small rather than too large.
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

/// True also for "1,5" and "2024-01-01", which are data though no numbers here.
bool looks_like_data(const CsvField& field) {
  return csv_number(field).kind != CsvNumber::Kind::text ||
         (field.text.find_first_of("0123456789") != field.text.npos &&
          field.text.find_first_not_of("0123456789+-.,:/eE ") == field.text.npos);
}

bool is_missing(const CsvField& field) {
  if (field.text.empty()) return true;
  // Most fields are numbers.
  if (field.is_quoted || field.text.size() > 4 || field.text.find_first_of("nN?") != 0) return false;
  std::string lower(field.text);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return lower == "na" || lower == "nan" || lower == "n/a" || lower == "null" || lower == "?";
}

}  // namespace

std::string_view name(CsvHeader header) noexcept { return kHeaders[static_cast<std::size_t>(header)]; }
std::optional<CsvHeader> parse_csv_header(std::string_view text) noexcept {
  const auto found = std::find(kHeaders.begin(), kHeaders.end(), text);
  if (found == kHeaders.end()) return std::nullopt;
  return static_cast<CsvHeader>(found - kHeaders.begin());
}

CsvNumber csv_number(const CsvField& field) noexcept {
  using Kind = CsvNumber::Kind;
  if (is_missing(field)) return {Kind::missing, std::numeric_limits<float>::quiet_NaN()};
  // from_chars also takes "inf" and "nan"; a table of numbers has neither.
  if (field.text.find_first_not_of("0123456789+-.eE") != field.text.npos) return {};
  std::string_view text = field.text;
  if (text[0] == '+' && text.substr(1, 1) != "-") text.remove_prefix(1);
  float number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (end != text.data() + text.size() || error == std::errc::invalid_argument) return {};
  if (error == std::errc()) return {Kind::number, number};
  // Out of range does not say which way; what is too small for a subnormal is nearest to zero.
  if (!is_below_one(text)) return {Kind::too_large, 0};
  return {Kind::number, text[0] == '-' ? -0.0f : 0.0f};
}

std::string csv_excerpt(const CsvField& field) { return in_quotes(field.text); }

std::string csv_field(std::string_view text, char separator) {
  const bool is_plain =
      text.find_first_of("\"\r\n") == text.npos && text.find(separator) == text.npos && trimmed(text, kBlanks) == text;
  if (is_plain) return std::string(text);
  std::string out(1, '"');
  for (const char c : text) out.append(c == '"' ? 2 : 1, c);
  out.push_back('"');
  return out;
}

CsvReader::CsvReader(std::string source_name, const CsvOptions& options)
    : RowReader(std::move(source_name)), options_(options), separator_(options.separator) {}

Result<CsvReader> CsvReader::open(std::string_view text, std::string source_name, const CsvOptions& options) {
  CsvReader reader(std::move(source_name), options);
  reader.rest_ = text;
  reader.at_end_ = true;
  WEFT_CHECK(reader.begin());
  return reader;
}

Result<CsvReader> CsvReader::open(CsvSource source, std::string source_name, const CsvOptions& options) {
  CsvReader reader(std::move(source_name), options);
  reader.source_ = std::move(source);
  WEFT_CHECK(reader.begin());
  return reader;
}

constexpr std::string_view kNaming = "sep=";
constexpr std::string_view kSeparators = "\t;,|";  // the likeliest first
constexpr std::size_t kProbed = 64;                // bytes that tell another format from a table

/// True where more bytes may show that `text` begins another format, or names its separator.
static bool is_undecided(std::string_view text) {
  if (text.find('\n') == text.npos && text.size() < 7 && (text.starts_with(kNaming) || kNaming.starts_with(text)))
    return true;
  return text.size() < kProbed && (kEntityBegin.starts_with(text) || text.find_first_not_of(" \t\r\n") == text.npos);
}

/// The first line where it does no more than name the separator, as "sep=;" does for Excel, with its line break.
static std::string_view naming_line(std::string_view text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  const bool is_one = line.starts_with(kNaming) && line.size() > kNaming.size() &&
                      kSeparators.find(line[kNaming.size()]) != kSeparators.npos &&
                      (line.size() == kNaming.size() + 1 || line.substr(kNaming.size() + 1) == "\r");
  return is_one ? text.substr(0, line.size() + 1) : std::string_view();
}

/// Name of the format of what is no table; nothing for what may be one.
static std::string_view other_format(std::string_view text) {
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF")) return "is UTF-16; save the table as UTF-8";
  if (is_entity(as_bytes(text))) return "is a model (.entity), and no table of samples";
  const auto begin = text.substr(0, kProbed).find_first_not_of(" \t\r\n");
  if (begin == text.npos || (text[begin] != '{' && text[begin] != '[')) return {};
  return "is JSON, such as a network file, and no table of samples";
}

/// The mark, the separator and the names.
Status CsvReader::begin() {
  while (!at_end_ && rest_.size() < kByteOrderMark.size()) WEFT_CHECK(fill());
  if (is_gzip(as_bytes(rest_)))
    return fail(Errc::unsupported, source_name_ + ": packed by gzip; unpack it first, as in zcat FILE | weft ...");
  if (rest_.starts_with(kByteOrderMark)) rest_.remove_prefix(kByteOrderMark.size());
  while (!at_end_ && is_undecided(rest_)) WEFT_CHECK(fill());
  if (const auto other = other_format(rest_); !other.empty())
    return fail(Errc::parse_failed, source_name_ + ": " + std::string(other));
  if (const auto naming = naming_line(rest_); !naming.empty()) {
    if (!separator_) separator_ = naming[kNaming.size()];
    rest_.remove_prefix(naming.size());
    ++next_line_;
  }
  WEFT_TRY(const bool has_record, next());
  if (!has_record) return {};
  if (options_.header == CsvHeader::present || (options_.header == CsvHeader::detect && names_columns()))
    return take_names();
  holds_first_ = true;
  return {};
}

/// More of the source behind what is left of it.
Status CsvReader::fill() {
  if (rest_.size() > options_.max_record)
    return refuse(Errc::too_large,
                  "a record of more than " + std::to_string(options_.max_record) + " bytes; is a quote not closed?");
  buffer_.erase(0, rest_.empty() ? buffer_.size() : static_cast<std::size_t>(rest_.data() - buffer_.data()));
  const std::size_t kept = buffer_.size();
  buffer_.resize(kept + std::max(kChunk, kept));
  auto count = source_({buffer_.data() + kept, buffer_.size() - kept});
  buffer_.resize(kept + (count ? *count : 0));
  rest_ = buffer_;
  if (!count) return fail(std::move(count).error().within(source_name_));
  at_end_ = *count == 0;
  return {};
}

Result<bool> CsvReader::next() {
  if (std::exchange(holds_first_, false)) return true;
  std::size_t blank = 0;
  for (;;) {
    line_ = next_line_;
    WEFT_TRY(const auto record, take_record());
    if (!record) return false;
    if (trimmed(*record, blanks_of(separator_)).empty()) {
      if (!blank && !options_.passes_blank) blank = line_;
      continue;
    }
    if (blank) {
      line_ = blank;
      return refuse(Errc::parse_failed, "an empty line inside the table");
    }
    if (!columns_ && record->find('\r') != record->npos && record->find('"') == record->npos)
      return refuse(Errc::parse_failed,
                    "lines end with a carriage return alone; save the table with the line ends of Windows or Unix");
    if (!separator_) find_separator(*record);
    WEFT_CHECK(split(*record));
    if (!columns_) columns_ = fields_.size();
    if (fields_.size() != columns_)
      return refuse(Errc::parse_failed, std::to_string(fields_.size()) + (fields_.size() == 1 ? " field" : " fields") +
                                            ", expected " + std::to_string(columns_));
    return true;
  }
}

/// The bytes up to the line break that ends a record, which are then no longer `rest_`.
Result<std::optional<std::string_view>> CsvReader::take_record() {
  std::size_t from = 0, quotes = 0, lines = 0;
  for (;;) {
    const std::size_t newline = rest_.find('\n', from);
    if (newline == rest_.npos && !at_end_) {
      WEFT_CHECK(fill());
      continue;
    }
    const std::size_t end = std::min(newline, rest_.size());
    quotes += static_cast<std::size_t>(std::count(rest_.data() + from, rest_.data() + end, '"'));
    ++lines;
    if (newline != rest_.npos && quotes % 2 != 0) {
      if (newline > options_.max_record)
        return refuse(Errc::too_large, "a record of more than " + std::to_string(options_.max_record) +
                                           " bytes; is a quote not closed?");
      from = newline + 1;
      continue;
    }
    if (rest_.empty()) return std::optional<std::string_view>();
    is_cut_ = newline == rest_.npos;
    std::string_view record = rest_.substr(0, end);
    rest_.remove_prefix(newline == rest_.npos ? rest_.size() : newline + 1);
    next_line_ += lines;
    if (record.ends_with('\r')) record.remove_suffix(1);
    return std::optional(record);
  }
}

/// A tab or a semicolon is seldom in a table that commas separate; a comma is often in one that they do, as a decimal
/// mark. So the first of them that the first record has outside quotes is taken.
void CsvReader::find_separator(std::string_view record) {
  for (const char candidate : kSeparators) {
    bool inside = false;
    for (const char c : record) {
      if (c == '"') inside = !inside;
      if (c != candidate || inside) continue;
      separator_ = candidate;
      return;
    }
  }
  separator_ = ',';
}

Status CsvReader::take_field(std::string_view text, bool is_quoted) {
  fields_.push_back({text, is_quoted});
  if (fields_.size() <= options_.max_columns) return {};
  return refuse(Errc::too_large, "more than " + std::to_string(options_.max_columns) + " fields");
}

Status CsvReader::split(std::string_view record) {
  fields_.clear();
  if (record.find('"') != record.npos) return split_quoted(record);
  for (;;) {
    const std::size_t end = record.find(separator_);
    WEFT_CHECK(take_field(trimmed(record.substr(0, end), blanks_of(separator_)), false));
    if (end == record.npos) return {};
    record.remove_prefix(end + 1);
  }
}

/// The text between the quotes that `record` begins with goes to `unquoted`; the place behind the closing one, or npos.
std::size_t CsvReader::unquote(std::string_view record) {
  for (std::size_t at = 1; at < record.size(); ++at) {
    if (record[at] == '"') {
      if (record.substr(at + 1, 1) != "\"") return at + 1;
      ++at;
    }
    unquoted_.push_back(record[at]);
  }
  return record.npos;
}

Status CsvReader::split_quoted(std::string_view record) {
  const std::string_view blanks = blanks_of(separator_);
  const auto refuse_field = [&](const std::string& reason) {
    return refuse(Errc::parse_failed, "field " + std::to_string(fields_.size() + 1) + ": " + reason);
  };
  unquoted_.clear();
  // Room for all of it on the heap, so that views into it stay, also when the reader is moved.
  unquoted_.reserve(std::max<std::size_t>(record.size(), 64));
  for (;;) {
    record.remove_prefix(std::min(record.find_first_not_of(blanks), record.size()));
    std::size_t end = record.find(separator_);
    if (!record.starts_with('"')) {
      const std::string_view field = record.substr(0, end);
      if (field.find('"') != field.npos)
        return refuse_field(in_quotes(field) + " has a quote inside; put the field in quotes and double the inner one");
      WEFT_CHECK(take_field(trimmed(field, blanks), false));
    } else {
      const std::size_t begin = unquoted_.size(), closed = unquote(record);
      if (closed == record.npos) return refuse_field("a quote is not closed");
      end = record.find(separator_, closed);
      const std::string_view behind = record.substr(closed, end == record.npos ? end : end - closed);
      if (!trimmed(behind, blanks).empty()) return refuse_field(in_quotes(behind) + " after the closing quote");
      WEFT_CHECK(take_field(std::string_view(unquoted_).substr(begin), true));
    }
    if (end == record.npos) return {};
    record.remove_prefix(end + 1);
  }
}

/// Data frames are often written with an empty name for the column that numbers the rows.
bool CsvReader::names_columns() const {
  std::size_t empty = 0;
  for (const CsvField& field : fields_) {
    if (field.text.empty())
      ++empty;
    else if (looks_like_data(field))
      return false;
  }
  return empty <= 1 && empty < fields_.size();
}

Status CsvReader::take_names() {
  std::unordered_set<std::string_view> seen;
  for (const CsvField& field : fields_) {
    if (field.text.size() > 256 || printable(field.text, std::size_t{256} * 4) != field.text)
      return refuse(Errc::parse_failed, in_quotes(field.text) + " cannot name a column");
    if (!field.text.empty() && !seen.insert(field.text).second)
      return refuse(Errc::duplicate_name, "column " + in_quotes(field.text) + " is there twice");
    names_.emplace_back(field.text);
  }
  return {};
}

}  // namespace weft::formats
