// SPDX-License-Identifier: Apache-2.0

#include "formats/gguf/gguf_metadata.hpp"
#include "text/bpe.hpp"
#include "text/internal/named_splits.hpp"
#include "text/internal/rewrite_table.hpp"
#include "text/internal/tokenizer_parts.hpp"
#include "text/scored_bpe.hpp"
#include "text/tokenizer.hpp"
#include "text/unicode.hpp"
#include "text/unigram.hpp"
#include "text/word_piece.hpp"

#include "core/json.hpp"
#include "core/printable.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

// docs/formats/tokenizer.md, "Keys of a GGUF file".
namespace weft::text {
namespace {

using formats::GgufMetadata;

constexpr std::string_view kPrefix = "tokenizer.ggml.";
std::string key(std::string_view name) { return std::string(kPrefix) + std::string(name); }

enum class TokenKind : std::int32_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

Result<const NamedSplit*> find_split(const GgufMetadata& metadata) {
  WEFT_TRY(const std::string name, metadata.text(key("pre")));
  std::string names;
  for (const NamedSplit& split : named_splits()) {
    if (split.name == name) return &split;
    names += (names.empty() ? "" : ", ") + std::string(split.name);
  }
  return fail(Errc::unsupported,
              "key '" + key("pre") + "': found " + in_quotes(name) + ", those that are known: " + names);
}

/// Tokens, their kinds and their scores, checked against each other.
struct GgufTokens {
  const std::vector<std::string>* texts = nullptr;
  std::vector<TokenKind> kinds;

  static Result<GgufTokens> read(const GgufMetadata& metadata) {
    GgufTokens tokens;
    WEFT_TRY(tokens.texts, metadata.array<std::string>(key("tokens")));
    const std::size_t count = tokens.texts->size();
    if (count > kMaxTokens)
      return fail(Errc::too_large, "key '" + key("tokens") + "': " + std::to_string(count) + " tokens, at most 2^21");
    tokens.kinds.assign(count, TokenKind::normal);
    if (metadata.contains(key("token_type"))) {
      WEFT_TRY(const auto* const kinds, metadata.array<std::int32_t>(key("token_type")));
      WEFT_CHECK(check_length("token_type", kinds->size(), count));
      for (std::size_t i = 0; i < count; ++i) {
        if ((*kinds)[i] < 1 || (*kinds)[i] > 6)
          return fail(Errc::out_of_range, "key '" + key("token_type") + "': token " + std::to_string(i) + ": found " +
                                              std::to_string((*kinds)[i]) + ", expected 1 to 6");
        tokens.kinds[i] = static_cast<TokenKind>((*kinds)[i]);
      }
    }
    for (std::size_t i = 0; i < count; ++i) WEFT_CHECK(tokens.check(i));
    return tokens;
  }
  static Status check_length(std::string_view name, std::size_t found, std::size_t expected) {
    if (found == expected) return {};
    return fail(Errc::corrupt, "key '" + key(name) + "': found " + std::to_string(found) + " elements, expected " +
                                   std::to_string(expected) + ", one a token");
  }
  Status check(std::size_t i) const {
    const std::string& text = (*texts)[i];
    const auto refuse = [&](const char* what) {
      return fail(Errc::corrupt,
                  "key '" + key("tokens") + "': token " + std::to_string(i) + ", " + in_quotes(text) + ", " + what);
    };
    if (valid_prefix(text) != text.size()) return refuse("is not UTF-8");
    const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'F'); };
    if (kinds[i] == TokenKind::byte &&
        (text.size() != 6 || !text.starts_with("<0x") || !is_digit(text[3]) || !is_digit(text[4]) || text[5] != '>'))
      return refuse("is said to be a byte, and is none: expected <0x00> to <0xFF>");
    return {};
  }
};

/// The id under a key, below the number of tokens; `fallback` where there is no such key.
Result<std::optional<TokenId>> id_of(const GgufMetadata& metadata, std::string_view name, std::size_t tokens,
                                     std::optional<TokenId> fallback = std::nullopt) {
  if (!metadata.contains(key(name))) return fallback && *fallback < tokens ? fallback : std::optional<TokenId>();
  WEFT_TRY(const std::uint64_t id, metadata.natural(key(name)));
  if (id >= tokens)
    return fail(Errc::out_of_range, "key '" + key(name) + "': found " + std::to_string(id) + ", there are " +
                                        std::to_string(tokens) + " tokens");
  return std::optional(static_cast<TokenId>(id));
}

Result<Vocabulary> vocabulary_of(const GgufTokens& tokens) {
  Vocabulary vocabulary;
  for (TokenId id = 0; id < tokens.texts->size(); ++id) WEFT_CHECK(vocabulary.add((*tokens.texts)[id], id));
  return vocabulary;
}

