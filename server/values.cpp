// SPDX-License-Identifier: Apache-2.0

#include "server/values.hpp"

#include "core/json_reader.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <memory>
#include <utility>

namespace weft::server {
namespace {

static_assert(std::endian::native == std::endian::little, "raw bodies are copied");

Status append_numbers(const Json& json, const std::string& path, int depth, std::vector<float>& to) {
  if (json.is_number()) {
    const float value = static_cast<float>(json.get<double>());
    if (!std::isfinite(value)) return fail(Errc::not_finite, path + ": " + json.dump() + " is no finite float32");
    to.push_back(value);
    return {};
  }
  if (!json.is_array() || depth == 8)
    return fail(Errc::parse_failed, path + ": found " + json.dump().substr(0, 64) + ", expected numbers in arrays");
  for (const Json& each : json) WEFT_CHECK(append_numbers(each, path, depth + 1, to));
  return {};
}

Failure no_port(const std::string& path, std::string_view name, const std::vector<MeshDescription::End>& known) {
  std::string listed;
  for (const auto& each : known) listed += (listed.empty() ? "" : ", ") + each.name;
  return fail(Errc::unknown_name, path + ": '" + std::string(name) + "' is none of " + listed);
}

bool wants_raw(const HttpRequest& request) {
  return request.header("accept").find("application/octet-stream") != std::string_view::npos;
}

/// The answer: {"outputs":{...},"rows":n}, or raw float32 of the only output.
HttpResponse format_forward(const std::vector<std::string>& names, std::size_t rows, bool raw,
                            const std::vector<std::span<const float>>& values) {
  HttpResponse response;
  if (raw) {
    response.content_type = "application/octet-stream";
    response.headers.push_back({"X-Weft-Shape", std::to_string(rows) + "," + std::to_string(values[0].size() / rows)});
    response.body = raw_of(values[0]);
    return response;
  }
  std::string& text = response.body;
  text = "{\"outputs\":{";
  for (std::size_t i = 0; i < names.size(); ++i) {
    text += (i ? "," : "") + Json(names[i]).dump() + ":";
    append_rows(text, values[i], rows, true);
  }
  text += "},\"rows\":" + std::to_string(rows) + "}";
  return response;
}

Status check_rows(ForwardRequest& forward, const MeshDescription& of) {
  for (const auto& port : forward.inputs) {
    const std::size_t width = of.input(port.name)->width;
    if (port.values.empty() || port.values.size() % width != 0)
      return fail(Errc::shape_mismatch, "inputs." + port.name + ": " + std::to_string(port.values.size()) +
                                            " values, no whole rows of " + std::to_string(width));
    const std::size_t rows = port.values.size() / width;
    if (forward.rows != 0 && rows != forward.rows)
      return fail(Errc::shape_mismatch, "inputs." + port.name + ": " + std::to_string(rows) +
                                            " rows where another has " + std::to_string(forward.rows));
    forward.rows = rows;
  }
  if (forward.rows == 0) return fail(Errc::parse_failed, "inputs: none is given");
  return {};
}

Status read_raw_forward(const HttpRequest& request, const MeshDescription& of, ForwardRequest& forward) {
  if (of.inputs.size() != 1)
    return fail(Errc::invalid_argument, "a raw body is of a network with one input; this one has " +
                                            std::to_string(of.inputs.size()) + ": send JSON");
  WEFT_TRY(auto values, read_raw(request.body));
  for (const float each : values)
    if (!std::isfinite(each)) return fail(Errc::not_finite, "body: a value that is not finite");
  if (request.has_header("x-weft-shape")) {
    WEFT_TRY(const auto shape, read_shape(request.header("x-weft-shape")));
    if (shape.size() != 2 || shape[1] != of.inputs[0].width || shape[0] * shape[1] != values.size())
      return fail(Errc::shape_mismatch, "X-Weft-Shape '" + std::string(request.header("x-weft-shape")) +
                                            "': the body has " + std::to_string(values.size()) +
                                            " values, the input '" + of.inputs[0].name + "' " +
                                            std::to_string(of.inputs[0].width) + " a row");
  }
  forward.inputs.push_back({of.inputs[0].name, std::move(values)});
  return {};
}

Status read_json_forward(const HttpRequest& request, const MeshDescription& of, ForwardRequest& forward) {
  WEFT_TRY(const Json json, parse_body(request.body));
  WEFT_TRY(JsonReader reader, JsonReader::open(json));
  WEFT_TRY(const JsonValue inputs, reader.value("inputs"));
  if (!inputs.is_object()) return inputs.unexpected("an object of ports");
  for (const auto& [name, value] : inputs.raw().members()) {
    if (!of.input(name)) return no_port("inputs", name, of.inputs);
    WEFT_TRY(auto values, read_numbers(value, "inputs." + name));
    forward.inputs.push_back({name, std::move(values)});
  }
  if (const auto outputs = reader.find("outputs")) {
    WEFT_TRY(const auto names, outputs->array(1, of.outputs.size()));
    for (const JsonValue& each : names) {
      WEFT_TRY(const std::string name, each.string());
      if (!of.output(name)) return no_port("outputs", name, of.outputs);
      forward.outputs.push_back(name);
    }
  }
  return reader.finish();
}

}  // namespace

void append_number(std::string& text, float value) {
  char digits[32];
  if (!std::isfinite(value)) {
    text += "null";
    return;
  }
  text.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
}

void append_rows(std::string& text, std::span<const float> values, std::size_t rows, bool nested) {
  const std::size_t width = values.size() / std::max<std::size_t>(rows, 1);
  text += '[';
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i > 0 && nested && i % width == 0) text += ']';
    if (i > 0) text += ',';
    if (nested && i % width == 0) text += '[';
    append_number(text, values[i]);
  }
  text += nested && !values.empty() ? "]]" : "]";
}

