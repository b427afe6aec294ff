// SPDX-License-Identifier: Apache-2.0

#include "cli/asked_model.hpp"
#include "cli/json_line.hpp"
#include "cli/known_labels.hpp"
#include "cli/report.hpp"
#include "cli/samples.hpp"
#include "cli/table_flags.hpp"
#include "cli/table_source.hpp"
#include "cli/terminal.hpp"
#include "cli/text_format.hpp"
#include "cli/verb.hpp"

#include "learning/evaluation.hpp"
#include "learning/table.hpp"

#include "kernels/softmax.hpp"

#include "core/json.hpp"
#include "core/printable.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace weft::cli {
namespace {

using learning::SampleReader;

// Rows computed together at most; those that have come are not kept waiting for others.
constexpr std::size_t kBatch = 256;

struct PredictRequest {
  std::string file, data;
  TableFlags table;
  std::size_t threads = 0;
  std::uint64_t max_memory = 0;
  std::optional<std::string> format;
  bool values = false, probabilities = false, no_class = false, report = false, json = false;
};

/// The shortest text that reads back as the same float.
std::string shortest(float value) {
  std::array<char, 32> text;
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

/// Writes answers to stdout, a line each: CSV under a heading, or a JSON object.
class AnswerPrinter {
 public:
  AnswerPrinter(const AskedModel& model, const PredictRequest& request)
      : model_(model),
        names_(model.names()),
        has_class_(model.is_classifier() && !request.no_class),
        has_values_(request.values || request.probabilities || !has_class_),
        in_units_(!model.is_classifier()),
        json_(request.json) {}

  void heading() const {
    if (json_) return;
    std::string line;
    for (std::size_t i = 0; has_class_ && i < labels(); ++i) line += (i ? "," : "") + label_name(i);
    for (std::uint32_t i = 0; has_values_ && i < model_.width(); ++i) line += (line.empty() ? "" : ",") + value_name(i);
    put(line);
  }
  /// `id`: of the row, as JSON; empty: it has none.
  void row(std::span<const float> values, const std::string& id) const {
    if (json_) return print_json(object(values, id));
    std::string line;
    for (std::size_t i = 0; has_class_ && i < labels(); ++i)
      line += (i ? "," : "") + formats::csv_field(answer(values, i));
    for (std::size_t i = 0; has_values_ && i < values.size(); ++i)
      line += (i > 0 || has_class_ ? "," : "") + shortest(told(values, i));
    put(line);
  }
  /// A row that was left out: so that answers stay beside their questions.
  void nothing() const {
    if (json_) return print_json(nullptr);
    put(std::string((has_class_ ? labels() : 0) + (has_values_ ? model_.width() : 0) - 1, ','));
  }

 private:
  std::size_t labels() const { return model_.parts().size() - 1; }
  std::string answer(std::span<const float> values, std::size_t part) const {
    const std::size_t first = model_.parts()[part], width = model_.parts()[part + 1] - first;
    return model_.class_name(part, learning::largest(values.subspan(first, width)));
  }
  float told(std::span<const float> values, std::size_t i) const {
    return in_units_ ? static_cast<float>(model_.units().told(values[i], i)) : values[i];
  }
  Json object(std::span<const float> values, const std::string& id) const {
    Json line = Json::object();
    if (!id.empty()) line["id"] = *parse_json(id, "id");
    std::vector<std::string> classes;
    std::vector<float> shown;
    for (std::size_t i = 0; has_class_ && i < labels(); ++i) classes.push_back(answer(values, i));
    for (std::size_t i = 0; has_values_ && i < values.size(); ++i) shown.push_back(told(values, i));
    add_answer(line, model_.outputs(), classes, shown);
    return line;
  }
  std::string label_name(std::size_t i) const {
    return labels() == 1 ? "class"
                         : formats::csv_field(names_.targets.empty() ? "class" + names_.target(i) : names_.target(i));
  }
  std::string value_name(std::uint32_t i) const {
    if (in_units_) return names_.targets.empty() ? "y" + std::to_string(i + 1) : formats::csv_field(names_.target(i));
    const auto& parts = model_.parts();
    const auto part = static_cast<std::size_t>(std::upper_bound(parts.begin(), parts.end(), i) - parts.begin()) - 1;
    const std::string name = model_.class_name(part, i - static_cast<std::uint32_t>(parts[part]));
    return formats::csv_field(labels() == 1 ? name : names_.target(part) + ":" + name);
  }
  static void put(const std::string& line) { std::printf("%s\n", escaped(line).c_str()); }

  const AskedModel& model_;
  AnswerNames names_;
  bool has_class_, has_values_, in_units_, json_;
};

/// Names of the classes of each label that a sample has.
std::vector<std::vector<std::string>> class_names(const AskedModel& model) {
  std::vector<std::vector<std::string>> names;
  const auto& parts = model.parts();
  for (std::size_t part = 0; model.is_classifier() && part + 1 < parts.size(); ++part) {
    names.emplace_back();
    for (std::uint32_t i = 0; i < parts[part + 1] - parts[part]; ++i) names[part].push_back(model.class_name(part, i));
  }
  return names;
}

/// Answers to the rows of one table, batch by batch.
class Prediction {
 public:
  Prediction(const AskedModel& model, const PredictRequest& request, SampleReader samples)
      : model_(model),
        request_(request),
        samples_(std::move(samples)),
        printer_(model, request),
        labels_(class_names(model)),
        evaluation_(model.evaluation()),
        range_(model.graph(), model.input()) {}

  Status run() {
    if (!request_.report) printer_.heading();
    for (;;) {
      auto goes_on = take_batch();
      WEFT_CHECK(answer());  // also what came before a row that is refused
      if (!goes_on) return fail(std::move(goes_on).error());
      if (!*goes_on) break;
    }
    print_left_out(samples_.dropped());
    if (rows_ == 0 && samples_.dropped() == 0)
      return fail(Errc::parse_failed, samples_.table().source_name() + ": no rows");
    if (request_.report) print_report();
    return {};
  }

 private:
  /// Rows that have come, at least one where there is one. False: they were the last.
  Result<bool> take_batch() {
    inputs_.clear();
    expected_.clear();
    expected_values_.clear();
    dropped_before_.clear();
    ids_.clear();
    do {
      WEFT_TRY(const bool has_sample, samples_.next());
      if (!has_sample) return false;
      if (request_.data == "-" && samples_.table().is_cut())
        return samples_.table().refuse(Errc::parse_failed,
                                       "the data end inside this line, without a line break; nothing of it is used");
      if (request_.report) {
        WEFT_CHECK(labels_.take(samples_, expected_));
        const auto values = samples_.target_values();
        expected_values_.insert(expected_values_.end(), values.begin(), values.end());
      }
      inputs_.insert(inputs_.end(), samples_.values().begin(), samples_.values().end());
      dropped_before_.push_back(samples_.dropped());
      ids_.push_back(samples_.table().id());
    } while (dropped_before_.size() < kBatch && samples_.table().is_ready());
    return true;
  }

  Status answer() {
    const std::size_t rows = dropped_before_.size(), width = model_.width();
    if (rows == 0) return {};
    outputs_.resize(rows * width);
    WEFT_CHECK(model_.answer(inputs_, rows, outputs_));
    warn_of_range();
    const kernels::MatrixView all{outputs_.data(), rows, width, width};
    rows_ += rows;
    if (request_.report) {
      if (model_.is_classifier())
        evaluation_.add(all, std::span<const std::uint32_t>(expected_));
      else
        evaluation_.add(all, std::span<const float>(expected_values_));
      return {};
    }
    for (std::size_t i = 0; request_.probabilities && i + 1 < model_.parts().size(); ++i) {
      const std::size_t first = model_.parts()[i];
      const kernels::MatrixView part{outputs_.data() + first, rows, model_.parts()[i + 1] - first, width};
      kernels::softmax(part, 1.0f, part);
    }
    for (std::size_t i = 0; i < rows; ++i) {
      print_left_out(dropped_before_[i]);
      printer_.row({all.row(i), width}, ids_[i]);
    }
    if (std::fflush(stdout) != 0) return fail(Errc::storage, "stdout could not be written");
    return {};
  }

  /// Once: a table in another unit has it in every row.
  void warn_of_range() {
    if (is_warned_) return;
    const auto note = range_.note(inputs_);
    if (!note) return;
    is_warned_ = true;
    std::fprintf(stderr, "weft: note: %s: %s\n", escaped(samples_.table().source_name()).c_str(),
                 escaped(*note).c_str());
  }

  void print_left_out(std::size_t until) {
    for (; told_dropped_ < until; ++told_dropped_)
      if (!request_.report) printer_.nothing();
  }

  void print_report() const {
    const AnswerNames names = model_.names();
    if (request_.json) {
      Json line{{"event", "report"}};
      line.update(evaluation_json(evaluation_, names));
      return print_json(line);
    }
    const Terminal out = Terminal::of(STDOUT_FILENO);
    if (model_.is_classifier())
      std::printf("accuracy    %s of %s\n", percent(evaluation_.accuracy()).c_str(),
                  grouped(evaluation_.samples()).c_str());
    else
      std::printf("samples     %s\n", grouped(evaluation_.samples()).c_str());
    std::printf("loss        %s\n\n%s", loss_text(evaluation_.loss()).c_str(),
                evaluation_report(evaluation_, names, out.columns(), out.unicode).c_str());
  }

  const AskedModel& model_;
  const PredictRequest& request_;
  SampleReader samples_;
  AnswerPrinter printer_;
  KnownLabels labels_;
  learning::Evaluation evaluation_;
  RangeCheck range_;
  bool is_warned_ = false;
  std::vector<float> inputs_, outputs_, expected_values_;
  std::vector<std::uint32_t> expected_;
  std::vector<std::size_t> dropped_before_;  // rows left out before each of the batch, since the beginning
  std::vector<std::string> ids_;             // of each of the batch
  std::size_t told_dropped_ = 0;
  std::uint64_t rows_ = 0;
};

Status predict(const PredictRequest& request) {
  if (request.values && request.probabilities)
    return fail(Errc::invalid_argument, "--values and --probabilities: give one");
  if (request.report && (request.values || request.probabilities))
    return fail(Errc::invalid_argument, "--report: counts answers and prints none; leave --values and --probabilities");
  if (request.no_class && !request.values && !request.probabilities)
    return fail(Errc::invalid_argument, "--no-class: give --values or --probabilities, which is what is left");
  mesh::MeshOptions options;
  options.threads = request.threads;
  options.max_memory = request.max_memory;
  WEFT_TRY(const auto model, AskedModel::open(request.file, std::move(options)));
  if (!model->is_classifier() && request.probabilities)
    return fail(Errc::unsupported, request.file +
                                       ": --probabilities needs a network that learned classes "
                                       "(learning.loss: cross_entropy)");
  if (!model->has_weights())
    std::fprintf(stderr, "weft: note: %s holds no weights: a network as it begins answers by chance\n",
                 escaped(request.file).c_str());
  learning::TableOptions table = model->table();
  apply(request.table, table);
  if (!model->is_classifier() && table.targets.empty()) table.targets = learning::target_columns(table);
  // Rows without their answers need no columns of them.
  const bool needs_columns = request.report || !request.table.labels.empty() || !request.table.targets.empty();
  if (needs_columns && learning::target_columns(table).size() != model->answers())
    return fail(Errc::invalid_argument, std::string(model->is_classifier() ? "--label" : "--target") +
                                            ": the model gives " + std::to_string(model->answers()) +
                                            " answers a row; name the column of each");
  if (table.missing == learning::Missing::mean && table.fill.empty())
    return fail(Errc::invalid_argument, request.file +
                                            ": stream.missing: the model keeps no means (stream.fill), as its "
                                            "table lacked no values; give --missing refuse, drop or zero");
  TableExpected expected{.rows = {.features = model->features()}, .needs_labels = request.report};
  if (request.format) expected.rows.format = *learning::parse_row_format(*request.format);
  WEFT_TRY(auto rows, open_table(request.data, table, expected));
  const auto use = request.report ? SampleReader::Label::required : SampleReader::Label::optional;
  WEFT_TRY(auto samples, SampleReader::open(std::move(rows), table, use, model->features()));
  return Prediction(*model, request, std::move(samples)).run();
}

void add_question(CLI::App& app, PredictRequest& r) {
  add_argument(app, "MODEL", r.file, "An .entity file, or the directory that a run is kept in").required();
  add_option(app, "data", r.data, "A table, JSON lines or an IDX file; -: standard input, as it comes")
      .type_name("FILE")
      .required();
  add_row_format(app, r.format);
  add_table_flags(app, r.table);
  add_option(app, "threads", r.threads, "Threads at most; 0: all usable cores").within(std::uint64_t{0}, kMostThreads);
  add_max_memory(app, r.max_memory);
}

}  // namespace

Verb add_predict(CLI::App& program) {
  CLI::App* app = add_verb(program, "predict", "Ask a model about the rows of a table; it learns nothing of them");
  auto request = std::make_shared<PredictRequest>();
  PredictRequest& r = *request;
  add_question(*app, r);
  add_flag(*app, "values", r.values, "The values of the output too, not the class alone");
  add_flag(*app, "probabilities", r.probabilities, "Their softmax too");
  add_flag(*app, "no-class", r.no_class, "These alone, without the class");
  add_flag(*app, "report", r.report, "No answers: as weft eval");
  add_flag(*app, "json", r.json, "A JSON object a row");
  return {app, [request] { return predict(*request); }};
}

Verb add_eval(CLI::App& program) {
  CLI::App* app = add_verb(program, "eval", "Compare a model's answers with a table's labels or values");
  auto request = std::make_shared<PredictRequest>();
  request->report = true;
  add_question(*app, *request);
  add_flag(*app, "json", request->json, "One JSON object");
  return {app, [request] { return predict(*request); }};
}

}  // namespace weft::cli
