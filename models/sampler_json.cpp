// SPDX-License-Identifier: Apache-2.0

#include "models/sampler_json.hpp"

#include <cmath>

namespace weft::models {

Result<std::int64_t> read_whole(const std::optional<JsonValue>& given, const SamplerNumber<std::int64_t>& of,
                                std::int64_t otherwise) {
  if (!given) return otherwise;
  WEFT_TRY(const double number, given->f64(static_cast<double>(of.least), static_cast<double>(of.most)));
  if (std::trunc(number) != number) return given->unexpected("a whole number");
  return static_cast<std::int64_t>(number);
}

Result<std::vector<std::string>> read_breakers(const JsonValue& given) {
  WEFT_TRY(const auto list, given.array(0, SamplerStepOptions::kMostBreakers));
  std::vector<std::string> breakers;
  for (const JsonValue& each : list) {
    WEFT_TRY(breakers.emplace_back(), each.string());
  }
  WEFT_CHECK(check_breakers(breakers, given.path()));
  return breakers;
}

Result<SamplerOptions::Order> read_order(const JsonValue& given) {
  if (given.is_string()) {
    WEFT_TRY(const std::string letters, given.string());
    return parse_order_letters(letters, given.path());
  }
  SamplerOptions::Order order;
  WEFT_TRY(const auto list, given.array());
  for (const JsonValue& each : list) {
    WEFT_TRY(const std::string name, each.string());
    WEFT_CHECK(add_step(name, given.path(), order));
  }
  return order;
}

}  // namespace weft::models
