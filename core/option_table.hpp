// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/json.hpp"
#include "core/json_reader.hpp"
#include "core/option_row.hpp"
#include "core/result.hpp"

#include <algorithm>
#include <cfloat>
#include <charconv>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace weft {

/// One type of values of options: its kind, reader and writer. The primary template is of enumerations, whose names are
/// the row's.
template <class T>
struct OptionCodec {
  static constexpr OptionKind kind = OptionKind::choice;
  static Result<T> read(const OptionRow& row, const JsonValue& value) {
    const auto parse = [&](std::string_view text) -> std::optional<T> {
      const auto found = std::find(row.names.begin(), row.names.end(), text);
      if (found == row.names.end()) return std::nullopt;
      return static_cast<T>(found - row.names.begin());
    };
    return value.one_of(parse, row.names);
  }
  static Json write(const OptionRow& row, const T& value) { return row.names[static_cast<std::size_t>(value)]; }
};

template <>
struct OptionCodec<bool> {
  static constexpr OptionKind kind = OptionKind::flag;
  static Result<bool> read(const OptionRow&, const JsonValue& value) { return value.boolean(); }
  static Json write(const OptionRow&, bool value) { return value; }
};

template <std::unsigned_integral T>
struct OptionCodec<T> {
  static constexpr OptionKind kind = OptionKind::whole;
  static Result<T> read(const OptionRow& row, const JsonValue& value) {
    const T low = std::isfinite(row.low) ? static_cast<T>(row.low) : T{0};
    const T high = std::isfinite(row.high) ? static_cast<T>(row.high) : std::numeric_limits<T>::max();
    // By size: where std::size_t has 32 bits it is another type than std::uint32_t.
    if constexpr (sizeof(T) == sizeof(std::uint32_t)) {
      WEFT_TRY(const std::uint32_t number, value.u32(low, high));
      return static_cast<T>(number);
    } else {
      WEFT_TRY(const std::uint64_t number, value.u64(low, high));
      return static_cast<T>(number);
    }
  }
  static Json write(const OptionRow&, T value) { return value; }
};

template <std::floating_point T>
struct OptionCodec<T> {
  static constexpr OptionKind kind = OptionKind::number;
  static Result<T> read(const OptionRow& row, const JsonValue& value) {
    constexpr T kLargest = std::numeric_limits<T>::max();
    const T low = std::isfinite(row.low) ? static_cast<T>(row.low) : -kLargest;
    const T high = std::isfinite(row.high) ? static_cast<T>(row.high) : kLargest;
    if constexpr (std::is_same_v<T, float>)
      return value.f32(low, high);
    else
      return value.f64(low, high);
  }
  static Json write(const OptionRow&, T value) { return value; }
};

template <>
struct OptionCodec<std::string> {
  static constexpr OptionKind kind = OptionKind::text;
  static constexpr std::size_t kMost = 4096;  // bytes, unless the row says less
  static Result<std::string> read(const OptionRow& row, const JsonValue& value) {
    return value.string(std::min(row.most, kMost));
  }
  static Json write(const OptionRow&, const std::string& value) { return value; }
};

/// An option that need not have a value.
template <class T>
struct OptionCodec<std::optional<T>> {
  static constexpr OptionKind kind = OptionCodec<T>::kind;
  static Result<std::optional<T>> read(const OptionRow& row, const JsonValue& value) {
    WEFT_TRY(T read, OptionCodec<T>::read(row, value));
    return std::optional<T>(std::move(read));
  }
  static Json write(const OptionRow& row, const std::optional<T>& value) {
    return value ? OptionCodec<T>::write(row, *value) : Json();
  }
};

template <class T>
struct OptionCodec<std::vector<T>> {
  static constexpr OptionKind kind = OptionCodec<T>::kind == OptionKind::whole    ? OptionKind::whole_list
                                     : OptionCodec<T>::kind == OptionKind::number ? OptionKind::number_list
                                                                                  : OptionKind::text_list;
  static Result<std::vector<T>> read(const OptionRow& row, const JsonValue& value) {
    OptionRow each = row;
    each.most = SIZE_MAX;
    WEFT_TRY(const auto items, value.array(row.fewest, row.most));
    std::vector<T> read;
    for (const JsonValue& item : items) {
      WEFT_TRY(read.emplace_back(), OptionCodec<T>::read(each, item));
    }
    return read;
  }
  static Json write(const OptionRow& row, const std::vector<T>& values) {
    Json out = Json::array();
    for (const T& value : values) out.push_back(OptionCodec<T>::write(row, value));
    return out;
  }
};

/// A default as JSON; numbers in their shortest form, as they are typed.
template <class Codec, class T>
std::string option_text(const OptionRow& row, const T& value) {
  if constexpr (std::is_floating_point_v<T>) {
    char buffer[32];
    return {buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr};
  } else {
    const Json written = Codec::write(row, value);
    return written.is_null() ? std::string() : written.dump();
  }
}

/// A number in its shortest form of up to six digits.
inline std::string number_text(double value) {
  char buffer[32];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::general, 6).ptr};
}

/// Options of one object of JSON and the members of `Section` that hold them. Defaults are those of `Section{}`.
template <class Section>
class OptionTable {
 public:
  struct Field {
    OptionRow row;
    std::function<Status(const JsonValue&, Section&)> read;
    std::function<Json(const Section&)> write;    // null: there is nothing to write
    std::function<void(Section&)> when_absent{};  // a default that depends on other options
  };

