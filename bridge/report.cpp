// SPDX-License-Identifier: Apache-2.0

#include "bridge/report.hpp"

#include "bridge/fields.hpp"

#include "core/printable.hpp"

#include <cmath>
#include <ctime>
#include <utility>

namespace weft::bridge {
namespace {

/// Without spaces at both ends; spaces within and "/" become "_".
std::string file_part(std::string text) {
  const std::size_t first = text.find_first_not_of(" \t"), last = text.find_last_not_of(" \t");
  text = first == text.npos ? "" : text.substr(first, last - first + 1);
  for (char& c : text)
    if (c == ' ' || c == '/') c = '_';
  return text;
}

Status check_part(const char* field, const std::string& text) {
  if (is_path_name(file_part(text))) return {};
  return fail(Errc::invalid_argument, std::string(field) + " is '" + printable(text) +
                                          "', expected at most 128 of A-Z a-z 0-9 . _ -, the first one no dot");
}

Result<std::vector<std::vector<double>>> read_rows(const Fields& fields) {
  std::vector<std::vector<double>> rows;
  const Json* const list = fields.find("outputs");
  if (!list) return rows;
  if (!list->is_array()) return fail(Errc::parse_failed, "outputs: expected a list of rows");
  for (const Json& row : *list) {
    if (!row.is_array()) return fail(Errc::parse_failed, "outputs: expected rows of numbers");
    std::vector<double>& values = rows.emplace_back();
    values.reserve(row.size());
    for (const Json& value : row) {
      if (!value.is_number()) return fail(Errc::parse_failed, "outputs: expected rows of numbers");
      values.push_back(value.get<double>());
    }
  }
  return rows;
}

Result<std::vector<std::string>> read_paths(const Fields& fields) {
  std::vector<std::string> paths;
  const Json* const list = fields.find("artifact_paths");
  if (!list) return paths;
  if (!list->is_array()) return fail(Errc::parse_failed, "artifact_paths: expected a list of paths");
  for (const Json& path : *list) {
    if (!path.is_string()) return fail(Errc::parse_failed, "artifact_paths: expected a list of paths");
    paths.push_back(path.text());
  }
  return paths;
}

Status check_report(const Report& report) {
  if (report.model_id.empty()) return fail(Errc::invalid_argument, "model_id required");
  if (report.planet.empty()) return fail(Errc::invalid_argument, "planet or engine required");
  WEFT_CHECK(check_part("model_id", report.model_id));
  WEFT_CHECK(check_part("planet", report.planet));
  WEFT_CHECK(check_part("stage", report.stage));
  return check_part("format", report.format);
}

}  // namespace

std::string Report::file_name() const {
  return file_part(planet) + "__" + file_part(model_id) + "__" + file_part(stage) + "__" + file_part(format) + ".json";
}

Result<Report> read_report(std::string_view text, std::string_view source_name) {
  WEFT_TRY(const Json json, parse_json(text, source_name, request_limits(kMostReportBytes)));
  if (!json.is_object()) return fail(Errc::parse_failed, std::string(source_name) + ": expected an object");
  const Fields fields(json, "");
  constexpr std::size_t kMost = std::size_t{1} << 40;
  Report report;
  WEFT_TRY(const std::string bedrock, fields.text("bedrock", "dense"));
  const auto known = parse_bedrock(bedrock.empty() ? "dense" : bedrock);
  if (!known) return fail(Errc::unknown_name, "unknown bedrock \"" + printable(bedrock) + "\"");
  report.bedrock = *known;
  WEFT_TRY(report.planet, fields.text("planet"));
  WEFT_TRY(report.engine, fields.text("engine"));
  WEFT_TRY(report.stage, fields.text("stage"));
  WEFT_TRY(report.format, fields.text("format"));
  WEFT_TRY(report.model_id, fields.text("model_id"));
  WEFT_TRY(report.framework_version, fields.text("framework_version"));
  WEFT_TRY(report.fixture_version, fields.text("fixture_version"));
  WEFT_TRY(report.input_dim, fields.whole("input_dim", 0, kMost));
  WEFT_TRY(report.output_dim, fields.whole("output_dim", 0, kMost));
  WEFT_TRY(report.sample_count, fields.whole("sample_count", 0, kMost));
  WEFT_TRY(report.outputs, read_rows(fields));
  WEFT_TRY(report.artifact_paths, read_paths(fields));
  WEFT_TRY(report.train_skipped, fields.flag("train_skipped"));
  WEFT_TRY(report.received_at, fields.text("received_at"));
  if (report.planet.empty()) report.planet = report.engine;
  if (report.engine.empty()) report.engine = report.planet;
  if (report.stage.empty()) report.stage = "native";
  if (report.format.empty()) report.format = "native";
  WEFT_CHECK(check_report(report));
  return report;
}

Json json_of(const Report& report) {
  Json rows = Json::array();
  for (const auto& row : report.outputs) rows.push_back(Json(row));
  Json out{{"bedrock", name(report.bedrock)},
           {"planet", report.planet},
           {"engine", report.engine},
           {"stage", report.stage},
           {"format", report.format},
           {"model_id", report.model_id},
           {"framework_version", report.framework_version},
           {"fixture_version", report.fixture_version},
           {"input_dim", report.input_dim},
           {"output_dim", report.output_dim},
           {"sample_count", report.sample_count}};
  out["outputs"] = std::move(rows);
  if (!report.artifact_paths.empty()) out["artifact_paths"] = Json(report.artifact_paths);
  out["train_skipped"] = report.train_skipped;
  out["received_at"] = report.received_at;
  return out;
}

Report report_of(const StreamRequest& request, const StreamAnswer& answer) {
  Report report;
  report.bedrock = request.bedrock;
  report.planet = report.engine = request.planet();
  report.stage = "loom";
  report.format = "entity";
  report.model_id = request.model();
  report.fixture_version = request.fixture_version;
  // The tokens of a mixer are not counted there.
  constexpr std::size_t kMixerInput = 8;
  report.input_dim = request.bedrock == Bedrock::mixer ? kMixerInput : answer.sample_width;
  report.output_dim = answer.output_dim;
  report.sample_count = answer.sample_count;
  for (std::size_t at = 0; at < answer.outputs.size(); at += answer.output_dim) {
    const auto begin = answer.outputs.begin() + static_cast<std::ptrdiff_t>(at);
    report.outputs.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(answer.output_dim));
  }
  report.artifact_paths = {answer.entity_path};
  report.train_skipped = true;
  return report;
}

std::optional<Difference> difference_of(const Report& a, const Report& b) {
  if (a.outputs.empty() || a.outputs.size() != b.outputs.size()) return std::nullopt;
  Difference out;
  double sum = 0;
  std::size_t count = 0;
  for (std::size_t row = 0; row < a.outputs.size(); ++row) {
    if (a.outputs[row].size() != b.outputs[row].size()) return std::nullopt;
    for (std::size_t i = 0; i < a.outputs[row].size(); ++i, ++count) {
      const double distance = std::fabs(a.outputs[row][i] - b.outputs[row][i]);
      sum += distance;
      out.max_abs = std::fmax(out.max_abs, distance);
      out.is_exact &= distance == 0;
    }
  }
  if (count == 0 || !std::isfinite(sum)) return std::nullopt;
  out.mean_abs = sum / static_cast<double>(count);
  return out;
}

std::string now_in_utc() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  const std::size_t size = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return {text, size};
}

}  // namespace weft::bridge
