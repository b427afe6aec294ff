// SPDX-License-Identifier: Apache-2.0

#include "text/token_stream.hpp"

#include <algorithm>
#include <span>

namespace weft::text {
namespace {
constexpr std::size_t kTokensBefore = 8;  // what a decoder does to a token depends on those before it
constexpr std::string_view kNoCharacter = "\xEF\xBF\xBD";
}  // namespace

TokenStream::TokenStream(const Tokenizer& tokenizer, std::vector<TokenId> prompt, std::vector<std::string> stops)
    : tokenizer_(tokenizer), ids_(std::move(prompt)), given_(ids_.size()), stops_(std::move(stops)) {
  from_ = given_ - std::min(given_, kTokensBefore);
  std::erase(stops_, "");
}

// The text of the tokens since `given_`, as that of a few before them grows by it. A token that ends inside a character
// decodes to U+FFFD: it waits for the next one.
std::string TokenStream::new_text(bool is_last) {
  const std::span all(ids_);
  const std::string before = tokenizer_.decode(all.subspan(from_, given_ - from_), true);
  const std::string after = tokenizer_.decode(all.subspan(from_), true);
  if (!is_last && after.ends_with(kNoCharacter) && ids_.size() - given_ < 4) return {};
  // Bytes that never become a character may change what stood before them: then they are decoded alone.
  std::string text =
      after.starts_with(before) ? after.substr(before.size()) : tokenizer_.decode(all.subspan(given_), true);
  given_ = ids_.size();
  from_ = given_ - std::min(given_, kTokensBefore);
  return text;
}

std::string TokenStream::release(bool is_last) {
  for (const std::string& stop : stops_)
    if (const std::size_t at = held_.find(stop); at != held_.npos) {
      held_.resize(at);
      is_stopped_ = true;
    }
  std::size_t kept = 0;
  for (const std::string& stop : stops_)
    for (std::size_t n = std::min(stop.size() - 1, held_.size()); n > kept && !is_last && !is_stopped_; --n)
      if (held_.ends_with(std::string_view(stop).substr(0, n))) kept = n;
  std::string text = held_.substr(0, held_.size() - kept);
  held_.erase(0, text.size());
  return text;
}

std::string TokenStream::push(TokenId id) {
  if (is_stopped_) return {};
  ids_.push_back(id);
  held_ += new_text(false);
  return release(false);
}

std::string TokenStream::finish() {
  if (is_stopped_) return {};
  held_ += new_text(true);
  return release(true);
}

}  // namespace weft::text
