// SPDX-License-Identifier: Apache-2.0

#include "formats/gguf/gguf_metadata.hpp"
#include "text/internal/named_splits.hpp"
#include "text/internal/tokenizer_comparison.hpp"
#include "text/tokenizer.hpp"
#include "text/tokenizer_conversion.hpp"

#include "core/base64.hpp"
#include "core/json.hpp"
#include "core/printable.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

namespace weft::text {
namespace {

constexpr std::string_view kKeys = "tokenizer.ggml.";
constexpr std::string_view kWordSpace = "\u2581";
enum Kind : std::int32_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

bool is_type(const Json& step, std::string_view type) {
  const Json* const found = step.find("type");
  return found && found->is_string() && found->text() == type;
}
bool is_true(const Json& step, std::string_view key, bool fallback) {
  const Json* const found = step.find(key);
  return found && found->is_bool() ? found->get<bool>() : fallback;
}

/// The steps of a sequence, or the one step; none of null.
std::vector<const Json*> steps_of(const Json& step, std::string_view inside) {
  if (step.is_null()) return {};
  if (!is_type(step, "Sequence")) return {&step};
  std::vector<const Json*> steps;
  for (const Json& one : step[inside]) steps.push_back(&one);
  return steps;
}

bool is_byte_token(std::string_view text) {
  const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'F'); };
  return text.size() == 6 && text.starts_with("<0x") && text[5] == '>' && is_digit(text[3]) && is_digit(text[4]);
}

/// Bytes of the UTF-8 character that begins so.
std::size_t character_size(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte < 0x80 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
}

/// Writes the keys of one tokenizer.
class KeyWriter {
 public:
  KeyWriter(const Json& json, const Tokenizer& tokenizer, const SpecialTokens& special, formats::GgufMetadata& to)
      : json_(json), model_(json["model"]), tokenizer_(tokenizer), special_(special), to_(to) {}

  Status write(std::size_t vocabulary) {
    WEFT_CHECK(fill(vocabulary));
    const bool is_bpe = is_type(model_, "BPE") || (!model_.contains("type") && model_.contains("merges"));
    const bool is_words = is_type(model_, "WordPiece");
    const std::vector<const Json*> splits = steps_of(json_["pre_tokenizer"], "pretokenizers");
    const auto is_byte_level = [](const Json* step) { return is_type(*step, "ByteLevel"); };
    if (is_bpe && std::any_of(splits.begin(), splits.end(), is_byte_level)) {
      WEFT_CHECK(write_byte_level(splits));
    } else if (is_bpe) {
      WEFT_CHECK(write_scored(splits));
    } else if (is_words) {
      WEFT_CHECK(write_words());
    } else if (is_type(model_, "Unigram")) {
      WEFT_CHECK(write_unigram(splits));
    } else {
      return fail(Errc::unsupported,
                  "model: of this type no keys of GGUF are written; those that are: BPE, Unigram, WordPiece");
    }
    WEFT_CHECK(write_ends(is_words));
    set("tokens", formats::GgufArray(tokens_));
    set("token_type", formats::GgufArray(kinds_));
    return {};
  }

 private:
  template <class Value>
  void set(std::string_view name, Value value) {
    to_.set(std::string(kKeys) + std::string(name), formats::GgufValue(std::move(value)));
  }

  Status fill(std::size_t vocabulary) {
    const std::size_t size = tokenizer_.size();
    if (size > vocabulary)
      return fail(Errc::out_of_range, "has " + std::to_string(size) + " tokens, the model's embedding has " +
                                          std::to_string(vocabulary) + " rows");
    for (std::size_t id = 0; id < vocabulary; ++id) {
      const std::string* const text = id < size ? tokenizer_.token(static_cast<TokenId>(id)) : nullptr;
      tokens_.push_back(text ? *text : "[PAD" + std::to_string(id) + "]");
      kinds_.push_back(text ? kNormal : kUnused);
    }
    for (const Json& added : json_["added_tokens"]) {
      const auto id = added["id"].get<std::size_t>();
      kinds_[id] = is_true(added, "special", false) ? kControl : kUserDefined;
      added_.insert(id);
    }
    return {};
  }

