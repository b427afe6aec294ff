// SPDX-License-Identifier: Apache-2.0
// The routes of planetbridging's HTTP host.

#include "bridge/comparison.hpp"
#include "bridge/stream.hpp"
#include "server/bridge_api.hpp"

#include <utility>

namespace weft::server {
namespace {

using bridge::Bedrock;

HttpResponse text_of(int status, std::string text) {
  HttpResponse response;
  response.status = status;
  response.content_type = "text/plain; charset=utf-8";
  response.body = std::move(text);
  return response;
}

HttpResponse json_text(int status, std::string text) {
  HttpResponse response;
  response.status = status;
  response.body = std::move(text);
  return response;
}

HttpResponse json_or_failure(const Result<Json>& made) {
  return made ? json_text(200, made->dump(Json::Order::as_set))
              : json_text(500, bridge::write_error(made.error().text()));
}

/// Stores the answer as a report, and measures it against what the framework itself gave, where that is known.
HttpResponse answered(BridgeHost& host, const bridge::StreamRequest& request, bridge::StreamAnswer answer) {
  const bridge::Report report = bridge::report_of(request, answer);
  if (const auto native = host.reports().native_of(request.bedrock, report.planet, report.model_id))
    answer.to_native = bridge::difference_of(*native, report);
  const auto stored = host.reports().store(report);
  if (!stored) return json_text(500, bridge::write_error(stored.error().text()));
  return json_text(200, bridge::write_answer(answer));
}

/// Order of the checks: JSON, names, layers, fixture, network, report.
HttpResponse stream(BridgeHost& host, Bedrock bedrock, const std::string& body) {
  auto json = parse_json(body, "body", bridge::request_limits(bridge::kMostHttpBytes));
  if (!json) return text_of(400, json.error().text());
  if (!json->is_object()) return text_of(400, "body: expected an object");
  const auto is_empty = [&](const char* key) {
    const Json& value = std::as_const(*json)[key];
    return value.is_null() || (value.is_string() && value.text().empty());
  };
  if (is_empty("planet") || is_empty("model_id")) return text_of(400, "planet and model_id required");
  const Json& layers = std::as_const(*json)["layers"];
  if (layers.is_null() || (layers.is_array() && layers.empty())) return text_of(400, "layers required");
  if (!layers.is_array()) return text_of(400, "layers: expected a list of layers");
  const auto request = bridge::request_of(bedrock, *std::move(json), host.reports().directory_of(bedrock));
  if (!request) return text_of(400, request.error().text());
  const auto samples = bridge::samples_of(*request);
  if (!samples) return json_text(500, bridge::write_error("fixture: " + samples.error().text()));
  auto answer = bridge::stream(*request, *samples);
  if (!answer) {
    const int status = answer.error().code() == Errc::storage ? 500 : 400;
    return json_text(status, bridge::write_error(answer.error().text()));
  }
  return answered(host, *request, *std::move(answer));
}

HttpResponse store_report(BridgeHost& host, const std::string& body) {
  auto report = bridge::read_report(body, "body");
  if (!report) return text_of(400, report.error().text());
  const auto stored = host.reports().store(*std::move(report));
  if (!stored) return json_text(500, bridge::write_error(stored.error().text()));
  return json_text(201, Json{{"saved", *stored}}.dump());
}

HttpResponse list_reports(BridgeHost& host) {
  Json all = Json::array();
  for (const Bedrock bedrock : bridge::all_bedrocks()) {
    const auto reports = host.reports().list(bedrock);
    if (!reports) return json_text(500, bridge::write_error(reports.error().text()));
    for (const bridge::Report& each : *reports) all.push_back(bridge::json_of(each));
  }
  return json_text(200, all.dump(Json::Order::as_set));
}

HttpResponse comparison_text(BridgeHost& host, const std::string& query) {
  const auto keys = parse_query(query);
  if (!keys) return text_of(400, keys.error().text());
  const auto given = keys->find("bedrock");
  const auto bedrock = bridge::parse_bedrock(given == keys->end() ? "dense" : given->second);
  if (!bedrock) return text_of(404, "unknown bedrock");
  const auto text = bridge::comparison_text_of(host.reports(), *bedrock);
  return text ? text_of(200, *text) : json_text(500, bridge::write_error(text.error().text()));
}

/// The bedrock that the path names, or an answered exchange and nothing.
std::optional<Bedrock> bedrock_of(const Call& call) {
  const auto found = bridge::parse_bedrock(call.parameter(0));
  if (!found) call.exchange->respond(error_response(404, "not_found_error", "no bedrock has this name"));
  return found;
}

}  // namespace

void add_bridge_routes(Router& router, BridgeHost& host) {
  using Body = Route::Body;
  const auto add = [&](const char* method, const char* path, Body body, std::uint64_t most,
                       std::function<void(Call)> handle) {
    router.add({method, path, body, false, true, std::move(handle), most});
  };
  const auto stream_dense = [&host](Call call) {
    const ExchangePointer exchange = call.exchange;
    host.submit(exchange, [&host, exchange] { return stream(host, Bedrock::dense, exchange->request.body); });
  };
  for (const char* const path : {"/api/v1/loom/stream", "/api/v1/loom/import"})
    add("POST", path, Body::json, bridge::kMostHttpBytes, stream_dense);
  add("POST", "/api/v1/loom/stream/{bedrock}", Body::json, bridge::kMostHttpBytes, [&host](Call call) {
    const auto bedrock = bedrock_of(call);
    const ExchangePointer exchange = call.exchange;
    if (bedrock)
      host.submit(exchange, [&host, exchange, bedrock] { return stream(host, *bedrock, exchange->request.body); });
  });
  add("POST", "/api/v1/report", Body::json, bridge::kMostReportBytes, [&host](Call call) {
    const ExchangePointer exchange = call.exchange;
    host.submit(exchange, [&host, exchange] { return store_report(host, exchange->request.body); });
  });
  add("GET", "/api/v1/reports", Body::none, 0,
      [&host](Call call) { host.submit(call.exchange, [&host] { return list_reports(host); }); });
  add("GET", "/api/v1/compare", Body::none, 0, [&host](Call call) {
    host.submit(call.exchange,
                [&host] { return json_or_failure(bridge::comparison_of(host.reports(), Bedrock::dense)); });
  });
  add("GET", "/api/v1/compare.txt", Body::none, 0, [&host](Call call) {
    const ExchangePointer exchange = call.exchange;
    host.submit(exchange, [&host, exchange] { return comparison_text(host, exchange->request.query); });
  });
  add("GET", "/api/v1/compare/{bedrock}", Body::none, 0, [&host](Call call) {
    if (const auto bedrock = bedrock_of(call))
      host.submit(call.exchange,
                  [&host, bedrock] { return json_or_failure(bridge::comparison_of(host.reports(), *bedrock)); });
  });
  add("GET", "/api/v1/loom/catalog", Body::none, 0, [&host](Call call) {
    host.submit(call.exchange, [&host] { return json_or_failure(bridge::catalog_of(host.reports())); });
  });
}

}  // namespace weft::server
