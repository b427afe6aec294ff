// SPDX-License-Identifier: Apache-2.0

#include "bridge/comparison.hpp"
#include "bridge/fields.hpp"

#include "storage/file_system.hpp"

#include "core/log.hpp"

#include <map>
#include <set>
#include <utility>

namespace weft::bridge {
namespace {

constexpr std::size_t kMostMetaBytes = std::size_t{1} << 20;

/// Names in a directory; none where it is not there.
std::vector<std::string> names_in(const std::string& path) {
  auto names = storage::real_file_system().list(path);
  return names ? *std::move(names) : std::vector<std::string>();
}

/// A model's `meta.json`, or nothing.
std::optional<Json> read_meta(const std::string& directory) {
  const std::string path = directory + "/meta.json";
  const auto bytes = storage::real_file_system().read(path, kMostMetaBytes);
  if (!bytes) return std::nullopt;
  auto json = parse_json(as_text(*bytes), path);
  if (json && json->is_object()) return *std::move(json);
  log_warn(path + ": left out: " + (json ? "no object" : json.error().text()));
  return std::nullopt;
}

Json texts_of(const Json& list) {
  Json out = Json::array();
  for (const Json& each : list)
    if (each.is_string()) out.push_back(each);
  return out;
}

/// One planet's files of a model.
Json planet_row(const Json& meta, const std::string& planet, const std::string& model, const std::string& directory,
                const std::vector<Report>& reports) {
  const Fields fields(meta, "");
  const auto text = [&](const char* key, const std::string& fallback) {
    const auto found = fields.text(key, fallback);
    return found ? *found : fallback;
  };
  Json files = Json::array();
  for (const std::string& each : names_in(directory))
    if (each.ends_with(".entity")) files.push_back(each);
  bool has_report = false, has_loom = false;
  for (const Report& each : reports) {
    if (each.planet != planet || each.model_id != model) continue;
    (each.stage == "loom" ? has_loom : has_report) = true;
  }
  Json row{{"engine", text("engine", planet)},
           {"model_id", text("model_id", model)},
           {"framework_version", text("framework_version", "")}};
  row["artifacts"] = texts_of(meta["artifacts"]);
  row["entity_files"] = std::move(files);
  row["has_report"] = has_report;
  row["has_loom_report"] = has_loom;
  row["dir"] = directory;
  return row;
}

}  // namespace

Result<Json> catalog_of(const ReportStore& reports) {
  WEFT_TRY(const auto all, reports.list(Bedrock::dense));
  WEFT_TRY(Json compared, comparison_of(reports, Bedrock::dense));
  const std::string models = reports.directory_of(Bedrock::dense) + "/models";
  std::map<std::string, Json> rows;
  for (const std::string& planet : names_in(models))
    for (const std::string& model : names_in(models + "/" + planet)) {
      const std::string directory = models + "/" + planet + "/" + model;
      if (const auto meta = read_meta(directory))
        rows[model].push_back(planet_row(*meta, planet, model, directory, all));
    }
  Json list = Json::array();
  for (auto& [model, planets] : rows) {
    std::set<std::string> engines;
    for (const Report& each : all)
      if (each.model_id == model) engines.insert(each.engine);
    Json row{{"model_id", model}};
    row["planets"] = std::move(planets);
    row["report_engines"] = Json(std::vector<std::string>(engines.begin(), engines.end()));
    list.push_back(std::move(row));
  }
  Json out = Json::object();
  out["fixture"] = {{"version", shipped_fixture(Bedrock::dense)},
                    {"seed", 42},
                    {"train_samples", 5000},
                    {"test_samples", 100},
                    {"note", "made by the client"}};
  out["dense"] = std::move(compared);
  out["models"] = std::move(list);
  return out;
}

}  // namespace weft::bridge
