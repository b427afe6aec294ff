// SPDX-License-Identifier: Apache-2.0

#include "bridge/request.hpp"

#include "bridge/fields.hpp"

#include "core/printable.hpp"

#include <filesystem>
#include <utility>

namespace weft::bridge {
namespace {

const std::string& first_given(const std::string& a, const std::string& b) { return a.empty() ? b : a; }

/// The kind of the first layer, where the payload names no bedrock.
std::string kind_of_first_layer(const Json& payload) {
  const Json& layers = payload["layers"];
  if (!layers.is_array() || layers.empty()) return {};
  const auto kind = Fields(layers[0], "").text("kind");
  return kind ? *kind : std::string();
}

Result<Bedrock> read_bedrock(const Fields& envelope, const StreamFlags& flags, const Json& payload) {
  WEFT_TRY(const std::string stated, envelope.text("bedrock"));
  WEFT_TRY(const std::string of_payload, Fields(payload, "payload").text("bedrock"));
  std::string text = first_given(first_given(stated, flags.bedrock), of_payload);
  if (text.empty()) text = kind_of_first_layer(payload);
  if (text.empty()) return Bedrock::dense;
  if (const auto found = parse_bedrock(text)) return *found;
  std::string known;
  for (const Bedrock each : all_bedrocks()) known += (known.empty() ? "" : ", ") + std::string(name(each));
  return fail(Errc::unknown_name, "unknown bedrock \"" + printable(text) + "\"; known are " + known);
}

Status check_name(const char* field, const std::string& text) {
  if (is_path_name(text)) return {};
  return fail(Errc::invalid_argument, std::string(field) + " is '" + printable(text) +
                                          "', expected 1 to 128 of A-Z a-z 0-9 . _ -, the first one no dot");
}

/// Planet and model are parts of the file's path; elsewhere they may be left out.
Status check_names(StreamRequest& request) {
  const Fields payload(request.payload, "payload");
  for (const char* const field : {"planet", "model_id"}) {
    WEFT_TRY(const std::string text, payload.text(field));
    if (request.output_path.empty() || !text.empty()) WEFT_CHECK(check_name(field, text));
    request.payload[field] = text;
  }
  if (!request.fixture_version.empty()) WEFT_CHECK(check_name("fixture_version", request.fixture_version));
  return {};
}

}  // namespace

JsonLimits request_limits(std::size_t max_bytes) {
  return {.max_bytes = max_bytes, .max_depth = 64, .max_values = max_bytes / 2};
}

Result<StreamRequest> read_request(std::string_view document, const StreamFlags& flags) {
  if (document.empty()) return fail(Errc::parse_failed, "stdin is empty, expected one JSON document");
  WEFT_TRY(Json json, parse_json(document, "stdin", request_limits(kMostPipeBytes)));
  const bool is_envelope = json.contains("payload");
  if (!json.is_object() || (!is_envelope && !json.contains("layers")))
    return fail(Errc::parse_failed,
                "stdin has neither \"payload\" nor \"layers\", expected an object with one of them");
  StreamRequest request;
  request.payload = is_envelope ? std::move(json["payload"]) : json;
  if (!request.payload.is_object()) return fail(Errc::parse_failed, "payload is no object");
  static const Json kNone = Json::object();
  const Fields envelope(is_envelope ? json : kNone, "");
  WEFT_TRY(request.bedrock, read_bedrock(envelope, flags, request.payload));
  WEFT_TRY(std::string root, envelope.text("root"));
  WEFT_TRY(request.models_directory, envelope.text("models_dir", flags.models_directory));
  WEFT_TRY(request.fixtures_directory, envelope.text("fixtures_dir", flags.fixtures_directory));
  WEFT_TRY(request.output_path, envelope.text("output_path", flags.output_path));
  WEFT_TRY(const std::string version, envelope.text("fixture_version", flags.fixture_version));
  WEFT_TRY(const std::string of_payload, Fields(request.payload, "payload").text("fixture_version"));
  WEFT_TRY(const bool skips, envelope.flag("skip_infer"));
  request.fixture_version = first_given(version, of_payload);
  request.skips_inference = skips || flags.skips_inference;
  if (const Json* const inputs = envelope.find("inputs")) request.inputs = *inputs;
  if (root.empty()) root = flags.root;
  const std::string below = root.empty() ? "" : root + "/python/" + std::string(name(request.bedrock));
  if (request.models_directory.empty() && !below.empty()) request.models_directory = below + "/models";
  if (request.fixtures_directory.empty() && !below.empty()) request.fixtures_directory = below + "/fixtures";
  if (request.models_directory.empty() && request.output_path.empty())
    return fail(Errc::invalid_argument, "models_dir or output_path required");
  WEFT_CHECK(check_names(request));
  return request;
}

Result<StreamRequest> request_of(Bedrock bedrock, Json payload, const std::string& bedrock_directory) {
  StreamRequest request;
  request.bedrock = bedrock;
  request.payload = std::move(payload);
  request.models_directory = bedrock_directory + "/models";
  request.fixtures_directory = bedrock_directory + "/fixtures";
  WEFT_TRY(request.fixture_version, Fields(request.payload, "").text("fixture_version"));
  WEFT_CHECK(check_names(request));
  return request;
}

std::string entity_path_of(const StreamRequest& request) {
  const std::string& model = request.model();
  const std::filesystem::path path =
      request.output_path.empty()
          ? std::filesystem::path(request.models_directory) / request.planet() / model / (model + ".stream.entity")
          : std::filesystem::path(request.output_path);
  std::error_code none;
  const auto absolute = std::filesystem::absolute(path, none);
  return (none ? path : absolute).lexically_normal().string();
}

}  // namespace weft::bridge
