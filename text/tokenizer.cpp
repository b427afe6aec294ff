// SPDX-License-Identifier: Apache-2.0

#include "text/tokenizer.hpp"

#include "text/internal/byte_letters.hpp"
#include "text/internal/tokenizer_parts.hpp"
#include "text/unicode.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <set>
#include <utility>

namespace weft::text {
namespace {

/// Text between matches, and matches, in order.
template <class Text, class Found>
Status each_part_of(std::string_view text, const std::vector<AddedTokens::Match>& matches, const Text& between,
                    const Found& found) {
  std::size_t end = 0;
  for (const AddedTokens::Match& match : matches) {
    if (match.begin > end) WEFT_CHECK(between(end, match.begin));
    found(match.id);
    end = match.end;
  }
  return end < text.size() ? between(end, text.size()) : Status();
}

/// One text on its way through the parts.
class Passage {
 public:
  Passage(const Tokenizer::Parts& parts, const EncodeOptions& options) : parts_(parts), options_(options) {}

  Status encode(std::string_view text) {
    std::vector<Match> matches = parts_.raw.find(text, options_.parse_special);
    std::erase_if(
        matches, [&](const Match& match) { return match.special && is_plain(match.content_begin, match.content_end); });
    return each_part_of(
        text, matches,
        [&](std::size_t begin, std::size_t end) { return normalize(text.substr(begin, end - begin), begin); },
        [&](TokenId id) { ids.push_back(id); });
  }
  std::vector<TokenId> ids;

 private:
  using Match = AddedTokens::Match;

  bool is_plain(std::size_t begin, std::size_t end) const {
    const auto range = std::partition_point(options_.plain.begin(), options_.plain.end(),
                                            [&](const auto& each) { return each.second <= begin; });
    return range != options_.plain.end() && range->first < end;
  }

  /// Tokens in normalized text. Of a fragment with plain bytes, special ones are those that other bytes spell.
  Result<std::vector<Match>> find_normalized(std::string_view text, std::string_view fragment, std::size_t at) const {
    std::vector<Match> matches = parts_.normalized.find(text, options_.parse_special);
    const auto is_special = [](const Match& match) { return match.special; };
    if (!is_plain(at, at + fragment.size()) || std::none_of(matches.begin(), matches.end(), is_special)) return matches;
    std::set<std::pair<TokenId, std::size_t>> ends;
    for (const auto& [id, token] : parts_.added)
      if (token.special && token.normalized) WEFT_CHECK(add_ends(token, text, fragment, at, ends));
    std::erase_if(matches, [&](const Match& match) {
      return match.special && !ends.contains({match.id, match.content_end});
    });
    return matches;
  }
  /// The places in normalized text where a token ends that no plain byte spells.
  Status add_ends(const AddedToken& token, std::string_view text, std::string_view fragment, std::size_t at,
                  std::set<std::pair<TokenId, std::size_t>>& ends) const {
    const std::size_t size = token.content.size();
    for (std::size_t begin = 0; (begin = fragment.find(token.content, begin)) != fragment.npos; begin += size) {
      if (is_plain(at + begin, at + begin + size)) continue;
      std::string before(fragment.substr(0, begin + size));
      if (parts_.normalizer) {
        WEFT_TRY(before, parts_.normalizer->apply(before));
      }
      if (text.starts_with(before)) ends.emplace(token.id, before.size());
    }
    return {};
  }

  Status normalize(std::string_view fragment, std::size_t at) {
    const bool is_first = at == 0;
    std::string text(fragment);
    if (parts_.normalizer) {
      WEFT_TRY(text, parts_.normalizer->apply(fragment));
      if (const Status bounded = check_made_text(made_ += text.size()); !bounded)
        return fail(Error(bounded.error()).within("normalizer"));
    }
    WEFT_TRY(const std::vector<Match> matches, find_normalized(text, fragment, at));
    return each_part_of(
        text, matches,
        [&](std::size_t begin, std::size_t end) {
          return split({text.substr(begin, end - begin), is_first && begin == 0});
        },
        [&](TokenId id) { ids.push_back(id); });
  }
  Status split(Fragment fragment) {
    if (!parts_.pre_tokenizer) {
      parts_.model->encode(fragment.text, ids);
      return {};
    }
    std::vector<Fragment> fragments;
    WEFT_CHECK(parts_.pre_tokenizer->split(std::move(fragment), fragments));
    for (const Fragment& one : fragments) parts_.model->encode(one.text, ids);
    return {};
  }

