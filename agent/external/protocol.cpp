// SPDX-License-Identifier: Apache-2.0

#include "agent/external/protocol.hpp"

#include "core/json.hpp"
#include "core/json_reader.hpp"
#include "core/written_number.hpp"

#include <array>
#include <cmath>
#include <utility>
#include <vector>

namespace weft::agent {
namespace {

constexpr std::size_t kMostShown = 120;  // bytes of a line in a message
// Of an observation and a reward: what is learned takes their squares, in binary32.
constexpr double kLargest = 1e18;

std::string shown(std::string_view line) {
  return "'" + std::string(line.substr(0, kMostShown)) + (line.size() > kMostShown ? "'..." : "'");
}

/// Python's json writes these, and no JSON has them.
std::string_view non_number_in(std::string_view line) {
  for (const std::string_view word : {std::string_view("NaN"), std::string_view("Infinity")})
    if (line.find(word) != std::string_view::npos) return word;
  return {};
}

Result<Json> object_of(std::string_view line) {
  auto parsed = parse_json(line, "answer");
  if (parsed && parsed->is_object()) return parsed;
  if (const std::string_view word = non_number_in(line); !word.empty())
    return fail(Errc::not_finite,
                "the answer has " + std::string(word) + ": " + shown(line) + "; its numbers must be finite");
  return fail(Errc::parse_failed, "the answer is no JSON object: " + shown(line) +
                                      "; it must be one line, and other output of the environment go to stderr");
}

/// @error invalid_argument: the environment answered that it failed
Result<JsonReader> reader_of(const Json& object) {
  if (const Json* const text = object.find("error"))
    return fail(Errc::invalid_argument,
                "it answered with an error: " + (text->is_string() ? text->text().substr(0, 1000) : "(no text)"));
  WEFT_TRY(JsonReader reader, JsonReader::open(object, "answer"));
  (void)reader.find("info");  // the environment's own
  return reader;
}

Result<double> number_of(const JsonValue& value) {
  if (!value.is_number()) return value.unexpected("a number");
  const double number = value.raw().get<double>();
  if (std::fabs(number) <= kLargest) return number;
  return value.unexpected("a number from -1e18 to 1e18", Errc::out_of_range);
}

Result<std::vector<float>> observation_of(JsonReader& reader, const EnvironmentShape& shape) {
  WEFT_TRY(const auto values, reader.array("observation"));
  if (values.size() != shape.observations)
    return fail(Errc::shape_mismatch, reader.path_of("observation") + ": " + std::to_string(values.size()) +
                                          " values, " + std::to_string(shape.observations) +
                                          " are expected (reinforcement.environment.observations)");
  std::vector<float> observation;
  observation.reserve(values.size());
  for (const JsonValue& value : values) {
    WEFT_TRY(const double number, number_of(value));
    observation.push_back(static_cast<float>(number));
  }
  return observation;
}

Status check_count(std::string_view key, std::uint64_t found, std::size_t wanted) {
  if (found == wanted) return {};
  return fail(Errc::shape_mismatch, "it describes itself with " + std::to_string(found) + " " + std::string(key) +
                                        ", and reinforcement.environment." + std::string(key) + " is " +
                                        std::to_string(wanted));
}

}  // namespace

std::string describe_request() { return Json{{"request", "describe"}, {"protocol", kEnvironmentProtocol}}.dump(); }

std::string reset_request(std::uint64_t seed, std::uint64_t episode) {
  return Json{{"request", "reset"}, {"seed", seed}, {"episode", episode}}.dump();
}

std::string step_request(const Action& action) {
  Json request{{"request", "step"}};
  if (action.values.empty()) {
    request["action"] = action.choice;
  } else {
    request["action"] = Json::array({});
    for (const float value : action.values) request["action"].push_back(as_written(value));
  }
  return request.dump();
}

std::string close_request() { return Json{{"request", "close"}}.dump(); }

std::size_t longest_line(const EnvironmentShape& shape) noexcept {
  return (std::size_t{1} << 16) + shape.observations * 64;
}

Result<std::string> read_description(std::string_view line, const EnvironmentShape& shape) {
  WEFT_TRY(const Json object, object_of(line));
  WEFT_TRY(JsonReader reader, reader_of(object));
  WEFT_TRY(const std::uint64_t protocol, reader.u64("protocol"));
  if (protocol != kEnvironmentProtocol)
    return fail(Errc::unsupported, "it speaks protocol " + std::to_string(protocol) + ", and this program " +
                                       std::to_string(kEnvironmentProtocol));
  WEFT_TRY(std::string name, reader.string_or("name", "", 256));
  WEFT_TRY(const std::uint64_t observations, reader.u64("observations"));
  WEFT_TRY(const std::uint64_t actions, reader.u64_or("actions", 0));
  WEFT_TRY(const std::uint64_t values, reader.u64_or("values", 0));
  WEFT_CHECK(reader.finish());
  WEFT_CHECK(check_count("observations", observations, shape.observations));
  WEFT_CHECK(check_count("actions", actions, shape.choices));
  WEFT_CHECK(check_count("values", values, shape.values));
  return name;
}

Result<Answer> read_reset_answer(std::string_view line, const EnvironmentShape& shape) {
  WEFT_TRY(const Json object, object_of(line));
  WEFT_TRY(JsonReader reader, reader_of(object));
  Answer answer;
  answer.is_reset = true;
  WEFT_TRY(answer.observation, observation_of(reader, shape));
  WEFT_CHECK(reader.finish());
  return answer;
}

Result<Answer> read_step_answer(std::string_view line, const Action& action, const EnvironmentShape& shape) {
  WEFT_TRY(const Json object, object_of(line));
  WEFT_TRY(JsonReader reader, reader_of(object));
  Answer answer;
  answer.action = action.choice;
  answer.values.assign(action.values.begin(), action.values.end());
  WEFT_TRY(answer.observation, observation_of(reader, shape));
  WEFT_TRY(const JsonValue reward, reader.value("reward"));
  WEFT_TRY(answer.outcome.reward, number_of(reward));
  WEFT_TRY(answer.outcome.terminated, reader.boolean("terminated"));
  WEFT_TRY(answer.outcome.truncated, reader.boolean("truncated"));
  WEFT_CHECK(reader.finish());
  return answer;
}

}  // namespace weft::agent