Result<std::vector<float>> read_numbers(const Json& json, const std::string& path) {
  std::vector<float> values;
  if (!json.is_array()) return fail(Errc::parse_failed, path + ": expected an array of numbers");
  WEFT_CHECK(append_numbers(json, path, 0, values));
  return values;
}

Result<std::vector<float>> read_raw(std::string_view bytes) {
  if (bytes.size() % sizeof(float) != 0)
    return fail(Errc::parse_failed, "body: " + std::to_string(bytes.size()) + " bytes are no whole float32 values");
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

std::string raw_of(std::span<const float> values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size_bytes());
}

Result<std::vector<std::uint64_t>> read_shape(std::string_view text) {
  std::vector<std::uint64_t> shape;
  const char *at = text.data(), *const end = text.data() + text.size();
  while (true) {
    const auto [next, error] = std::from_chars(at, end, shape.emplace_back());
    const bool is_fine = error == std::errc() && shape.back() > 0 && shape.back() <= UINT32_MAX && shape.size() <= 8;
    if (!is_fine || (next != end && *next != ','))
      return fail(Errc::parse_failed, "X-Weft-Shape '" + std::string(text) + "': give sizes with commas between them");
    if (next == end) return shape;
    at = next + 1;
  }
}

Result<ForwardRequest> read_forward(const HttpRequest& request, const MeshDescription& of) {
  ForwardRequest forward;
  const bool is_raw = request.header("content-type").starts_with("application/octet-stream");
  WEFT_CHECK(is_raw ? read_raw_forward(request, of, forward) : read_json_forward(request, of, forward));
  if (forward.outputs.empty())
    for (const auto& each : of.outputs) forward.outputs.push_back(each.name);
  WEFT_CHECK(check_rows(forward, of));
  const bool raw = wants_raw(request);
  if (raw && forward.outputs.size() != 1)
    return fail(Errc::invalid_argument, "a raw answer holds one output; name it in \"outputs\"");
  forward.format = [names = forward.outputs, rows = forward.rows,
                    raw](const std::vector<std::span<const float>>& values) {
    return format_forward(names, rows, raw, values);
  };
  return forward;
}

// --- samples

std::vector<mesh::RunInput> LearnBatch::run_inputs() const {
  std::vector<mesh::RunInput> out;
  for (const Port& each : inputs) out.push_back({each.name, each.values});
  return out;
}

std::vector<learning::Target> LearnBatch::run_targets() const {
  std::vector<learning::Target> out;
  for (const Goal& each : targets) {
    learning::Target target;
    target.output = each.output;
    target.labels = each.labels;
    target.values = each.values;
    target.gradient = each.gradient;
    target.weights = each.weights;
    out.push_back(target);
  }
  return out;
}

Status read_inputs(const Json& inputs, const std::string& path, const MeshDescription& of, LearnBatch& to) {
  if (!inputs.is_object()) return fail(Errc::parse_failed, path + ": expected an object of ports");
  const bool is_first = to.samples == 0;
  if (!is_first && inputs.size() != to.inputs.size())
    return fail(Errc::parse_failed, path + ": each sample must name the same ports");
  for (const auto& [name, value] : inputs.members()) {
    if (!of.input(name)) return no_port(path, name, of.inputs);
    WEFT_TRY(const auto values, read_numbers(value, path + "." + name));
    if (is_first) to.inputs.push_back({name, {}});
    const auto found = std::find_if(to.inputs.begin(), to.inputs.end(),
                                    [&, key = name](const auto& each) { return each.name == key; });
    if (found == to.inputs.end()) return fail(Errc::parse_failed, path + ": each sample must name the same ports");
    found->values.insert(found->values.end(), values.begin(), values.end());
    if (values.size() % of.input(name)->width != 0 || found->values.size() != (to.samples + 1) * values.size())
      return fail(Errc::shape_mismatch, path + "." + name + ": " + std::to_string(values.size()) +
                                            " values; each sample has " + std::to_string(of.input(name)->width) +
                                            " a session");
  }
  return {};
}

