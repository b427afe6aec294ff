// SPDX-License-Identifier: Apache-2.0

#include "cli/plot_data.hpp"

#include "cli/data_directory.hpp"
#include "cli/task_report.hpp"

#include "agent/saved_extension.hpp"
#include "learning/stream_options.hpp"
#include "learning/tasks/task_matrix.hpp"

#include "mesh/network/network_json.hpp"

#include "formats/csv/csv.hpp"
#include "storage/file_system.hpp"

#include "core/json_reader.hpp"
#include "core/near_word.hpp"
#include "core/option_table.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <string_view>
#include <utility>

namespace weft::cli {
namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 28;
constexpr std::size_t kMostColumns = 64;
constexpr std::array<std::string_view, 4> kLayerColumns{"z", "y", "x", "layer"};  // after the first

/// The kind of event that a column of this name has; none: values to draw.
std::optional<std::size_t> mark_of(std::string_view name) {
  const auto found = std::find(learning::kStreamEventNames.begin(), learning::kStreamEventNames.end(), name);
  if (found == learning::kStreamEventNames.end()) return std::nullopt;
  return static_cast<std::size_t>(found - learning::kStreamEventNames.begin());
}

/// One file, read.
class PlotReader {
 public:
  PlotReader(PlotData& data, const std::vector<std::string>& columns) : data_(data), columns_(columns) {}

  Status add(const std::string& path) {
    std::error_code error;
    if (std::filesystem::is_directory(path, error)) {
      WEFT_TRY(const std::string kept, table_of(path));
      return marked(add_table(path, kept));
    }
    WEFT_TRY(const ByteBuffer bytes, storage::real_file_system().read(path, kMostBytes));
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const std::size_t first = text.find_first_not_of(" \t\r\n");
    if (first == text.npos) return fail(Errc::unsupported, path + ": is empty; there is nothing to show");
    return marked(text[first] == '{' ? add_lines(path, text) : add_table(path, text));
  }

 private:
  /// The data directory of a run as a table: accuracies on tasks, or the curve of its accuracy.
  static Result<std::string> table_of(const std::string& directory) {
    WEFT_TRY(const agent::SavedExtension saved, agent::read_saved_extension(storage::real_file_system(), directory));
    WEFT_TRY(const Json document, parse_json(saved.json, directory));
    if (!document.is_object() || !document.contains("curve"))
      return fail(Errc::unsupported, directory + ": is a data directory of '" + saved.identity +
                                         "', which keeps no curve; give the directory of its --logdir, or what --json "
                                         "printed");
    WEFT_TRY(JsonReader run, JsonReader::open(document, directory + ": run"));
    WEFT_TRY(const auto cursor_value, run.value("cursor"));
    WEFT_TRY(JsonReader cursor, JsonReader::open(cursor_value.raw(), "cursor"));
    if (const auto tasks = cursor.find("tasks")) {
      const Json& rows = tasks->raw();
      learning::TaskMatrix matrix(rows.is_array() && !rows.empty() && rows[0].is_array() ? rows[0].size() : 0);
      WEFT_CHECK(matrix.load(*tasks));
      WEFT_TRY(const mesh::NetworkSpec spec, mesh::read_network(saved.network, directory));
      WEFT_TRY(const learning::StreamOptions stream, learning::read_stream(spec.stream));
      return tasks_csv(stream.tasks, matrix);
    }
    WEFT_TRY(const auto curve, run.array("curve", 0, std::size_t{1} << 20));
    if (curve.empty())
      return fail(Errc::unsupported, directory +
                                         ": has no accuracies yet; those of samples that arrive are in --logdir "
                                         "and --json alone");
    WEFT_TRY(const std::uint64_t next, cursor.u64("next"));
    std::uint64_t every = next / curve.size();
    if (const auto told = run.find("curve_every")) {
      WEFT_TRY(every, told->u64());
    }
    std::string text = "samples,prequential_accuracy,change,warning,alarm\n";
    for (std::size_t i = 0; i < curve.size(); ++i) {
      WEFT_TRY(const double accuracy, curve[i].f64());
      text += std::to_string((i + 1) * every) + "," + number_text(accuracy) + ",,,\n";
    }
    learning::StreamEventLog events;
    if (const auto kept = cursor.find("events")) WEFT_CHECK(events.load(*kept));
    for (std::size_t kind = 0; kind < learning::kStreamEventNames.size(); ++kind)
      for (const std::uint64_t sample : events.samples(static_cast<learning::StreamEventKind>(kind)))
        text += std::to_string(sample) + "," + std::string(kind + 1, ',') + "1" + std::string(2 - kind, ',') + "\n";
    return text;
  }

  static Result<std::optional<double>> number(const formats::CsvReader& reader, std::size_t column) {
    const formats::CsvNumber value = formats::csv_number(reader.fields()[column]);
    if (value.kind == formats::CsvNumber::Kind::number) return std::optional<double>(value.value);
    if (value.kind == formats::CsvNumber::Kind::missing) return std::optional<double>();
    return reader.refuse(Errc::parse_failed, formats::csv_excerpt(reader.fields()[column]) + " in column '" +
                                                 reader.names()[column] + "' is no number");
  }