  /// @error unsupported: where the steps before the model are none that a value of tokenizer.ggml.pre stands for
  Status write_byte_level(const std::vector<const Json*>& splits) {
    const std::vector<const Json*> normal = steps_of(json_["normalizer"], "normalizers");
    for (const NamedSplit& split : named_splits()) {
      const Json expected = pre_tokenizer_json(split);
      const bool is_composed = normal.size() == 1 && is_type(*normal[0], "NFC");
      if (!are_alike(splits, steps_of(expected, "pretokenizers")) || split.is_composed != is_composed ||
          split.keeps_whole != is_true(model_, "ignore_merges", false) || (!normal.empty() && !is_composed))
        continue;
      set("model", std::string("gpt2"));
      set("pre", std::string(split.name));
      return write_merges();
    }
    return fail(
        Errc::unsupported,
        "normalizer, pre_tokenizer and ignore_merges: no value of tokenizer.ggml.pre that is known stands for them");
  }
  static bool are_alike(const std::vector<const Json*>& a, const std::vector<const Json*>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Json* x, const Json* y) {
      if ((*x)["type"] != (*y)["type"]) return false;
      if (is_type(*x, "Digits")) return is_true(*x, "individual_digits", false);
      if (is_type(*x, "ByteLevel"))
        return !is_true(*x, "add_prefix_space", true) &&
               is_true(*x, "use_regex", true) == is_true(*y, "use_regex", true);
      return (*x)["pattern"] == (*y)["pattern"] && (*x)["behavior"] == (*y)["behavior"] &&
             !is_true(*x, "invert", false);
    });
  }
  Status write_merges() {
    std::vector<std::string> merges;
    for (const Json& row : model_["merges"])
      merges.push_back(row.is_string() ? row.text() : row[0].text() + " " + row[1].text());
    set("merges", formats::GgufArray(std::move(merges)));
    return {};
  }

  static Failure no_word_for(const Json& step) {
    return fail(Errc::unsupported, "step " + in_quotes(step["type"].is_string() ? step["type"].text() : "?") +
                                       ": a GGUF file's tokenizer has no word for it");
  }
  static bool has_prefix(const Json& metaspace) {
    const Json* const scheme = metaspace.find("prepend_scheme");
    return scheme && scheme->is_string() ? scheme->text() != "never" : is_true(metaspace, "add_prefix_space", true);
  }
  static bool is_replace(const Json& step, std::string_view kind, std::string_view pattern) {
    const Json* const given = is_type(step, "Replace") ? step["pattern"].find(kind) : nullptr;
    return given && *given == Json(pattern);
  }

  /// White space becomes U+2581, in the normalizer or in Metaspace, which may add one before the text.
  Result<bool> adds_space(const std::vector<const Json*>& splits) const {
    bool adds = false, replaces = false;
    for (const Json* const step : steps_of(json_["normalizer"], "normalizers")) {
      if (is_type(*step, "Prepend") && (*step)["prepend"] == Json(kWordSpace))
        adds = true;
      else if (is_replace(*step, "String", " ") && (*step)["content"] == Json(kWordSpace))
        replaces = true;
      else
        return no_word_for(*step);
    }
    for (const Json* const step : splits) {
      if (!is_type(*step, "Metaspace") || is_true(*step, "split", true)) return no_word_for(*step);
      adds = has_prefix(*step);
      replaces = true;
    }
    if (!replaces)
      return fail(Errc::unsupported,
                  "BPE neither on bytes nor on U+2581 for spaces: a GGUF file's tokenizer has no word for it");
    return adds;
  }

  Status write_scored(const std::vector<const Json*>& splits) {
    WEFT_TRY(const bool adds, adds_space(splits));
    std::unordered_map<std::string, float> scores;
    std::size_t rank = 0;
    for (const Json& row : model_["merges"]) {
      std::string whole = row.is_string() ? row.text() : row[0].text() + row[1].text();
      if (row.is_string()) whole.erase(whole.find(' '), 1);
      scores.emplace(std::move(whole), -1.0f - static_cast<float>(rank++));  // the first is the least rank
    }
    const Json* const unknown = model_.find("unk_token");
    std::vector<float> all;
    for (std::size_t id = 0; id < tokens_.size(); ++id) {
      const std::string& text = tokens_[id];
      const auto found = scores.find(text);
      const bool is_single = !text.empty() && text.size() == character_size(text[0]);
      all.push_back(added_.contains(id) || kinds_[id] == kUnused ? -1000.0f
                    : found != scores.end()                      ? found->second
                    : is_single || is_byte_token(text)           ? 0.0f
                                                                 : -1e6f);
      if (kinds_[id] == kNormal && is_byte_token(text)) kinds_[id] = kByte;
      if (unknown && unknown->is_string() && unknown->text() == text) {
        kinds_[id] = kUnknown;
        set("unknown_token_id", static_cast<std::uint32_t>(id));
      }
    }
    set("model", std::string("llama"));
    set("pre", std::string("default"));
    set("scores", formats::GgufArray(std::move(all)));
    set("add_space_prefix", adds);
    return {};
  }

  /// Steps before the model become SentencePiece's: its table, a space before the text, one space for several. What
  /// they make is compared with what the file's make, so here is looked only for what they are.
  Status write_unigram(const std::vector<const Json*>& splits) {
    bool adds = false, merges = false;
    for (const Json* const step : steps_of(json_["normalizer"], "normalizers")) {
      const bool is_of_several = is_replace(*step, "Regex", " {2,}") || is_replace(*step, "Regex", kOuterSpaces);
      if (is_type(*step, "Precompiled")) {
        WEFT_TRY(const std::string table, from_base64((*step)["precompiled_charsmap"].text()));
        set("precompiled_charsmap", formats::GgufArray(std::vector<std::uint8_t>(table.begin(), table.end())));
      } else if (is_type(*step, "Prepend") && (*step)["prepend"] == Json(kWordSpace)) {
        adds = true;
      } else if (!is_of_several && !is_type(*step, "Strip") && !is_replace(*step, "String", " ")) {
        return no_word_for(*step);
      }
      merges |= is_of_several || is_type(*step, "Strip");
    }
    for (const Json* const step : splits) {
      if (!is_type(*step, "Metaspace") && !is_type(*step, "WhitespaceSplit")) return no_word_for(*step);
      merges |= is_type(*step, "WhitespaceSplit");
      adds |= is_type(*step, "Metaspace") && has_prefix(*step);
    }
    std::vector<float> scores(tokens_.size(), -1000.0f);
    std::size_t id = 0;
    for (const Json& row : model_["vocab"]) scores[id++] = static_cast<float>(row[1].get<double>());
    if (const Json* const unknown = model_.find("unk_id"); unknown && !unknown->is_null()) {
      kinds_[unknown->get<std::size_t>()] = kUnknown;
      set("unknown_token_id", unknown->get<std::uint32_t>());
    }
    set("model", std::string("t5"));
    set("pre", std::string("default"));
    set("scores", formats::GgufArray(std::move(scores)));
    set("add_space_prefix", adds);
    set("remove_extra_whitespaces", merges);
    return {};
  }

  /// "##" goes from the inside of words and U+2581 comes before their beginnings.
  Status write_words() {
    const Json* const prefix = model_.find("continuing_subword_prefix");
    const std::string inside = prefix && prefix->is_string() ? prefix->text() : "##";
    for (std::size_t id = 0; id < tokens_.size(); ++id) {
      if (kinds_[id] != kNormal) continue;
      std::string& text = tokens_[id];
      text = text.starts_with(inside) ? text.substr(inside.size()) : std::string(kWordSpace) + text;
    }
    const Json* const unknown = model_.find("unk_token");
    const auto id = tokenizer_.find(unknown && unknown->is_string() ? unknown->text() : "[UNK]");
    if (id) set("unknown_token_id", *id);
    set("model", std::string("bert"));
    set("token_type_count", std::uint32_t{2});
    return {};
  }

  /// Tokens around a text and those with a role.
  Status write_ends(bool is_words) {
    WEFT_TRY(const auto bare, tokenizer_.encode("a", {.add_special = false}));
    WEFT_TRY(const auto whole, tokenizer_.encode("a"));
    const auto at = std::search(whole.begin(), whole.end(), bare.begin(), bare.end());
    const std::vector<TokenId> before(whole.begin(), at);
    const std::vector<TokenId> after(at == whole.end() ? at : at + static_cast<std::ptrdiff_t>(bare.size()),
                                     whole.end());
    if (before.size() > 1 || after.size() > 1)
      return fail(Errc::unsupported, "post_processor: adds " + std::to_string(before.size()) +
                                         " tokens before a text and " + std::to_string(after.size()) +
                                         " after it; a GGUF file has one at most");
    const auto role = [&](const char* key, const std::string& text, const std::vector<TokenId>& found) {
      const auto named = text.empty() ? std::nullopt : tokenizer_.find(text);
      const std::optional<TokenId> id = found.empty() ? named : found[0];
      if (id) set(key, *id);
    };
    role(is_words ? "cls_token_id" : "bos_token_id", special_.begin, before);
    role(is_words ? "seperator_token_id" : "eos_token_id", special_.end, after);
    role("padding_token_id", special_.padding, {});
    if (!to_.contains(std::string(kKeys) + "unknown_token_id")) role("unknown_token_id", special_.unknown, {});
    set("add_bos_token", !before.empty());
    set("add_eos_token", !after.empty());
    return {};
  }

  const Json &json_, &model_;
  const Tokenizer& tokenizer_;
  const SpecialTokens& special_;
  formats::GgufMetadata& to_;
  std::vector<std::string> tokens_;
  std::vector<std::int32_t> kinds_;
  std::set<std::size_t> added_;
};

}  // namespace

Status add_gguf_tokenizer(std::string_view tokenizer_json, const SpecialTokens& special, std::size_t vocabulary,
                          formats::GgufMetadata& to) {
  WEFT_TRY(const Tokenizer ours, Tokenizer::from_json(tokenizer_json));
  constexpr JsonLimits kLimits{
      .max_bytes = std::size_t{128} << 20, .max_depth = 32, .max_values = std::size_t{1} << 24};
  WEFT_TRY(const Json json, parse_json(tokenizer_json, "tokenizer.json", kLimits));
  formats::GgufMetadata keys;
  if (auto written = KeyWriter(json, ours, special, keys).write(vocabulary); !written)
    return fail(std::move(written).error().within("tokenizer.json"));
  WEFT_TRY(const Tokenizer theirs, Tokenizer::from_gguf(keys));
  if (auto same = check_same_ids(ours, theirs); !same) return fail(std::move(same).error().within("tokenizer.json"));
  for (const auto& [key, value] : keys.pairs()) to.set(key, value);
  return {};
}

}  // namespace weft::text
