// SPDX-License-Identifier: Apache-2.0

#include "formats/gguf/gguf_metadata.hpp"
#include "text/internal/named_splits.hpp"
#include "text/internal/tokenizer_comparison.hpp"
#include "text/tokenizer.hpp"
#include "text/tokenizer_conversion.hpp"

#include "core/base64.hpp"
#include "core/json.hpp"

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

namespace weft::text {
namespace {

std::string key_of(std::string_view name) { return "tokenizer.ggml." + std::string(name); }

/// Makes a tokenizer.json of keys that Tokenizer::from_gguf takes.
class JsonMaker {
 public:
  JsonMaker(const formats::GgufMetadata& from, const Tokenizer& tokenizer) : from_(from), tokenizer_(tokenizer) {}

  Result<Json> make(SpecialTokens& special) {
    WEFT_TRY(tokens_, from_.array<std::string>(key_of("tokens")));
    if (from_.contains(key_of("token_type"))) {
      WEFT_TRY(kinds_, from_.array<std::int32_t>(key_of("token_type")));
    }
    WEFT_TRY(const std::string model, from_.text(key_of("model")));
    json_ = {{"version", "1.0"}, {"truncation", nullptr}, {"padding", nullptr}};
    json_["added_tokens"] = added_tokens();
    for (const char* const step : {"normalizer", "pre_tokenizer"}) json_[step] = Json();
    WEFT_CHECK(add_ends(model == "bert", special));
    if (model == "gpt2") {
      WEFT_CHECK(make_byte_level());
    } else if (model == "llama") {
      WEFT_CHECK(make_scored());
    } else if (model == "t5") {
      WEFT_CHECK(make_unigram());
    } else {
      make_words();
    }
    return std::move(json_);
  }

 private:
  std::int32_t kind(std::size_t id) const { return kinds_ ? (*kinds_)[id] : 1; }
  Json vocabulary() const {
    Json tokens = Json::object();
    for (std::size_t id = 0; id < tokens_->size(); ++id) tokens[*tokenizer_.token(static_cast<TokenId>(id))] = id;
    return tokens;
  }
  Json added_tokens() const {
    Json added = Json::array();
    for (std::size_t id = 0; id < tokens_->size(); ++id) {
      const bool is_special = kind(id) == 2 || kind(id) == 3;
      if ((!is_special && kind(id) != 4) || (*tokens_)[id].empty()) continue;
      added.push_back({{"id", id},
                       {"content", (*tokens_)[id]},
                       {"single_word", false},
                       {"lstrip", false},
                       {"rstrip", false},
                       {"normalized", false},
                       {"special", is_special}});
    }
    return added;
  }

  /// The token under a key, as the tokenizer has it; empty where there is none.
  Result<std::string> token_at(std::string_view name) const {
    if (!from_.contains(key_of(name))) return std::string();
    WEFT_TRY(const std::uint64_t id, from_.natural(key_of(name), tokens_->size() - 1));
    return *tokenizer_.token(static_cast<TokenId>(id));
  }
  Status add_ends(bool is_words, SpecialTokens& special) {
    WEFT_TRY(special.begin, token_at(is_words ? "cls_token_id" : "bos_token_id"));
    WEFT_TRY(special.end, token_at(is_words ? "seperator_token_id" : "eos_token_id"));
    WEFT_TRY(special.unknown, token_at("unknown_token_id"));
    WEFT_TRY(special.padding, token_at("padding_token_id"));
    WEFT_TRY(const auto bare, tokenizer_.encode("a", {.add_special = false}));
    WEFT_TRY(const auto whole, tokenizer_.encode("a"));
    const auto at = std::search(whole.begin(), whole.end(), bare.begin(), bare.end());
    Json single = Json::array(), names = Json::object();
    const auto add = [&](TokenId id) {
      const std::string& text = *tokenizer_.token(id);
      names[text] = {{"id", text}, {"ids", Json::array({id})}, {"tokens", Json::array({text})}};
      single.push_back({{"SpecialToken", {{"id", text}, {"type_id", 0}}}});
    };
    std::for_each(whole.begin(), at, add);
    single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
    std::for_each(at + static_cast<std::ptrdiff_t>(bare.size()), whole.end(), add);
    Json pair = single;
    pair.push_back({{"Sequence", {{"id", "B"}, {"type_id", 1}}}});
    json_["post_processor"] = {{"type", "TemplateProcessing"},
                               {"single", std::move(single)},
                               {"pair", std::move(pair)},
                               {"special_tokens", std::move(names)}};
    return {};
  }

  static Json bpe(Json vocab, Json merges, bool ignores_merges) {
    return {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"ignore_merges", ignores_merges},
            {"vocab", std::move(vocab)},
            {"merges", std::move(merges)}};
  }

  Status make_byte_level() {
    WEFT_TRY(const std::string pre, from_.text(key_of("pre")));
    WEFT_TRY(const auto* const rows, from_.array<std::string>(key_of("merges")));
    Json merges = Json::array();
    for (const std::string& row : *rows) merges.push_back(row);
    for (const NamedSplit& split : named_splits()) {
      if (split.name != pre) continue;
      if (split.is_composed) json_["normalizer"] = {{"type", "NFC"}};
      json_["pre_tokenizer"] = pre_tokenizer_json(split);
      json_["model"] = bpe(vocabulary(), std::move(merges), split.keeps_whole);
    }
    json_["decoder"] = {{"type", "ByteLevel"}};
    return {};
  }