  Status add_table(const std::string& path, std::string_view text) {
    WEFT_TRY(formats::CsvReader reader,
             formats::CsvReader::open(text, path, {.header = formats::CsvHeader::present, .max_columns = 65536}));
    const std::vector<std::string>& names = reader.names();
    if (names.size() >= 3 && names[0] == "scenario" && names[1] == "after") return add_grid(path, reader);
    if (data_.grid) return mixed(path);
    if (names.size() < 2 || names.size() > kMostColumns)
      return fail(Errc::unsupported,
                  path + ": " + std::to_string(names.size()) + " columns; a table has one for x, and up to 63 to show");
    WEFT_TRY(const std::vector<bool> is_shown, shown(path, names));
    const bool has_layers = is_of_layers(names);
    name_x(names[0]);
    std::map<std::string, Curve> curves;
    std::vector<std::string> order;
    for (;;) {
      WEFT_TRY(const bool has_row, reader.next());
      if (!has_row) break;
      WEFT_TRY(const auto x, number(reader, 0));
      if (!x) return reader.refuse(Errc::parse_failed, "no value in column '" + names[0] + "'");
      std::string layer;
      for (std::size_t i = 1; has_layers && i <= kLayerColumns.size(); ++i)
        layer += (i == 1 ? " [" : ",") + std::string(reader.fields()[i].text);
      if (has_layers) layer += "]";
      for (std::size_t i = 1; i < names.size(); ++i) {
        if (!is_shown[i]) continue;
        WEFT_TRY(const auto y, number(reader, i));
        if (const auto kind = mark_of(names[i])) {
          if (y && *y != 0.0) mark(*kind, *x);
        } else if (y) {
          const auto [curve, is_new] = curves.try_emplace(names[i] + layer);
          if (is_new) order.push_back(curve->first);
          if (order.size() > kMostColumns)
            return fail(Errc::unsupported, path + ": more than " + std::to_string(kMostColumns) +
                                               " lines; give --columns, or a part of the table");
          add_point(curve->second, *x, *y);
        }
      }
    }
    for (const std::string& name : order) take(name, std::move(curves[name]));
    return {};
  }

  static bool is_of_layers(const std::vector<std::string>& names) {
    return names.size() > kLayerColumns.size() + 1 &&
           std::equal(kLayerColumns.begin(), kLayerColumns.end(), names.begin() + 1);
  }
  Result<std::vector<bool>> shown(const std::string& path, const std::vector<std::string>& names) const {
    std::vector<bool> is_shown(names.size(), true);
    const bool has_accuracy = std::find(names.begin(), names.end(), "prequential_accuracy") != names.end();
    for (std::size_t i = 0; i < names.size(); ++i) {
      const std::string& name = names[i];
      if (mark_of(name)) continue;
      if (!columns_.empty())
        is_shown[i] = std::find(columns_.begin(), columns_.end(), name) != columns_.end();
      else if (is_of_layers(names))
        is_shown[i] = name == "dormant";
      else if (has_accuracy)
        is_shown[i] = name.ends_with("accuracy");
    }
    for (const std::string& column : columns_)
      if (std::find(names.begin() + 1, names.end(), column) == names.end())
        return fail(Errc::unknown_name,
                    path + ": has no column '" + column + "' to show" +
                        did_you_mean(column, std::vector<std::string_view>(names.begin() + 1, names.end())));
    return is_shown;
  }

  Status add_grid(const std::string& path, formats::CsvReader& reader) {
    if (!data_.groups.empty()) return mixed(path);
    if (!data_.grid) data_.grid.emplace();
    TaskGrid& grid = *data_.grid;
    const std::size_t tasks = reader.names().size() - 2;
    std::size_t count = 0;
    for (;; ++count) {
      WEFT_TRY(const bool has_row, reader.next());
      if (!has_row) break;
      grid.scenario = std::string(reader.fields()[0].text);
      if (grid.files == 0) grid.rows.emplace_back(tasks, 0.0);
      if (count >= grid.rows.size() || grid.rows[count].size() != tasks) return other_tasks(path, tasks);
      for (std::size_t task = 0; task < tasks; ++task) {
        WEFT_TRY(const auto accuracy, number(reader, task + 2));
        std::optional<double>& mean = grid.rows[count][task];
        if (!accuracy || !mean)
          mean.reset();
        else
          *mean += (*accuracy - *mean) / static_cast<double>(grid.files + 1);
      }
    }
    if (count != grid.rows.size()) return other_tasks(path, tasks);
    ++grid.files;
    return {};
  }

