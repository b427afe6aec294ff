// SPDX-License-Identifier: Apache-2.0

#include "learning/stream_options.hpp"

#include "core/json_reader.hpp"

#include <unordered_set>
#include <vector>

namespace weft::learning {
namespace {

const std::vector<std::string_view> kDrifts{"none", "labels", "pixels"};
constexpr std::size_t kMaxColumns = 65536, kMaxClasses = 65536;

/// A column by its name, or by its number from 1.
Result<std::string> read_column(const JsonValue& value) {
  if (!value.is_number()) return value.string(256);
  WEFT_TRY(const std::uint32_t number, value.u32(1, kMaxColumns));
  return std::to_string(number);
}

Result<std::vector<std::string>> read_classes(JsonReader& reader) {
  WEFT_TRY(const auto items, reader.array("classes", 1, kMaxClasses));
  std::vector<std::string> classes;
  std::unordered_set<std::string> seen;
  for (const JsonValue& item : items) {
    WEFT_TRY(classes.emplace_back(), item.string());
    if (!seen.insert(canonical_label(classes.back()).text).second)
      return item.unexpected("each class once", Errc::duplicate_name);
  }
  return classes;
}

Result<TableOptions> read_table(JsonReader& reader) {
  TableOptions o;
  WEFT_TRY(o.scale, reader.f32_or("scale", o.scale));
  if (const auto label = reader.find("label")) {
    WEFT_TRY(o.label, read_column(*label));
  }
  if (const auto skip = reader.find("skip")) {
    WEFT_TRY(const auto columns, skip->array(0, kMaxColumns));
    for (const JsonValue& column : columns) {
      WEFT_TRY(o.skip.emplace_back(), read_column(column));
    }
  }
  WEFT_TRY(o.separator, reader.one_of_or("separator", o.separator, parse_separator, {"auto", ",", ";", "tab", "|"}));
  WEFT_TRY(o.header, reader.one_of_or("header", o.header, formats::parse_csv_header, {"detect", "absent", "present"}));
  WEFT_TRY(o.missing, reader.one_of_or("missing", o.missing, parse_missing, {"refuse", "drop", "mean", "zero"}));
  if (const auto fill = reader.find("fill")) {
    WEFT_TRY(const auto values, fill->array(0, kMaxColumns));
    for (const JsonValue& value : values) {
      WEFT_TRY(o.fill.emplace_back(), value.f32());
    }
  }
  if (reader.find("classes")) {
    WEFT_TRY(o.classes, read_classes(reader));
  }
  return o;
}

void write_table(const TableOptions& o, Json& out) {
  const TableOptions usual;
  out["scale"] = o.scale;
  if (o.label != usual.label) out["label"] = o.label;
  if (!o.skip.empty()) out["skip"] = o.skip;
  if (o.separator != usual.separator) out["separator"] = separator_name(o.separator);
  if (o.header != usual.header) out["header"] = name(o.header);
  if (o.missing != usual.missing) out["missing"] = name(o.missing);
  if (!o.fill.empty()) out["fill"] = o.fill;
  if (!o.classes.empty()) out["classes"] = o.classes;
}

}  // namespace

std::string_view name(Drift drift) noexcept { return kDrifts[static_cast<std::size_t>(drift)]; }
std::optional<Drift> parse_drift(std::string_view text) noexcept {
  for (std::size_t i = 0; i < kDrifts.size(); ++i)
    if (kDrifts[i] == text) return static_cast<Drift>(i);
  return std::nullopt;
}

Result<StreamOptions> read_stream(std::string_view text) {
  WEFT_TRY(const auto document, parse_json(text, "stream"));
  WEFT_TRY(JsonReader reader, JsonReader::open(document, "stream"));
  StreamOptions o;
  WEFT_TRY(o.csv, reader.string("csv"));
  WEFT_TRY(o.table, read_table(reader));
  WEFT_TRY(o.held_out, reader.f64_or("held_out", o.held_out, 0.0, 0.99));
  WEFT_TRY(o.stratified, reader.boolean_or("stratified", o.stratified));
  if (reader.find("split_seed")) {
    WEFT_TRY(o.split_seed, reader.u64("split_seed"));
  }
  WEFT_TRY(o.epochs, reader.u64_or("epochs", o.epochs, 1, 1u << 30));
  WEFT_TRY(o.max_samples, reader.u64_or("max_samples", o.max_samples));
  WEFT_TRY(o.seed, reader.u64_or("seed", o.seed));
  WEFT_TRY(o.window, reader.u32_or("window", o.window, 1, 1u << 20));
  if (const auto drift = reader.find("drift")) {
    WEFT_TRY(JsonReader inner, drift->object());
    WEFT_TRY(o.drift, inner.one_of("kind", parse_drift, kDrifts));
    WEFT_TRY(o.drift_at, inner.f64_or("at", o.drift_at, 0.0, 1.0));
    WEFT_TRY(o.drift_share, inner.f64_or("share", o.drift_share, 0.0, 1.0));
    WEFT_CHECK(inner.finish());
  }
  WEFT_TRY(o.input, reader.string_or("input", ""));
  WEFT_TRY(o.output, reader.string_or("output", ""));
  WEFT_CHECK(reader.finish());
  return o;
}

std::string write_stream(const StreamOptions& o) {
  Json out{{"csv", o.csv},   {"held_out", o.held_out}, {"epochs", o.epochs}, {"max_samples", o.max_samples},
           {"seed", o.seed}, {"window", o.window},     {"input", o.input},   {"output", o.output}};
  write_table(o.table, out);
  if (o.stratified) out["stratified"] = true;
  if (o.split_seed) out["split_seed"] = *o.split_seed;
  if (o.drift != Drift::none) out["drift"] = {{"kind", name(o.drift)}, {"at", o.drift_at}, {"share", o.drift_share}};
  return out.dump();
}

}  // namespace weft::learning