  /// All ways to make a token of two others, by the score of what they make, then by the ids of both.
  Result<Json> merges_of_scores() const {
    WEFT_TRY(const auto* const scores, from_.array<float>(key_of("scores")));
    std::unordered_map<std::string_view, std::size_t> ids;
    for (std::size_t id = 0; id < tokens_->size(); ++id)
      if (kind(id) == 1 || kind(id) == 4) ids.emplace((*tokens_)[id], id);
    struct Merge {
      float score;
      std::size_t whole, left, right;
    };
    std::vector<Merge> merges;
    for (const auto& [text, id] : ids)
      for (std::size_t i = 1; i < text.size(); ++i) {
        const auto left = ids.find(text.substr(0, i)), right = ids.find(text.substr(i));
        if (left != ids.end() && right != ids.end()) merges.push_back({(*scores)[id], id, left->second, right->second});
      }
    std::sort(merges.begin(), merges.end(), [](const Merge& a, const Merge& b) {
      return std::tuple(-a.score, a.whole, a.left, a.right) < std::tuple(-b.score, b.whole, b.left, b.right);
    });
    Json rows = Json::array();
    for (const Merge& merge : merges) rows.push_back(Json::array({(*tokens_)[merge.left], (*tokens_)[merge.right]}));
    return rows;
  }
  Status make_scored() {
    WEFT_TRY(const bool adds_space, from_.boolean_or(key_of("add_space_prefix"), true));
    WEFT_TRY(Json merges, merges_of_scores());
    WEFT_TRY(const std::uint64_t unknown, from_.natural_or(key_of("unknown_token_id"), 0, tokens_->size() - 1));
    json_["normalizer"] = metaspace_normalizer_json(adds_space);
    json_["decoder"] = metaspace_decoder_json(adds_space);
    json_["model"] = bpe(vocabulary(), std::move(merges), false);
    json_["model"]["unk_token"] = (*tokens_)[unknown];
    json_["model"]["fuse_unk"] = true;
    json_["model"]["byte_fallback"] = true;
    return {};
  }

  /// Spaces around a text go and several become one, where the keys say so; then one comes before it.
  Status make_unigram() {
    WEFT_TRY(const bool adds_space, from_.boolean_or(key_of("add_space_prefix"), false));
    WEFT_TRY(const bool merges, from_.boolean_or(key_of("remove_extra_whitespaces"), false));
    WEFT_TRY(const auto* const scores, from_.array<float>(key_of("scores")));
    Json steps = Json::array();
    if (const auto* const table = from_.find(key_of("precompiled_charsmap"))) {
      const auto& array = std::get<formats::GgufArray>(*table);
      std::string bytes;
      if (const auto* const of_signs = std::get_if<std::vector<std::int8_t>>(&array))
        bytes.assign(of_signs->begin(), of_signs->end());
      if (const auto* const plain = std::get_if<std::vector<std::uint8_t>>(&array))
        bytes.assign(plain->begin(), plain->end());
      steps.push_back({{"type", "Precompiled"}, {"precompiled_charsmap", base64(bytes)}});
    }
    if (merges)
      for (const auto& [expression, content] : {std::pair(kOuterSpaces, ""), std::pair(std::string_view(" {2,}"), " ")})
        steps.push_back({{"type", "Replace"}, {"pattern", {{"Regex", expression}}}, {"content", content}});
    const Json spaces = metaspace_normalizer_json(adds_space || merges);
    for (const Json& step : spaces["normalizers"]) steps.push_back(step);
    json_["normalizer"] = {{"type", "Sequence"}, {"normalizers", std::move(steps)}};
    json_["decoder"] = metaspace_decoder_json(adds_space);
    Json tokens = Json::array();
    for (std::size_t id = 0; id < tokens_->size(); ++id)
      tokens.push_back(Json::array({(*tokens_)[id], static_cast<double>((*scores)[id])}));
    WEFT_TRY(const std::uint64_t unknown, from_.natural_or(key_of("unknown_token_id"), 2, tokens_->size() - 1));
    json_["model"] = {{"type", "Unigram"}, {"unk_id", unknown}, {"byte_fallback", false}, {"vocab", std::move(tokens)}};
    return {};
  }

  void make_words() {
    const std::string unknown = tokens_unknown();
    json_["normalizer"] = {{"type", "BertNormalizer"},
                           {"clean_text", true},
                           {"handle_chinese_chars", true},
                           {"strip_accents", nullptr},
                           {"lowercase", true}};
    json_["pre_tokenizer"] = {{"type", "BertPreTokenizer"}};
    json_["decoder"] = {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}};
    json_["model"] = {{"type", "WordPiece"},
                      {"unk_token", unknown},
                      {"continuing_subword_prefix", "##"},
                      {"max_input_chars_per_word", 100},
                      {"vocab", vocabulary()}};
  }
  std::string tokens_unknown() const {
    const auto found = token_at("unknown_token_id");
    return found && !found->empty() ? *found
                                    : *tokenizer_.token(100);  // what Tokenizer::from_gguf takes without the key
  }

  const formats::GgufMetadata& from_;
  const Tokenizer& tokenizer_;
  const std::vector<std::string>* tokens_ = nullptr;
  const std::vector<std::int32_t>* kinds_ = nullptr;
  Json json_;
};

}  // namespace

Result<std::string> tokenizer_json_of(const formats::GgufMetadata& from, SpecialTokens& special) {
  constexpr JsonLimits kLimits{
      .max_bytes = std::size_t{128} << 20, .max_depth = 32, .max_values = std::size_t{1} << 24};
  WEFT_TRY(const Tokenizer ours, Tokenizer::from_gguf(from));
  WEFT_TRY(const Json json, JsonMaker(from, ours).make(special));
  WEFT_TRY(std::string text, write_json(json, 2, kLimits));
  WEFT_TRY(const Tokenizer theirs, Tokenizer::from_json(text));
  if (auto same = check_same_ids(ours, theirs); !same) return fail(std::move(same).error().within("tokenizer.ggml"));
  return text;
}

}  // namespace weft::text