  const Tokenizer::Parts& parts_;
  const EncodeOptions& options_;
  std::size_t made_ = 0;  // bytes of normalized text
};

}  // namespace

Result<std::vector<TokenId>> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  // Normal forms may lengthen a text 18 times, and ICU counts with 31 bits.
  if (text.size() > kMostText)
    return fail(Errc::too_large, "a text of " + std::to_string(text.size()) + " bytes, at most 64 MiB are encoded");
  Passage passage(*parts_, options);
  if (options.add_special) passage.ids = parts_->before;
  if (valid_prefix(text) == text.size()) {
    WEFT_CHECK(passage.encode(text));
  } else {
    WEFT_CHECK(passage.encode(replace_invalid(text)));
  }
  if (options.add_special) passage.ids.insert(passage.ids.end(), parts_->after.begin(), parts_->after.end());
  return std::move(passage.ids);
}

std::string Tokenizer::decode(std::span<const TokenId> ids, bool skip_special) const {
  std::vector<std::string> tokens;
  tokens.reserve(ids.size());
  for (const TokenId id : ids)
    if (const std::string* const found = token(id); found && !(skip_special && is_special(id))) {
      const auto spelled = parts_->spelled.find(id);
      tokens.push_back(spelled == parts_->spelled.end() ? *found : spelled->second);
    }
  std::string text;
  if (parts_->decoder) {
    parts_->decoder->apply(tokens);
    for (const std::string& token : tokens) text += token;
  } else {
    for (std::size_t i = 0; i < tokens.size(); ++i) text += (i == 0 ? "" : " ") + tokens[i];
  }
  return valid_prefix(text) == text.size() ? text : replace_invalid(text);
}

std::string Tokenizer::token_bytes(TokenId id) const {
  const std::string* const found = token(id);
  if (!found) return {};
  const auto spelled = parts_->spelled.find(id);
  const std::string& text = spelled == parts_->spelled.end() ? *found : spelled->second;
  if (!parts_->decoder) return text;
  const auto decoded = [&](std::vector<std::string> tokens) {
    parts_->decoder->apply(tokens);
    std::string all;
    for (const std::string& token : tokens) all += token;
    return all;
  };
  // A decoder makes U+FFFD of a part of a character: its bytes are read off the token's letters or name.
  if (decoded({to_byte_letters("\n")}) == "\n") return from_byte_letters(text);
  unsigned byte = 0;
  if (text.size() == 6 && text.starts_with("<0x") && decoded({"<0x41>"}) == "A" &&
      std::from_chars(text.data() + 3, text.data() + 5, byte, 16).ptr == text.data() + 5)
    return std::string(1, static_cast<char>(byte));
  const std::string before = decoded({"a"}), after = decoded({"a", text});
  return after.starts_with(before) ? after.substr(before.size()) : text;
}

std::optional<TokenId> Tokenizer::find(std::string_view token) const {
  if (const auto added = parts_->added_ids.find(std::string(token)); added != parts_->added_ids.end())
    return added->second;
  return parts_->model->vocabulary().find(token);
}

const std::string* Tokenizer::token(TokenId id) const noexcept {
  const auto added = parts_->added.find(id);
  return added != parts_->added.end() ? &added->second.content : parts_->model->vocabulary().token(id);
}

bool Tokenizer::is_special(TokenId id) const noexcept {
  const auto added = parts_->added.find(id);
  return added != parts_->added.end() && added->second.special;
}

std::size_t Tokenizer::size() const noexcept {
  std::size_t size = parts_->model->vocabulary().size();
  for (const auto& [id, token] : parts_->added) size = std::max(size, std::size_t{id} + 1);
  return size;
}

}  // namespace weft::text