/// Tokens that stand for themselves: control tokens, which are special, and those that a user has added.
Status add_tokens(const GgufTokens& tokens, Tokenizer::Parts& parts) {
  for (TokenId id = 0; id < tokens.texts->size(); ++id) {
    const TokenKind kind = tokens.kinds[id];
    const bool is_special = kind == TokenKind::control || kind == TokenKind::unknown;
    if ((!is_special && kind != TokenKind::user_defined) || (*tokens.texts)[id].empty()) continue;
    AddedToken token{.content = (*tokens.texts)[id], .id = id, .normalized = false, .special = is_special};
    WEFT_CHECK(add_token(parts, std::move(token)));
  }
  return {};
}

/// Tokens before and after each text.
Status add_ends(const GgufMetadata& metadata, std::size_t tokens, bool adds_begin, bool adds_end,
                std::optional<TokenId> begin, std::optional<TokenId> end, Tokenizer::Parts& parts) {
  WEFT_TRY(adds_begin, metadata.boolean_or(key("add_bos_token"), adds_begin));
  WEFT_TRY(adds_end, metadata.boolean_or(key("add_eos_token"), adds_end));
  WEFT_TRY(begin, id_of(metadata, "bos_token_id", tokens, begin));
  WEFT_TRY(end, id_of(metadata, "eos_token_id", tokens, end));
  if (adds_begin && begin) parts.before.push_back(*begin);
  if (adds_end && end) parts.after.push_back(*end);
  return {};
}

Result<std::vector<Bpe::Merge>> gguf_merges(const GgufMetadata& metadata) {
  WEFT_TRY(const auto* const rows, metadata.array<std::string>(key("merges")));
  std::vector<Bpe::Merge> merges;
  merges.reserve(std::min(rows->size(), kMaxTokens));
  for (std::size_t i = 0; i < rows->size(); ++i) {
    const std::string& row = (*rows)[i];
    const std::size_t space = row.find(' ');
    if (space == row.npos || row.find(' ', space + 1) != row.npos)
      return fail(Errc::corrupt, "key '" + key("merges") + "': merge " + std::to_string(i) + ": found " +
                                     in_quotes(row) + ", expected two tokens with one space between");
    merges.emplace_back(row.substr(0, space), row.substr(space + 1));
  }
  return merges;
}

/// "gpt2": tokens in letters for bytes, joined by rank.
Status read_byte_level(const GgufMetadata& metadata, const GgufTokens& tokens, Tokenizer::Parts& parts) {
  WEFT_TRY(const NamedSplit* const split, find_split(metadata));
  WEFT_TRY(const auto merges, gguf_merges(metadata));
  WEFT_TRY(Vocabulary vocabulary, vocabulary_of(tokens));
  BpeOptions options;
  options.ignore_merges = split->keeps_whole;
  auto bpe = Bpe::make(std::move(vocabulary), merges, std::move(options));
  if (!bpe) return fail(std::move(bpe).error().within("key '" + key("merges") + "'"));
  parts.model = *std::move(bpe);
  WEFT_TRY(parts.pre_tokenizer, make_pre_tokenizer(pre_tokenizer_json(*split), "pre"));
  if (split->is_composed) {
    WEFT_TRY(parts.normalizer, make_normalizer({{"type", "NFC"}}, "pre"));
  }
  WEFT_TRY(parts.decoder, make_token_decoder({{"type", "ByteLevel"}}, "pre"));
  return add_ends(metadata, tokens.texts->size(), split->adds_begin, false, std::nullopt, std::nullopt, parts);
}

/// "llama": SentencePiece's tokens, joined by score.
Status read_scored(const GgufMetadata& metadata, const GgufTokens& tokens, Tokenizer::Parts& parts) {
  const std::size_t count = tokens.texts->size();
  WEFT_TRY(const auto* const scores, metadata.array<float>(key("scores")));
  WEFT_CHECK(GgufTokens::check_length("scores", scores->size(), count));
  WEFT_TRY(const auto unknown, id_of(metadata, "unknown_token_id", count, 0));
  WEFT_TRY(Vocabulary vocabulary, vocabulary_of(tokens));
  auto model = ScoredBpe::make(std::move(vocabulary), *scores, unknown);
  if (!model) return fail(std::move(model).error().within("key '" + key("scores") + "'"));
  parts.model = *std::move(model);
  WEFT_TRY(const bool adds_space, metadata.boolean_or(key("add_space_prefix"), true));
  WEFT_TRY(parts.normalizer, make_normalizer(metaspace_normalizer_json(adds_space), "model"));
  WEFT_TRY(parts.decoder, make_token_decoder(metaspace_decoder_json(adds_space), "model"));
  return add_ends(metadata, count, true, false, 1, 2, parts);
}

/// SentencePiece's table under a key, whose elements have one of two types.
Result<std::shared_ptr<const RewriteTable>> table_of(const GgufMetadata& metadata) {
  const std::string name = key("precompiled_charsmap");
  if (!metadata.contains(name)) return std::shared_ptr<const RewriteTable>();
  std::string bytes;
  if (const auto of_signs = metadata.array<std::int8_t>(name)) {
    bytes.assign((*of_signs)->begin(), (*of_signs)->end());
  } else {
    WEFT_TRY(const auto* const found, metadata.array<std::uint8_t>(name));
    bytes.assign(found->begin(), found->end());
  }
  auto table = RewriteTable::read(bytes);
  if (!table) return fail(std::move(table).error().within("key '" + name + "'"));
  return std::shared_ptr<const RewriteTable>(std::make_shared<const RewriteTable>(*std::move(table)));
}

