// SPDX-License-Identifier: Apache-2.0

#include "learning/stream_options.hpp"

#include "learning/losses.hpp"

#include "core/option_table.hpp"

#include <unordered_set>
#include <utility>
#include <vector>

namespace weft::learning {
namespace {

const std::vector<std::string_view> kDrifts{"none", "labels", "pixels"};
const std::vector<std::string_view> kTaskKinds{"none", "split", "permuted", "rotated", "labels", "turning"};
const std::vector<std::string_view> kScenarios{"task", "domain", "class"};
const std::vector<std::string_view> kSeparators{"auto", ",", ";", "tab", "|"};
const std::vector<std::string_view> kHeaders{"detect", "absent", "present"};
const std::vector<std::string_view> kMissingNames{"refuse", "drop", "mean", "zero"};
constexpr std::size_t kMaxColumns = 65536, kMaxNamedClasses = 65536;

using TableTable = OptionTable<TableOptions>;
using StreamTable = OptionTable<StreamOptions>;

/// A column by its name, or by its number from 1.
struct ColumnCodec {
  static constexpr OptionKind kind = OptionKind::column;
  static Result<std::string> read(const OptionRow&, const JsonValue& value) {
    if (!value.is_number()) return value.string(256);
    WEFT_TRY(const std::uint32_t number, value.u32(1, kMaxColumns));
    return std::to_string(number);
  }
  static Json write(const OptionRow&, const std::string& column) { return column; }
};

struct ColumnsCodec {
  static constexpr OptionKind kind = OptionKind::column_list;
  static Result<std::vector<std::string>> read(const OptionRow& row, const JsonValue& value) {
    WEFT_TRY(const auto items, value.array(row.fewest, row.most));
    std::vector<std::string> columns;
    for (const JsonValue& item : items) {
      WEFT_TRY(columns.emplace_back(), ColumnCodec::read(row, item));
    }
    return columns;
  }
  static Json write(const OptionRow&, const std::vector<std::string>& columns) { return columns; }
};

struct ClassesCodec {
  static constexpr OptionKind kind = OptionKind::text_list;
  static Result<std::vector<std::string>> read(const OptionRow& row, const JsonValue& value) {
    WEFT_TRY(const auto items, value.array(row.fewest, row.most));
    std::vector<std::string> classes;
    std::unordered_set<std::string> seen;
    for (const JsonValue& item : items) {
      WEFT_TRY(classes.emplace_back(), item.string());
      if (!seen.insert(canonical_label(classes.back()).text).second)
        return item.unexpected("each class once", Errc::duplicate_name);
    }
    return classes;
  }
  static Json write(const OptionRow&, const std::vector<std::string>& classes) { return classes; }
};

struct HeadClassesCodec {
  static constexpr OptionKind kind = OptionKind::text_list;
  static Result<std::vector<std::vector<std::string>>> read(const OptionRow& row, const JsonValue& value) {
    WEFT_TRY(const auto items, value.array(row.fewest, row.most));
    OptionRow each = row;
    each.fewest = 0;
    std::vector<std::vector<std::string>> heads;
    for (const JsonValue& item : items) {
      WEFT_TRY(heads.emplace_back(), ClassesCodec::read(each, item));
    }
    return heads;
  }
  static Json write(const OptionRow&, const std::vector<std::vector<std::string>>& heads) {
    Json out = Json::array();
    for (const auto& classes : heads) out.push_back(Json(classes));
    return out;
  }
};

struct SeparatorCodec {
  static constexpr OptionKind kind = OptionKind::choice;
  static Result<char> read(const OptionRow& row, const JsonValue& value) {
    return value.one_of(parse_separator, row.names);
  }
  static Json write(const OptionRow&, char separator) { return separator_name(separator); }
};

std::string quoted(const std::vector<std::string_view>& names) {
  std::string text;
  for (const std::string_view name : names) text.append(text.empty() ? "`" : ", `").append(name).append("`");
  return text;
}

std::vector<std::string_view>& declared_sample_keys() {
  static std::vector<std::string_view> keys;
  return keys;
}

/// Options that say which samples come.
template <class Codec, class Section, class T>
typename OptionTable<Section>::Field sample_option_as(std::string_view key, T Section::*member, OptionRow row) {
  declared_sample_keys().push_back(key);
  return option_as<Codec>(key, member, std::move(row));
}
template <class Section, class T>
typename OptionTable<Section>::Field sample_option(std::string_view key, T Section::*member, OptionRow row) {
  return sample_option_as<OptionCodec<T>>(key, member, std::move(row));
}

const TableTable& table_table() {
  using O = TableOptions;
  static const std::string labels = "columns of several classes: one a head (`" + loss_words(LossTargets::head_labels) +
                                    "`), or one a place of an output [places, classes]";
  static const std::string targets =
      "columns of values to learn instead of classes (" + quoted(loss_names(LossTargets::values)) + ")";
  static const std::string head_classes = "`classes` of each of `labels` under `" +
                                          loss_words(LossTargets::head_labels) +
                                          "`; an empty list: labels are their numbers";
  static const TableTable table({
      sample_option_as<ColumnCodec>("label", &O::label,
                                    {.meaning = "column of the class: its name, its number from 1, `first` or `last`"}),
      sample_option_as<ColumnsCodec>(
          "labels", &O::labels,
          {.fewest = 1, .most = kMaxColumns, .fallback_words = "`label` alone", .meaning = labels}),
      sample_option_as<ColumnsCodec>("targets", &O::targets,
                                     {.fewest = 1,
                                      .most = kMaxColumns,
                                      .fallback_words = "the label's, where the loss takes values",
                                      .meaning = targets}),
      option("target_mean", &O::target_mean,
             {.most = kMaxColumns,
              .fallback_words = "values as they are",
              .meaning = "a number a target, subtracted before it is learned and added to answers"}),
      option("target_deviation", &O::target_deviation,
             {.low = 1e-30,
              .most = kMaxColumns,
              .fallback_words = "1 each",
              .meaning = "a number a target that it is divided by before it is learned, and answers multiplied by"}),
      sample_option_as<ColumnCodec>("weight", &O::weight,
                                    {.fallback_words = "none: all weigh 1",
                                     .meaning = "column of each sample's weight, a factor of its gradients "
                                                "(`learning.weights`): its name or its number from 1; of samples with "
                                                "lists of values (JSON lines) any name, and the key is `weight`"}),
      sample_option_as<ColumnsCodec>("skip", &O::skip,
                                     {.most = kMaxColumns, .meaning = "columns left out: names and numbers"}),
      sample_option_as<SeparatorCodec>(
          "separator", &O::separator,
          {.names = kSeparators, .meaning = "between fields; `auto` finds it in the first line"}),
      sample_option("header", &O::header,
                    {.names = kHeaders, .meaning = "the first line names the columns, or is data"}),
      sample_option(
          "missing", &O::missing,
          {.names = kMissingNames, .meaning = "rows with empty fields, NA, NaN or ?: refused, left out, or filled"}),
      option("fill", &O::fill,
             {.most = kMaxColumns,
              .fallback_words = "computed",
              .meaning = "what `mean` fills with, a number a feature, after `scale`; computed of the training part and "
                         "written into what is saved"}),
      option_as<ClassesCodec>(
          "classes", &O::classes,
          {.fewest = 1,
           .most = kMaxNamedClasses,
           .fallback_words = "computed",
           .meaning = "names of the classes, in the order of the output's values; computed of the table where its "
                      "labels are no numbers below the output's width"}),
      option_as<HeadClassesCodec>(
          "head_classes", &O::head_classes,
          {.fewest = 1, .most = kMaxColumns, .fallback_words = "computed", .meaning = head_classes}),
      option("scale", &O::scale, {.is_always_written = true, .meaning = "factor of the values"}),
  });
  return table;
}

/// The task's change, an object of its own in the file.
const StreamTable& drift_table() {
  using O = StreamOptions;
  static const StreamTable table({
      option("kind", &O::drift,
             {.names = kDrifts, .is_needed = true, .is_always_written = true, .meaning = "what changes"}),
      option("at", &O::drift_at,
             {.low = 0, .high = 1, .is_always_written = true, .meaning = "share of the stream after which it changes"}),
      option("share", &O::drift_share,
             {.low = 0,
              .high = 1,
              .is_always_written = true,
              .meaning = "share of the labels (pixels) that change, at least two of them"}),
  });
  return table;
}

StreamTable::Field drift_field() {
  OptionRow row{.key = "drift", .kind = OptionKind::section, .meaning = "how and when the task changes"};
  row.options = drift_table().rows();
  return {row,
          [](const JsonValue& value, StreamOptions& o) -> Status {
            WEFT_TRY(JsonReader reader, value.object());
            return drift_table().read(reader, o);
          },
          [](const StreamOptions& o) { return o.drift == Drift::none ? Json() : drift_table().write(o); }};
}

/// Several tasks out of one set of samples, an object of its own in the file.
const OptionTable<TaskOptions>& task_table() {
  using O = TaskOptions;
  static const OptionTable<TaskOptions> table({
      option("kind", &O::kind,
             {.names = kTaskKinds,
              .is_needed = true,
              .is_always_written = true,
              .meaning = "what differs from task to task: the classes (`split`), the places of the inputs "
                         "(`permuted`), the angle of the pictures (`rotated`), the labels (`labels`); `turning`: two "
                         "classes at a time, whose pictures turn further and further"}),
      option("count", &O::count, {.low = 1, .high = 10000, .is_always_written = true, .meaning = "number of tasks"}),
      option("scenario", &O::scenario,
             {.names = kScenarios,
              .is_always_written = true,
              .meaning = "labels: classes of the task in a head of its own (`task`), classes of the task that all "
                         "tasks share (`domain`), or all classes of all tasks (`class`)"}),
      option("samples", &O::samples,
             {.unit = "samples", .meaning = "of each task, over and over; 0: as often as `epochs` says"}),
      option("measured", &O::measured,
             {.unit = "samples", .meaning = "held-out samples of each task that are measured with; 0: all"}),
      option("angle", &O::angle,
             {.low = 0, .high = 360, .unit = "degrees", .meaning = "between two tasks", .only_with = "kind=rotated"}),
  });
  return table;
}

const StreamTable& stream_table() {
  using O = StreamOptions;
  static const StreamTable table([] {
    std::vector<StreamTable::Field> fields{
        sample_option("csv", &O::csv,
                      {.is_needed = true,
                       .is_always_written = true,
                       .meaning = "file, relative to the network file; `.gz` is unpacked"}),
    };
    append_options(fields, &O::table, table_table());
    for (auto& more : std::vector<StreamTable::Field>{
             sample_option(
                 "validation", &O::validation,
                 {.meaning = "file of samples that are measured with at the end and never learned from, relative to "
                             "the network file; empty: none"}),
             sample_option("test", &O::test, {.meaning = "the same, instead of the held-out share; empty: that share"}),
             sample_option("held_out", &O::held_out,
                           {.low = 0,
                           .high = 0.99,
                           .is_always_written = true,
                           .meaning = "share of the samples kept for measuring"}),
             sample_option("stratified", &O::stratified, {.meaning = "of each class that share"}),
             sample_option(
                 "split_seed", &O::split_seed,
                 {.fallback_words = "`seed`",
                 .meaning = "seed of the hold-out alone, so that runs of several seeds are measured with the same "
                            "samples"}),
             sample_option("epochs", &O::epochs,
                           {.low = 1,
                           .high = 1u << 30,
                           .is_always_written = true,
                           .meaning = "times that every other sample is learned from, in a new order each"}),
             sample_option("max_samples", &O::max_samples,
                           {.is_always_written = true, .unit = "samples", .meaning = "bound on samples; 0: none"}),
             sample_option("seed", &O::seed, {.is_always_written = true, .meaning = "split, order and drift"}),
             option("change_every", &O::change_every,
                    {.unit = "samples",
                    .meaning = "samples after which the task of the data themselves changes, again and again, for the "
                               "figures of adaptation; 0: not known"}),
             option("window", &O::window,
                    {.low = 1,
                    .high = 1u << 20,
                    .is_always_written = true,
                    .unit = "samples",
                    .meaning = "samples of the sliding accuracy"}),
             drift_field(),
             section_option("tasks", &O::tasks, task_table(),
                            {.meaning = "tasks that are learned one after the other"}),
             option("input", &O::input,
                    {.is_always_written = true, .meaning = "port that it feeds; empty: the only one"}),
             option("output", &O::output,
                    {.is_always_written = true, .meaning = "output that should give the label; empty: the only one"}),
             option("outputs", &O::outputs,
                    {.most = 256,
                    .fallback_words = "`output` alone",
                    .meaning = "outputs that the columns of `labels` or `targets` belong to: the first has as many of "
                               "them as its loss takes, the next one those behind them"}),
         })
      fields.push_back(std::move(more));
    return fields;
  }());
  return table;
}

}  // namespace

std::string_view name(TaskKind kind) noexcept { return kTaskKinds[static_cast<std::size_t>(kind)]; }
std::string_view name(Scenario scenario) noexcept { return kScenarios[static_cast<std::size_t>(scenario)]; }
std::string_view name(Drift drift) noexcept { return kDrifts[static_cast<std::size_t>(drift)]; }

const std::vector<OptionRow>& stream_rows() { return stream_table().rows(); }
const std::vector<std::string_view>& sample_keys() {
  stream_table();
  return declared_sample_keys();
}

Result<StreamOptions> read_stream(std::string_view text, bool names_file) {
  WEFT_TRY(auto document, parse_json(text, "stream"));
  if (!names_file && document.is_object() && !document.contains("csv")) document["csv"] = "";
  WEFT_TRY(JsonReader reader, JsonReader::open(document, "stream"));
  StreamOptions options;
  WEFT_CHECK(stream_table().read(reader, options));
  return options;
}

std::string write_stream(const StreamOptions& options) { return stream_table().write(options).dump(); }

}  // namespace weft::learning