  OptionTable(std::vector<Field> fields) : fields_(std::move(fields)) {
    for (const Field& field : fields_) rows_.push_back(field.row);
  }

  const std::vector<OptionRow>& rows() const noexcept { return rows_; }
  const std::vector<Field>& fields() const noexcept { return fields_; }

  /// Reads what the object has and refuses what the table has not. @error names path, value, bounds and the near word
  Status read(JsonReader& reader, Section& to) const {
    std::vector<const Field*> given;
    for (const Field& field : fields_) {
      if (const auto value = reader.find(field.row.key)) {
        WEFT_CHECK(field.read(*value, to));
        given.push_back(&field);
      } else if (field.row.is_needed && field.row.only_with.empty()) {
        WEFT_TRY(const JsonValue missing, reader.value(field.row.key));
      } else if (field.when_absent) {
        field.when_absent(to);
      }
    }
    for (const Field* const field : given) WEFT_CHECK(check_condition(reader, *field, to));
    for (const Field& field : fields_)
      if (field.row.is_needed && is_read(field, to)) {
        WEFT_TRY(const JsonValue found, reader.value(field.row.key));
      }
    return reader.finish();
  }

  /// Numbers that were not read, against the bounds of their rows. @error out_of_range: naming path, value and bounds
  Status check(const Section& section, const std::string& path) const {
    for (const Field& field : fields_) {
      const OptionRow& row = field.row;
      if (row.kind != OptionKind::number && row.kind != OptionKind::whole) continue;
      const double value = field.write(section).template get<double>();
      if (!(value >= row.low && value <= row.high))
        return fail(Errc::out_of_range, path + "." + std::string(row.key) + ": " + number_text(value) +
                                            " is not within [" + number_text(row.low) + ", " + number_text(row.high) +
                                            "]");
    }
    return {};
  }

  Json write(const Section& from) const {
    static const Section usual{};
    Json out = Json::object();
    for (const Field& field : fields_) {
      Json value = field.write(from);
      if (value.is_null() || !is_read(field, from)) continue;
      if (field.row.is_always_written || !(value == field.write(usual))) out[field.row.key] = std::move(value);
    }
    return out;
  }

 private:
  /// The value of the option that another one depends on.
  std::string value_of(std::string_view key, const Section& section) const {
    for (const Field& field : fields_)
      if (field.row.key == key) return field.write(section).template get<std::string>();
    return {};
  }
  bool is_read(const Field& field, const Section& section) const {
    if (field.row.only_with.empty()) return true;
    const OptionCondition wanted = parse_condition(field.row.only_with);
    const std::string found = value_of(wanted.key, section);
    return std::find(wanted.values.begin(), wanted.values.end(), found) != wanted.values.end();
  }
  Status check_condition(const JsonReader& reader, const Field& field, const Section& section) const {
    if (is_read(field, section)) return {};
    const OptionCondition wanted = parse_condition(field.row.only_with);
    std::string values;
    for (const std::string_view value : wanted.values) values.append(values.empty() ? "" : " or ").append(value);
    return fail(Errc::unknown_name, reader.path_of(field.row.key) + ": counts only with " + std::string(wanted.key) +
                                        " " + values + "; it is " + value_of(wanted.key, section));
  }

  std::vector<Field> fields_;
  std::vector<OptionRow> rows_;
};

/// An option that a member holds, in the form of a codec of its own.
template <class Codec, class Section, class T>
typename OptionTable<Section>::Field option_as(std::string_view key, T Section::*member, OptionRow row) {
  row.key = key;
  row.kind = Codec::kind;
  if (!row.is_needed && row.fallback_words.empty()) row.fallback = option_text<Codec>(row, Section{}.*member);
  return {row,
          [row, member](const JsonValue& value, Section& to) -> Status {
            WEFT_TRY(to.*member, Codec::read(row, value));
            return {};
          },
          [row, member](const Section& from) { return Codec::write(row, from.*member); }};
}

/// An option that a member holds.
template <class Section, class T>
typename OptionTable<Section>::Field option(std::string_view key, T Section::*member, OptionRow row) {
  return option_as<OptionCodec<T>>(key, member, std::move(row));
}

/// The option, with a default that depends on the options before it.
template <class Field, class Set>
Field with_default(Field made, Set&& set) {
  made.when_absent = std::forward<Set>(set);
  return made;
}

/// An object of options that a member holds.
template <class Section, class T>
typename OptionTable<Section>::Field section_option(std::string_view key, T Section::*member,
                                                    const OptionTable<T>& table, OptionRow row) {
  row.key = key;
  row.kind = OptionKind::section;
  row.options = table.rows();
  return {row,
          [member, &table](const JsonValue& value, Section& to) -> Status {
            WEFT_TRY(JsonReader reader, value.object());
            return table.read(reader, to.*member);
          },
          [member, &table](const Section& from) { return table.write(from.*member); }};
}

/// The options of a member, beside those of the section itself.
template <class Section, class T>
void append_options(std::vector<typename OptionTable<Section>::Field>& fields, T Section::*member,
                    const OptionTable<T>& table) {
  for (const auto& field : table.fields())
    fields.push_back({field.row,
                      [member, &field](const JsonValue& value, Section& to) { return field.read(value, to.*member); },
                      [member, &field](const Section& from) { return field.write(from.*member); }});
}

}  // namespace weft
