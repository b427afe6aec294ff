// SPDX-License-Identifier: Apache-2.0

#include "text/internal/rewrite_table.hpp"

#include "text/internal/utf16.hpp"
#include "text/unicode.hpp"

#include <unicode/ubrk.h>

#include <cstring>
#include <utility>

namespace weft::text {
namespace {

constexpr std::string_view kBlank = "\u2581";

// Parts of a unit of the double array.
constexpr std::uint32_t kIsValue = 1u << 31;
std::size_t next_of(std::uint32_t unit) { return static_cast<std::size_t>(unit >> 10) << ((unit & 1u << 9) >> 6); }
bool has_value(std::uint32_t unit) { return (unit >> 8 & 1) != 0; }
std::uint32_t label_of(std::uint32_t unit) { return unit & (kIsValue | 0xff); }

bool begins_character(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) != 0x80; }

class SentenceNormalizer final : public Normalizer {
 public:
  explicit SentenceNormalizer(SentenceSteps steps) : steps_(std::move(steps)) {}
  Result<std::string> apply(std::string_view fragment) const override {
    std::string made;
    bool is_in_word = false, is_first = true;
    const auto take = [&](std::string_view text) {
      for (const char byte : text) {
        if (byte == ' ') {
          is_in_word = false;
          if (!steps_.merges_spaces) made += kBlank;
          continue;
        }
        if (!is_in_word && (steps_.merges_spaces || (steps_.adds_space && is_first))) made += kBlank, is_first = false;
        is_in_word = true;
        made += byte;
      }
    };
    for (std::size_t at = 0; at < fragment.size();) {
      const auto match = steps_.table ? steps_.table->longest(fragment.substr(at)) : RewriteTable::Match();
      const std::size_t begin = at;
      if (match.length != 0)
        at += match.length, take(match.becomes);
      else
        (void)next_code_point(fragment, at), take(fragment.substr(begin, at - begin));
      WEFT_CHECK(check_made_text(made.size()));
    }
    return made;
  }

 private:
  SentenceSteps steps_;
};

class ClusterNormalizer final : public Normalizer {
 public:
  explicit ClusterNormalizer(std::shared_ptr<const RewriteTable> table) : table_(std::move(table)) {}
  Result<std::string> apply(std::string_view fragment) const override {
    constexpr std::size_t kWhole = 6;  // bytes from which on a cluster is looked at by its characters
    const Utf16 wide(fragment);
    UErrorCode code = U_ZERO_ERROR;
    const std::unique_ptr<UBreakIterator, void (*)(UBreakIterator*)> clusters(
        ubrk_open(UBRK_CHARACTER, "", wide.units.data(), static_cast<std::int32_t>(wide.units.size()), &code),
        ubrk_close);
    if (U_FAILURE(code) || !clusters) return fail(Errc::internal, std::string("clusters: ") + u_errorName(code));
    std::string made;
    std::size_t begin = 0;
    for (std::int32_t unit = ubrk_next(clusters.get()); unit != UBRK_DONE; unit = ubrk_next(clusters.get())) {
      const std::size_t end = wide.offset(static_cast<std::size_t>(unit));
      const std::string_view cluster = fragment.substr(begin, end - begin);
      begin = end;
      WEFT_CHECK(check_made_text(made.size()));
      if (const auto match = cluster.size() < kWhole ? table_->shortest(cluster) : RewriteTable::Match();
          match.length != 0) {
        made += match.becomes;
        continue;
      }
      for (std::size_t at = 0; at < cluster.size();) {
        const std::size_t first = at;
        (void)next_code_point(cluster, at);
        const std::string_view character = cluster.substr(first, at - first);
        const auto match = table_->shortest(character);
        made += match.length != 0 ? match.becomes : character;
      }
    }
    return made;
  }

 private:
  std::shared_ptr<const RewriteTable> table_;
};

}  // namespace

Result<RewriteTable> RewriteTable::read(std::string_view bytes) {
  std::uint32_t size = 0;
  if (bytes.size() >= sizeof size) std::memcpy(&size, bytes.data(), sizeof size);
  if (size == 0 || size % sizeof(std::uint32_t) != 0 || size > bytes.size() - sizeof size)
    return fail(Errc::corrupt, "a table of rewritten texts of " + std::to_string(bytes.size()) +
                                   " bytes whose double array has " + std::to_string(size));
  RewriteTable table;
  table.units_.resize(size / sizeof(std::uint32_t));
  std::memcpy(table.units_.data(), bytes.data() + sizeof size, size);
  table.texts_ = bytes.substr(sizeof size + size);
  if (valid_prefix(table.texts_) != table.texts_.size())
    return fail(Errc::corrupt, "a table of rewritten texts that are not UTF-8");
  for (std::size_t i = 0; i < table.units_.size(); ++i) {
    const std::uint32_t unit = table.units_[i];
    if ((unit & kIsValue) != 0 || !has_value(unit)) continue;
    const std::size_t place = i ^ next_of(unit);
    const std::size_t value = place < table.units_.size() ? table.units_[place] & ~kIsValue : SIZE_MAX;
    if (value >= table.texts_.size() || !begins_character(table.texts_[value]))
      return fail(Errc::corrupt, "a table of rewritten texts whose unit " + std::to_string(i) + " names none of its " +
                                     std::to_string(table.texts_.size()) + " bytes of text");
  }
  return table;
}

RewriteTable::Match RewriteTable::find(std::string_view text, bool is_longest) const noexcept {
  Match found;
  std::size_t node = next_of(units_[0]);
  for (std::size_t at = 0; at < text.size() && text[at] != '\0'; ++at) {
    const auto byte = static_cast<unsigned char>(text[at]);
    node ^= byte;
    if (node >= units_.size() || label_of(units_[node]) != byte) break;
    const std::uint32_t unit = units_[node];
    node ^= next_of(unit);
    if (!has_value(unit) || (at + 1 < text.size() && !begins_character(text[at + 1]))) continue;
    found.length = at + 1;
    found.becomes = std::string_view(texts_.c_str() + (units_[node] & ~kIsValue));
    if (!is_longest) break;
  }
  return found;
}

std::shared_ptr<const Normalizer> make_sentence_normalizer(SentenceSteps steps) {
  return std::make_shared<const SentenceNormalizer>(std::move(steps));
}
std::shared_ptr<const Normalizer> make_cluster_normalizer(std::shared_ptr<const RewriteTable> table) {
  return std::make_shared<const ClusterNormalizer>(std::move(table));
}

}  // namespace weft::text