namespace {

/// True when each sample brought as many numbers as this one, and no other kind of them.
bool is_even(const LearnBatch::Goal& before, const LearnBatch::Goal& now, std::uint64_t samples) noexcept {
  const auto grew = [&](std::size_t then, std::size_t since) { return since == (since - then) * (samples + 1); };
  return grew(before.labels.size(), now.labels.size()) && grew(before.values.size(), now.values.size()) &&
         grew(before.gradient.size(), now.gradient.size()) && grew(before.weights.size(), now.weights.size());
}

Status add_labels(const JsonValue& value, LearnBatch::Goal& to) {
  if (value.is_null()) {
    to.labels.push_back(learning::kNoLabel);
    return {};
  }
  WEFT_TRY(to.labels.emplace_back(), value.u32(0, learning::kNoLabel - 1));
  return {};
}

Status add_target(const JsonValue& value, LearnBatch::Goal& to) {
  if (!value.is_object() && !value.is_array()) return add_labels(value, to);
  if (value.is_array()) {
    WEFT_TRY(const auto numbers, read_numbers(value.raw(), value.path()));
    to.values.insert(to.values.end(), numbers.begin(), numbers.end());
    return {};
  }
  WEFT_TRY(JsonReader reader, value.object());
  if (const auto labels = reader.find("labels")) {
    WEFT_TRY(const auto all, labels->array());
    for (const JsonValue& each : all) WEFT_CHECK(add_labels(each, to));
  }
  const auto numbers = [&](std::string_view key, std::vector<float>& into) -> Status {
    const auto found = reader.find(key);
    if (!found) return {};
    WEFT_TRY(const auto read, read_numbers(found->raw(), found->path()));
    into.insert(into.end(), read.begin(), read.end());
    return {};
  };
  WEFT_CHECK(numbers("values", to.values));
  WEFT_CHECK(numbers("gradient", to.gradient));
  WEFT_CHECK(numbers("weights", to.weights));
  return reader.finish();
}

}  // namespace

Status read_targets(const Json& targets, const std::string& path, const MeshDescription& of, LearnBatch& to) {
  if (!targets.is_object()) return fail(Errc::parse_failed, path + ": expected an object of outputs");
  const bool is_first = to.samples == 0;
  if (!is_first && targets.size() != to.targets.size())
    return fail(Errc::parse_failed, path + ": each sample must name the same outputs");
  for (const auto& [name, value] : targets.members()) {
    if (!of.output(name)) return no_port(path, name, of.outputs);
    if (is_first) to.targets.push_back({.output = name, .labels = {}, .values = {}, .gradient = {}, .weights = {}});
    const auto found = std::find_if(to.targets.begin(), to.targets.end(),
                                    [&, key = name](const auto& each) { return each.output == key; });
    if (found == to.targets.end()) return fail(Errc::parse_failed, path + ": each sample must name the same outputs");
    const LearnBatch::Goal before = *found;
    WEFT_CHECK(add_target(JsonValue(value, path + "." + name), *found));
    if (!is_even(before, *found, to.samples))
      return fail(Errc::shape_mismatch, path + "." + name + ": each sample must bring as many numbers");
  }
  return {};
}

Result<LearnBatch> read_samples(const Json& samples, const MeshDescription& of) {
  LearnBatch batch;
  if (!samples.is_array() || samples.empty())
    return fail(Errc::parse_failed, "samples: expected an array with samples");
  for (const Json& each : samples) {
    const std::string path = "samples[" + std::to_string(batch.samples) + "]";
    WEFT_TRY(JsonReader reader, JsonReader::open(each, path));
    WEFT_TRY(const JsonValue inputs, reader.value("inputs"));
    WEFT_CHECK(read_inputs(inputs.raw(), inputs.path(), of, batch));
    const auto targets = reader.find("targets");
    if (targets) WEFT_CHECK(read_targets(targets->raw(), targets->path(), of, batch));
    if (!targets && !batch.targets.empty())
      return fail(Errc::parse_failed, path + ": each sample must name the same outputs");
    WEFT_CHECK(reader.finish());
    ++batch.samples;
  }
  return batch;
}

}  // namespace weft::server
