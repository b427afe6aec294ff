// SPDX-License-Identifier: Apache-2.0

#include "models/internal/tokenizer_config.hpp"

#include <algorithm>

namespace weft::models::internal {
namespace {

/// JSON whose whole numbers of more than 18 digits are real ones: transformers writes 10^30 for "no bound".
std::string with_real_numbers(std::string_view json) {
  std::string made;
  bool is_text = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const auto is_digit = [&](std::size_t at) { return at < json.size() && json[at] >= '0' && json[at] <= '9'; };
    if (json[i] == '"') is_text = !is_text;
    if (is_text && json[i] == '\\' && i + 1 < json.size()) made += json[i++];
    made += json[i];
    if (is_text || !is_digit(i) || is_digit(i + 1)) continue;
    const std::size_t digits = made.size() - 1 - std::min(made.find_last_not_of("0123456789"), made.size() - 1);
    const bool is_whole = i + 1 == json.size() || std::string_view(".eE").find(json[i + 1]) == std::string_view::npos;
    if (digits > 18 && is_whole && made[made.size() - digits - 1] != '.') made += ".0";
  }
  return made;
}

}  // namespace

Result<Json> parse_tokenizer_config(std::string_view json, const std::string& source_name) {
  return parse_json(with_real_numbers(json), source_name);
}

std::string text_of_token(const Json& json) {
  const Json* const content = json.is_object() ? json.find("content") : &json;
  return content && content->is_string() ? content->text() : "";
}

}  // namespace weft::models::internal
