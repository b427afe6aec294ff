// SPDX-License-Identifier: Apache-2.0

#include "text/tokenizer.hpp"

#include "text/internal/tokenizer_parts.hpp"
#include "text/unicode.hpp"

#include <algorithm>
#include <cstdint>
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
  Passage(const Tokenizer::Parts& parts, bool finds_special) : parts_(parts), finds_special_(finds_special) {}

  Status encode(std::string_view text) {
    return each_part_of(
        text, parts_.raw.find(text, finds_special_),
        [&](std::size_t begin, std::size_t end) { return normalize(text.substr(begin, end - begin), begin == 0); },
        [&](TokenId id) { ids.push_back(id); });
  }
  std::vector<TokenId> ids;

 private:
  Status normalize(std::string_view fragment, bool is_first) {
    std::string text(fragment);
    if (parts_.normalizer) {
      WEFT_TRY(text, parts_.normalizer->apply(fragment));
    }
    return each_part_of(
        text, parts_.normalized.find(text, finds_special_),
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
  bool finds_special_;
};

}  // namespace

Result<std::vector<TokenId>> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  // Normal forms may lengthen a text 18 times, and ICU counts with 31 bits.
  constexpr std::size_t kMost = std::size_t{64} << 20;
  if (text.size() > kMost)
    return fail(Errc::too_large, "a text of " + std::to_string(text.size()) + " bytes, at most 64 MiB are encoded");
  Passage passage(*parts_, options.parse_special);
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
