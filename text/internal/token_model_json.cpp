// SPDX-License-Identifier: Apache-2.0

#include "text/bpe.hpp"
#include "text/internal/tokenizer_parts.hpp"
#include "text/unigram.hpp"
#include "text/word_piece.hpp"

#include "core/json_reader.hpp"
#include "core/printable.hpp"

#include <utility>

namespace weft::text {
namespace {

using MadeModel = Result<std::shared_ptr<const TokenModel>>;

Result<Vocabulary> read_vocabulary(JsonReader& reader) {
  WEFT_TRY(const JsonValue value, reader.value("vocab"));
  if (!value.is_object()) return value.unexpected("tokens and their ids");
  Vocabulary vocabulary;
  for (const auto& [token, id] : value.raw().members()) {
    if (!id.is_natural() || id.get<std::uint64_t>() > kMaxTokenId)
      return fail(Errc::parse_failed, value.path() + "." + printable(token) + ": found " + printable(id.dump()) +
                                          ", expected a whole number below 2^24");
    WEFT_CHECK(vocabulary.add(token, id.get<TokenId>()));
  }
  return vocabulary;
}

/// "a b", with one space, or [a, b].
Result<std::vector<Bpe::Merge>> read_merges(JsonReader& reader) {
  WEFT_TRY(const JsonValue value, reader.value("merges"));
  if (!value.is_array() || value.raw().size() > kMaxTokens) return value.unexpected("at most 2^21 pairs of tokens");
  std::vector<Bpe::Merge> merges;
  merges.reserve(value.raw().size());
  for (const Json& row : value.raw()) {
    const auto refuse = [&] {
      return fail(Errc::parse_failed, value.path() + "[" + std::to_string(merges.size()) + "]: found " +
                                          printable(row.dump()) + ", expected two tokens with one space between");
    };
    if (row.is_array() && row.size() == 2 && row[0].is_string() && row[1].is_string()) {
      merges.emplace_back(row[0].text(), row[1].text());
      continue;
    }
    if (!row.is_string()) return refuse();
    const std::string& text = row.text();
    const std::size_t space = text.find(' ');
    if (space == text.npos || text.find(' ', space + 1) != text.npos) return refuse();
    merges.emplace_back(text.substr(0, space), text.substr(space + 1));
  }
  return merges;
}

/// A text, or nothing where the key is missing or null.
Result<std::optional<std::string>> optional_text(JsonReader& reader, std::string_view key) {
  const auto value = reader.find(key);
  if (!value || value->is_null()) return std::optional<std::string>();
  WEFT_TRY(std::string text, value->string(kMaxTokenSize));
  return std::optional(std::move(text));
}

MadeModel make_bpe(JsonReader& reader) {
  WEFT_TRY(Vocabulary vocabulary, read_vocabulary(reader));
  WEFT_TRY(const std::vector<Bpe::Merge> merges, read_merges(reader));
  BpeOptions options;
  WEFT_TRY(options.unknown, optional_text(reader, "unk_token"));
  WEFT_TRY(const auto prefix, optional_text(reader, "continuing_subword_prefix"));
  WEFT_TRY(const auto suffix, optional_text(reader, "end_of_word_suffix"));
  options.continuing_subword_prefix = prefix.value_or("");
  options.end_of_word_suffix = suffix.value_or("");
  WEFT_TRY(options.fuse_unknown, reader.boolean_or("fuse_unk", false));
  WEFT_TRY(options.byte_fallback, reader.boolean_or("byte_fallback", false));
  WEFT_TRY(options.ignore_merges, reader.boolean_or("ignore_merges", false));
  if (const auto dropout = reader.find("dropout"); dropout && !dropout->is_null()) {
    WEFT_TRY(const double chance, dropout->f64());
    if (chance != 0.0)
      return fail(Errc::unsupported, dropout->path() + ": found " + std::to_string(chance) +
                                         ", expected 0: ids must not depend on chance");
  }
  WEFT_TRY(auto bpe, Bpe::make(std::move(vocabulary), merges, std::move(options)));
  return MadeModel(std::move(bpe));
}

MadeModel make_unigram(JsonReader& reader) {
  WEFT_TRY(const JsonValue value, reader.value("vocab"));
  if (!value.is_array() || value.raw().size() > kMaxTokens) return value.unexpected("at most 2^21 tokens with scores");
  std::vector<std::pair<std::string, double>> tokens;
  for (const Json& row : value.raw()) {
    if (!row.is_array() || row.size() != 2 || !row[0].is_string() || !row[1].is_number())
      return fail(Errc::parse_failed, value.path() + "[" + std::to_string(tokens.size()) + "]: found " +
                                          printable(row.dump()) + ", expected a token and its score");
    tokens.emplace_back(row[0].text(), row[1].get<double>());
  }
  Unigram::Options options;
  if (const auto id = reader.find("unk_id"); id && !id->is_null()) {
    WEFT_TRY(options.unknown, id->u32());
  }
  WEFT_TRY(options.byte_fallback, reader.boolean_or("byte_fallback", false));
  WEFT_TRY(auto unigram, Unigram::make(tokens, options));
  return MadeModel(std::move(unigram));
}

MadeModel make_word_piece(JsonReader& reader, bool whole_words) {
  WEFT_TRY(Vocabulary vocabulary, read_vocabulary(reader));
  WordPiece::Options options;
  options.whole_words = whole_words;
  WEFT_TRY(options.unknown, reader.string_or("unk_token", options.unknown));
  if (!whole_words) {
    WEFT_TRY(options.prefix, reader.string_or("continuing_subword_prefix", options.prefix));
    WEFT_TRY(options.max_characters, reader.u32_or("max_input_chars_per_word", 100));
  }
  WEFT_TRY(auto words, WordPiece::make(std::move(vocabulary), std::move(options)));
  return MadeModel(std::move(words));
}

MadeModel make_model_of_type(const std::string& type, JsonReader& reader) {
  if (type == "BPE") return make_bpe(reader);
  if (type == "Unigram") return make_unigram(reader);
  if (type == "WordPiece") return make_word_piece(reader, false);
  if (type == "WordLevel") return make_word_piece(reader, true);
  return fail(Errc::unsupported, reader.path() + ": model " + in_quotes(type) + " is not supported");
}

}  // namespace

Result<std::shared_ptr<const TokenModel>> make_token_model(const Json& json, const std::string& path) {
  WEFT_TRY(JsonReader reader, JsonReader::open(json, path));
  // Files of old leave the type out.
  const std::string fallback = json.contains("merges") ? "BPE" : json["vocab"].is_array() ? "Unigram" : "WordPiece";
  WEFT_TRY(const std::string type, reader.string_or("type", fallback));
  WEFT_TRY(auto model, make_model_of_type(type, reader));
  WEFT_CHECK(reader.finish());
  return model;
}

}  // namespace weft::text