/// "t5": SentencePiece's tokens, of which the likeliest ones make a text.
Status read_unigram(const GgufMetadata& metadata, const GgufTokens& tokens, Tokenizer::Parts& parts) {
  const std::size_t count = tokens.texts->size();
  WEFT_TRY(const auto* const scores, metadata.array<float>(key("scores")));
  WEFT_CHECK(GgufTokens::check_length("scores", scores->size(), count));
  Unigram::Options options;
  WEFT_TRY(options.unknown, id_of(metadata, "unknown_token_id", count, 2));
  std::vector<std::pair<std::string, double>> rows;
  for (std::size_t id = 0; id < count; ++id) {
    const TokenKind kind = tokens.kinds[id];
    const double score = static_cast<double>((*scores)[id]);
    if (!std::isfinite(score))
      return fail(Errc::out_of_range, "key '" + key("scores") + "': token " + std::to_string(id) + " has " +
                                          std::to_string(score) + ", expected a number");
    // A user's token is found before the model; where it is not, it costs nothing.
    rows.emplace_back((*tokens.texts)[id], kind == TokenKind::user_defined ? 0.0 : score);
    options.is_left_out.push_back(kind == TokenKind::control || kind == TokenKind::unknown || kind == TokenKind::byte);
    if (kind == TokenKind::normal) options.least = std::min(options.least.value_or(score), score);
  }
  WEFT_TRY(parts.model, Unigram::make(rows, options));
  SentenceSteps steps;
  WEFT_TRY(steps.table, table_of(metadata));
  WEFT_TRY(steps.adds_space, metadata.boolean_or(key("add_space_prefix"), false));
  WEFT_TRY(steps.merges_spaces, metadata.boolean_or(key("remove_extra_whitespaces"), false));
  WEFT_TRY(parts.decoder, make_token_decoder(metaspace_decoder_json(steps.adds_space), "model"));
  parts.normalizer = make_sentence_normalizer(std::move(steps));
  return add_ends(metadata, count, false, true, std::nullopt, 1, parts);
}

/// "bert": words, spelled in the file with U+2581 before and without "##" inside.
Status read_words(const GgufMetadata& metadata, const GgufTokens& tokens, Tokenizer::Parts& parts) {
  constexpr std::string_view kSpace = "\u2581";
  const std::size_t count = tokens.texts->size();
  WEFT_TRY(const auto unknown, id_of(metadata, "unknown_token_id", count, 100));
  if (!unknown) return fail(Errc::not_found, "key '" + key("unknown_token_id") + "' is missing");
  Vocabulary vocabulary;
  for (TokenId id = 0; id < count; ++id) {
    const std::string& text = (*tokens.texts)[id];
    const bool is_plain = tokens.kinds[id] == TokenKind::normal;
    WEFT_CHECK(vocabulary.add(!is_plain                  ? text
                              : text.starts_with(kSpace) ? text.substr(kSpace.size())
                                                         : "##" + text,
                              id));
  }
  WordPiece::Options options;
  options.unknown = *vocabulary.token(*unknown);
  WEFT_TRY(parts.model, WordPiece::make(std::move(vocabulary), std::move(options)));
  WEFT_TRY(parts.normalizer, make_normalizer({{"type", "BertNormalizer"}}, "model"));
  WEFT_TRY(parts.pre_tokenizer, make_pre_tokenizer({{"type", "BertPreTokenizer"}}, "model"));
  WEFT_TRY(parts.decoder, make_token_decoder({{"type", "WordPiece"}}, "model"));
  WEFT_TRY(const auto begin, id_of(metadata, "cls_token_id", count, 101));
  WEFT_TRY(const auto end, id_of(metadata, "seperator_token_id", count, 102));
  return add_ends(metadata, count, true, true, begin, end, parts);
}

Status read_model(const GgufMetadata& metadata, Tokenizer::Parts& parts) {
  WEFT_TRY(const std::string model, metadata.text(key("model")));
  const auto read = model == "gpt2"    ? read_byte_level
                    : model == "llama" ? read_scored
                    : model == "bert"  ? read_words
                    : model == "t5"    ? read_unigram
                                       : nullptr;
  if (!read)
    return fail(Errc::unsupported, "key '" + key("model") + "': found " + in_quotes(model) +
                                       ", those that are known: gpt2, llama, bert, t5");
  WEFT_TRY(const GgufTokens tokens, GgufTokens::read(metadata));
  WEFT_CHECK(read(metadata, tokens, parts));
  return add_tokens(tokens, parts);
}

}  // namespace

Result<Tokenizer> Tokenizer::from_gguf(const GgufMetadata& metadata, std::string_view source_name) {
  auto parts = std::make_shared<Parts>();
  if (Status status = read_model(metadata, *parts); !status) return fail(Error(status.error()).within(source_name));
  return Tokenizer(std::shared_ptr<const Parts>(std::move(parts)));
}

}  // namespace weft::text
