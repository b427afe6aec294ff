// SPDX-License-Identifier: Apache-2.0

#include "bridge/comparison.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <string_view>
#include <utility>

namespace weft::bridge {
namespace {

constexpr std::array<std::string_view, 4> kComparedPlanets{"pytorch", "tensorflow", "jax", "sklearn"};
constexpr std::array<std::string_view, 3> kStages{"native", "export", "loom"};

std::size_t stage_place(const std::string& stage) {
  return static_cast<std::size_t>(std::find(kStages.begin(), kStages.end(), stage) - kStages.begin());
}

Json pair_of(const Report& from, const std::string& stage, const std::string& format, const Report* to) {
  Json pair{{"planet", from.planet},      {"model_id", from.model_id}, {"from_stage", from.stage},
            {"from_format", from.format}, {"to_stage", stage},         {"to_format", format}};
  const auto found = to ? difference_of(from, *to) : std::nullopt;
  pair["max_abs_diff"] = found ? found->max_abs : 0.0;
  pair["mean_abs_diff"] = found ? found->mean_abs : 0.0;
  pair["exact_match"] = found && found->is_exact;
  if (!found) pair["pending"] = true;
  return pair;
}

/// The pairs of one model on one planet; without a native step there are none.
Json pairs_of(const std::vector<Report>& steps) {
  Json pairs = Json::array();
  if (steps.empty() || steps.front().stage != "native") return pairs;
  const Report& native = steps.front();
  bool has_loom = false;
  for (const Report& each : steps) {
    if (each.stage != "export" && each.stage != "loom") continue;
    if (each.stage == "loom" && std::exchange(has_loom, true)) continue;
    pairs.push_back(pair_of(native, each.stage, each.format, &each));
  }
  if (!has_loom) pairs.push_back(pair_of(native, "loom", "entity", nullptr));
  return pairs;
}

}  // namespace

Result<Json> comparison_of(const ReportStore& reports, Bedrock bedrock) {
  WEFT_TRY(const auto all, reports.list(bedrock));
  std::map<std::string, std::map<std::string, std::vector<Report>>> models;
  std::size_t count = 0;
  for (const Report& each : all) {
    if (std::find(kComparedPlanets.begin(), kComparedPlanets.end(), each.planet) == kComparedPlanets.end()) continue;
    models[each.model_id][each.planet].push_back(each);
    ++count;
  }
  Json list = Json::array();
  for (auto& [model, planets] : models) {
    Json pipelines = Json::array();
    for (auto& [planet, steps] : planets) {
      std::stable_sort(steps.begin(), steps.end(), [](const Report& a, const Report& b) {
        const std::size_t i = stage_place(a.stage), j = stage_place(b.stage);
        return i != j ? i < j : a.format < b.format;
      });
      Json rows = Json::array();
      for (const Report& each : steps) rows.push_back(json_of(each));
      Json pipeline{{"planet", planet}};
      pipeline["steps"] = std::move(rows);
      pipeline["compare"] = pairs_of(steps);
      pipelines.push_back(std::move(pipeline));
    }
    Json row{{"model_id", model}};
    row["pipelines"] = std::move(pipelines);
    list.push_back(std::move(row));
  }
  Json out{{"fixture_version", shipped_fixture(bedrock)}, {"report_count", count}};
  out["models"] = std::move(list);
  return out;
}

Result<std::string> comparison_text_of(const ReportStore& reports, Bedrock bedrock) {
  WEFT_TRY(const Json all, comparison_of(reports, bedrock));
  std::string text;
  for (const Json& model : all["models"])
    for (const Json& pipeline : model["pipelines"])
      for (const Json& pair : pipeline["compare"]) {
        text += pair["model_id"].text() + " " + pair["planet"].text() + " " + pair["from_stage"].text() + "/" +
                pair["from_format"].text() + " -> " + pair["to_stage"].text() + "/" + pair["to_format"].text();
        char numbers[96];
        std::snprintf(numbers, sizeof numbers, " max %.6e mean %.6e\n", pair["max_abs_diff"].get<double>(),
                      pair["mean_abs_diff"].get<double>());
        text += pair.contains("pending") ? " pending\n" : numbers;
      }
  return text;
}

}  // namespace weft::bridge
