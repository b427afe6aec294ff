// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "formats/csv/row_reader.hpp"
#include "formats/fwd.hpp"

#include "core/bytes.hpp"
#include "core/result.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::formats {

enum class CsvHeader {
  detect,   ///< the first record names the columns when none of its fields is a number or missing, save one empty name
  absent,   ///< the first record is data
  present,  ///< the first record names the columns
};
std::string_view name(CsvHeader header) noexcept;
std::optional<CsvHeader> parse_csv_header(std::string_view text) noexcept;

struct CsvOptions {
  CsvHeader header = CsvHeader::detect;
  char separator = 0;  ///< ',', ';', '\t', '|'; 0: found in the first record
  std::size_t max_columns = 65536;
  std::size_t max_record = std::size_t{64} << 20;  ///< bytes of one record
  bool passes_blank = false;                       ///< blank lines do not count, wherever they are
};

/// Reads a table record by record: RFC 4180 (quotes, doubled quotes and line breaks inside them) and what people's
/// files have besides: a byte order mark, `;` `|` or tabs for commas, blanks around fields, blank lines at the end.
/// Every record has as many fields as the first. docs/formats/csv.md says it in full.
/// Error texts begin with "source:line: "; line is where the record begins.
/// @error  parse_failed: not such a table; duplicate_name: two columns of one name; too_large: a limit passed
/// @thread one at a time
class CsvReader final : public RowReader {
 public:
  /// Of a whole text, which must outlive the reader.
  static Result<CsvReader> open(std::string_view text, std::string source_name, const CsvOptions& options = {});
  /// Of bytes that come bit by bit; a record is given out as soon as its line has ended.
  static Result<CsvReader> open(CsvSource source, std::string source_name, const CsvOptions& options = {});

  char separator() const noexcept { return separator_; }
  Result<bool> next() override;
  bool is_ready() const noexcept override { return holds_first_ || at_end_ || rest_.find('\n') != rest_.npos; }

 private:
  CsvReader(std::string source_name, const CsvOptions& options);
  Status begin();
  Status fill();
  Result<std::optional<std::string_view>> take_record();
  Status split(std::string_view record);
  Status split_quoted(std::string_view record);
  std::size_t unquote(std::string_view record);
  Status take_field(std::string_view text, bool is_quoted);
  void find_separator(std::string_view record);
  bool names_columns() const;
  Status take_names();

  CsvOptions options_;
  CsvSource source_;       // empty: all of the text is there
  std::string buffer_;     // with a source: what has come and is not yet used up
  std::string_view rest_;  // what is to be read, in the caller's text or in buffer_
  std::string unquoted_;   // of fields with doubled quotes
  std::size_t next_line_ = 1;
  char separator_ = 0;
  bool at_end_ = false, holds_first_ = false;
};

/// Value of a field as a number.
struct CsvNumber {
  enum class Kind {
    number,
    missing,    ///< empty, NA, N/A, NaN, null or ?, in any case of letters, not in quotes unless empty
    too_large,  ///< no float holds it
    text,       ///< none of these
  };
  Kind kind = Kind::text;
  float value = 0;  ///< the float nearest to the text (ties to even), whatever the locale
};
CsvNumber csv_number(const CsvField& field) noexcept;

/// A field as error texts show it: in quotes, without control characters, cut where it is long.
std::string csv_excerpt(const CsvField& field);
/// `text` as a field: in quotes where it needs them.
std::string csv_field(std::string_view text, char separator = ',');

}  // namespace weft::formats