  /// Objects, a line each: accuracies of samples, or returns of episodes.
  Status add_lines(const std::string& path, std::string_view text) {
    if (data_.grid) return mixed(path);
    Curve accuracy, returns;
    std::size_t number = 0;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      const std::string_view line = text.substr(at, end - at);
      at = end + 1;
      ++number;
      if (line.find_first_not_of(" \t\r") == line.npos) continue;
      const auto parsed = parse_json(line, path + ":" + std::to_string(number));
      if (!parsed) return fail(parsed.error());
      if (!parsed->is_object()) return fail(Errc::parse_failed, path + ":" + std::to_string(number) + ": no object");
      const std::string event = text_of(*parsed, "event");
      if (event == "progress") point(*parsed, "samples", "prequential_accuracy", accuracy);
      if (event == "episode") point(*parsed, "step", "return", returns);
      add_mark(*parsed, event);
    }
    name_x(accuracy.x.empty() ? "step" : "samples");
    take("accuracy", std::move(accuracy));
    take("return", std::move(returns));
    return {};
  }

  /// Changes of the task, and alarms: at a sample, or at a step of an agent that acts; what was printed before `sample`
  /// was has `samples` alone.
  void add_mark(const Json& object, const std::string& event) {
    const char* key = "sample";
    if (!object.contains(key)) key = event == "drift" ? "samples" : "step";
    const auto at = object.find(key);
    if (at == object.end() || !at->is_number()) return;
    if (event == "drift" || event == "change") mark(*mark_of("change"), at->get<double>());
    if (event == "drift_seen")
      mark(*mark_of(text_of(object, "level") == "warning" ? "warning" : "alarm"), at->get<double>());
  }
  static std::string text_of(const Json& object, const char* key) {
    const auto found = object.find(key);
    return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
  }
  static void point(const Json& object, const char* x, const char* y, Curve& to) {
    const auto at = object.find(x), value = object.find(y);
    if (at == object.end() || value == object.end() || !at->is_number() || !value->is_number()) return;
    add_point(to, at->get<double>(), value->get<double>());
  }
  static void add_point(Curve& to, double x, double y) {
    if (!std::isfinite(x) || !std::isfinite(y)) return;
    to.x.push_back(x);
    to.y.push_back(y);
  }

  void name_x(const std::string& name) {
    if (data_.x_name.empty()) data_.x_name = name;
  }
  void mark(std::size_t kind, double x) {
    if (std::isfinite(x)) marks_[kind].push_back(x);
  }
  /// Of each kind those of the first file that has some: others are runs of other seeds.
  Status marked(Status added) {
    for (std::size_t kind = 0; added && kind < marks_.size(); ++kind) {
      std::vector<double>& own = marks_[kind];
      std::sort(own.begin(), own.end());
      own.erase(std::unique(own.begin(), own.end()), own.end());
      if (data_.marks[kind].empty()) data_.marks[kind] = std::move(own);
    }
    ++data_.files;
    return added;
  }
  void take(const std::string& name, Curve curve) {
    if (curve.x.empty()) return;
    auto group = std::find_if(data_.groups.begin(), data_.groups.end(),
                              [&](const CurveGroup& each) { return each.name == name; });
    if (group == data_.groups.end()) group = data_.groups.insert(data_.groups.end(), CurveGroup{name, {}});
    std::vector<std::size_t> order(curve.x.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return curve.x[a] < curve.x[b]; });
    Curve sorted;
    for (const std::size_t i : order) add_point(sorted, curve.x[i], curve.y[i]);
    group->curves.push_back(std::move(sorted));
  }

  static Failure mixed(const std::string& path) {
    return fail(Errc::unsupported, path + ": a matrix of tasks and lines do not go into one picture; give one kind");
  }
  static Failure other_tasks(const std::string& path, std::size_t tasks) {
    return fail(Errc::shape_mismatch,
                path + ": " + std::to_string(tasks) + " tasks; the files before have others, or other rows");
  }

  PlotData& data_;
  const std::vector<std::string>& columns_;
  std::array<std::vector<double>, learning::kStreamEventNames.size()> marks_;  // of this file
};

Result<std::vector<std::string>> files_of(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code error;
    if (!std::filesystem::is_directory(path, error)) {
      files.push_back(path);
      continue;
    }
    std::vector<std::string> own;
    for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
      const std::string ending = entry.path().extension().string();
      if (ending == ".csv" || ending == ".jsonl") own.push_back(entry.path().string());
    }
    if (error) return fail(Errc::storage, path + ": " + error.message());
    if (own.empty() && has_journal(path)) own.push_back(path);
    if (own.empty())
      return fail(
          Errc::unsupported,
          path + ": holds no .csv and no .jsonl file (weft run and weft live write them by --logdir and --json)");
    std::sort(own.begin(), own.end());
    files.insert(files.end(), own.begin(), own.end());
  }
  return files;
}

}  // namespace

Result<PlotData> read_plot(const std::vector<std::string>& paths, const std::vector<std::string>& columns) {
  PlotData data;
  WEFT_TRY(const std::vector<std::string> files, files_of(paths));
  for (const std::string& file : files) WEFT_CHECK(PlotReader(data, columns).add(file));
  if (data.groups.empty() && (!data.grid || data.grid->rows.empty()))
    return fail(Errc::unsupported, files[0] + ": holds no numbers to show");
  return data;
}

}  // namespace weft::cli
