// SPDX-License-Identifier: Apache-2.0

#include "text/internal/tokenizer_parts.hpp"
#include "text/tokenizer.hpp"

#include "core/json_reader.hpp"
#include "core/printable.hpp"

#include <utility>

namespace weft::text {
namespace {

constexpr JsonLimits kFileLimits{
    .max_bytes = std::size_t{128} << 20, .max_depth = 32, .max_values = std::size_t{1} << 24};

Result<AddedToken> read_added(const JsonValue& value) {
  WEFT_TRY(JsonReader reader, value.object());
  AddedToken token;
  WEFT_TRY(token.id, reader.u32("id", 0, kMaxTokenId));
  WEFT_TRY(token.content, reader.string("content", AddedTokens::kMaxContent));
  WEFT_TRY(token.single_word, reader.boolean_or("single_word", false));
  WEFT_TRY(token.lstrip, reader.boolean_or("lstrip", false));
  WEFT_TRY(token.rstrip, reader.boolean_or("rstrip", false));
  WEFT_TRY(token.normalized, reader.boolean_or("normalized", true));
  WEFT_TRY(token.special, reader.boolean_or("special", false));
  WEFT_CHECK(reader.finish());
  return token;
}

Result<std::shared_ptr<const Tokenizer::Parts>> read_parts(const Json& json) {
  WEFT_TRY(JsonReader reader, JsonReader::open(json));
  auto parts = std::make_shared<Tokenizer::Parts>();
  for (const char* const unused : {"version", "truncation", "padding"}) (void)reader.find(unused);
  static const Json kNull;
  const auto section = [&](std::string_view key) -> const Json& { return reader.find(key) ? json[key] : kNull; };
  WEFT_TRY(const JsonValue model, reader.value("model"));
  WEFT_TRY(parts->model, make_token_model(model.raw(), model.path()));
  WEFT_TRY(parts->normalizer, make_normalizer(section("normalizer"), "normalizer"));
  WEFT_TRY(parts->pre_tokenizer, make_pre_tokenizer(section("pre_tokenizer"), "pre_tokenizer"));
  WEFT_TRY(parts->decoder, make_token_decoder(section("decoder"), "decoder"));
  if (const auto added = reader.find("added_tokens"); added && !added->is_null()) {
    WEFT_TRY(const auto rows, added->array(0, kMaxTokens));
    for (const JsonValue& row : rows) {
      WEFT_TRY(AddedToken token, read_added(row));
      WEFT_CHECK(add_token(*parts, std::move(token)));
    }
  }
  WEFT_CHECK(read_post_processor(section("post_processor"), "post_processor", *parts));
  WEFT_CHECK(reader.finish());
  return std::shared_ptr<const Tokenizer::Parts>(std::move(parts));
}

}  // namespace

Status add_token(Tokenizer::Parts& parts, AddedToken token) {
  const Vocabulary& vocabulary = parts.model->vocabulary();
  const std::string* const other = vocabulary.token(token.id);
  if (const auto known = vocabulary.find(token.content); (known && *known != token.id) || (!known && other))
    return fail(Errc::corrupt, "added token " + in_quotes(token.content) + ": id " + std::to_string(token.id) +
                                   ", in the vocabulary " +
                                   (known ? "it has " + std::to_string(*known) : "that is " + in_quotes(*other)));
  if (!parts.added.emplace(token.id, token).second || !parts.added_ids.emplace(token.content, token.id).second)
    return fail(Errc::duplicate_name, "added token " + in_quotes(token.content) + " or its id " +
                                          std::to_string(token.id) + " is there twice");
  AddedToken searched = token;
  if (token.normalized && parts.normalizer) {
    WEFT_TRY(searched.content, parts.normalizer->apply(token.content));
    if (searched.content.empty()) return {};
    if (searched.content != token.content) parts.spelled.emplace(token.id, searched.content);
  }
  AddedTokens& found_in = token.normalized ? parts.normalized : parts.raw;
  if (Status status = found_in.add(searched); !status) {
    // Two contents that the normalizer makes one: the first of them is found.
    if (status.error().code() != Errc::duplicate_name || !token.normalized) return status;
  }
  return {};
}

Result<Tokenizer> Tokenizer::from_json(std::string_view text, std::string_view source_name) {
  WEFT_TRY(const Json json, parse_json(text, source_name, kFileLimits));
  auto parts = read_parts(json);
  if (!parts) return fail(std::move(parts).error().within(source_name));
  return Tokenizer(*std::move(parts));
}

}  // namespace weft::text
