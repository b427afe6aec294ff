// SPDX-License-Identifier: Apache-2.0

#include "server/internal/text_format.hpp"

#include "server/internal/sampling.hpp"

#include <string>
#include <utility>

namespace weft::server::internal {
namespace {

constexpr std::size_t kLongestGrammar = std::size_t{1} << 20;
using Format = std::optional<text::Grammar>;

/// A schema that is not understood is the client's mistake, as it is with OpenAI: 400, never 501.
Error of_client(const std::string& key, const Error& error) {
  const Errc code = error.code() == Errc::unsupported ? Errc::invalid_argument : error.code();
  return Error(code, key + ": " + error.text());
}

Result<Format> grammar_of(const std::string& key, const Json& schema) {
  auto made = text::Grammar::from_json_schema(schema);
  if (!made) return fail(of_client(key, made.error()));
  return Format(*std::move(made));
}

const Json& any_object() {
  static const Json schema{{"type", "object"}};
  return schema;
}

/// {"type": "json_schema", "json_schema": {"name", "schema", "strict"}}; "json_object", with llama.cpp's "schema".
Result<Format> read_response_format(const JsonValue& value) {
  const std::string key = "response_format";
  WEFT_TRY(JsonReader format, value.object());
  WEFT_TRY(const std::string type, format.string("type", 64));
  if (type == "text") return Format();
  if (type == "json_object") {
    const auto schema = given(format, "schema");
    return grammar_of(key, schema ? schema->raw() : any_object());
  }
  if (type != "json_schema")
    return fail(Errc::invalid_argument, key + ".type: '" + type + "' is none of text, json_object, json_schema");
  WEFT_TRY(JsonReader named, format.object("json_schema"));
  WEFT_CHECK(named.string("name", 256));
  const auto schema = given(named, "schema");
  return grammar_of(key, schema ? schema->raw() : any_object());
}

}  // namespace

Result<std::optional<text::Grammar>> read_format(JsonReader& body) {
  const auto is_empty = [](const JsonValue& value) { return value.is_string() && value.raw().text().empty(); };
  const auto format = given(body, "response_format");
  auto grammar = given(body, "grammar"), schema = given(body, "json_schema");
  if (grammar && is_empty(*grammar)) grammar.reset();
  if (schema && is_empty(*schema)) schema.reset();
  Format made;
  if (format) {
    WEFT_TRY(made, read_response_format(*format));
  }
  if ((made ? 1 : 0) + (grammar ? 1 : 0) + (schema ? 1 : 0) > 1)
    return fail(Errc::invalid_argument, std::string(grammar ? "grammar" : "json_schema") +
                                            ": a text follows one format; give one of response_format, grammar and "
                                            "json_schema");
  if (grammar) {
    WEFT_TRY(const std::string source, grammar->string(kLongestGrammar));
    auto parsed = text::Grammar::parse(source, "GBNF");
    if (!parsed) return fail(of_client("grammar", parsed.error()));
    made = *std::move(parsed);
  }
  if (schema) return grammar_of("json_schema", schema->raw());
  return made;
}

}  // namespace weft::server::internal
