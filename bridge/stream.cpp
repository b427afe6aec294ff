// SPDX-License-Identifier: Apache-2.0

#include "bridge/stream.hpp"

#include "bridge/model.hpp"
#include "bridge/network_plan.hpp"

#include <utility>

namespace weft::bridge {

Result<std::optional<GivenSamples>> samples_of(const StreamRequest& request) {
  using Samples = std::optional<GivenSamples>;
  if (request.skips_inference) return Samples();
  if (request.inputs) {
    WEFT_TRY(GivenSamples given, read_inputs(*request.inputs));
    return Samples(std::move(given));
  }
  if (request.fixture_version.empty()) return Samples();
  if (request.fixtures_directory.empty())
    return fail(Errc::invalid_argument, "fixtures_dir or root required to read the fixture " + request.fixture_version);
  WEFT_TRY(GivenSamples given,
           read_fixture(request.bedrock, request.fixtures_directory + "/" + request.fixture_version + ".npz"));
  return Samples(std::move(given));
}

Result<StreamAnswer> stream(const StreamRequest& request, const std::optional<GivenSamples>& samples) {
  WEFT_TRY(NetworkPlan plan, plan_network(request.bedrock, request.payload));
  WEFT_TRY(Model model, Model::build(std::move(plan)));
  StreamAnswer answer;
  answer.layer_count = model.plan().layer_count;
  answer.weight_bytes = model.plan().weight_bytes;
  answer.output_dim = model.plan().output_dim;
  for (const mesh::PortSpec& port : model.plan().spec.inputs) {
    WEFT_TRY(const std::size_t width, volume(port.shape));
    answer.sample_width += width;
  }
  if (samples) {
    WEFT_TRY(const FittedSamples fitted, fit_samples(*samples, model.plan()));
    WEFT_TRY(answer.outputs, model.forward(fitted));
    answer.sample_count = fitted.count;
  }
  answer.entity_path = entity_path_of(request);
  WEFT_CHECK(model.save(answer.entity_path));
  return answer;
}

Json rows_of(const std::vector<float>& values, std::size_t width) {
  Json rows = Json::array();
  for (std::size_t at = 0; at < values.size(); at += width) {
    Json::Array row;
    row.reserve(width);
    for (std::size_t i = 0; i < width; ++i) row.push_back(Json(static_cast<double>(values[at + i])));
    rows.push_back(Json(std::move(row)));
  }
  return rows;
}

std::string write_answer(const StreamAnswer& answer) {
  Json out{{"status", "ok"}, {"entity_path", answer.entity_path}, {"layer_count", answer.layer_count}};
  if (answer.weight_bytes) out["weight_bytes"] = answer.weight_bytes;
  if (answer.output_dim) out["output_dim"] = answer.output_dim;
  if (answer.sample_count) out["sample_count"] = answer.sample_count;
  if (!answer.outputs.empty()) out["outputs"] = rows_of(answer.outputs, answer.output_dim);
  if (answer.to_native) {
    out["max_abs_diff"] = answer.to_native->max_abs;
    out["mean_abs_diff"] = answer.to_native->mean_abs;
    out["exact_match"] = answer.to_native->is_exact;
  }
  return out.dump(Json::Order::as_set);
}

std::string write_error(const std::string& message) {
  return Json{{"status", "error"}, {"message", message}}.dump(Json::Order::as_set);
}

}  // namespace weft::bridge
