// SPDX-License-Identifier: Apache-2.0

#include "text/internal/tokenizer_comparison.hpp"

#include "core/philox.hpp"
#include "core/printable.hpp"

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace weft::text {
namespace {

constexpr std::array<std::string_view, 13> kSamples{
    "",
    "   ",
    "The quick brown fox didn't jump over the lazy dog; it's 1,024.50 metres away!",
    "  leading and   inner  spaces, a tab\tand two\n\nnew lines \r\n at the end  ",
    "if (x[0] != y && !z) { return \"a\\n\"; } // 0xFF, 3.14e-10",
    "Grüße aus München: façade, naïve, Ångström, señor, Łódź",
    "Съешь же ещё этих мягких французских булок, да выпей чаю",
    "私は東京に住んでいます。你好，世界！한국어 문장입니다.",
    "مرحبا بالعالم שלום עולם नमस्ते दुनिया สวัสดีชาวโลก",
    "🙂👩‍👩‍👧 ½ ² Ⅷ ﬁ e\u0301 \u00a0 \u2028 \u200b",
    "WE'LL I'd they've HTTPServer snake_case camelCase kebab-case",
    "123456789 1234 12 1 007 1.2.3 +49 (0) 30",
    "user@example.com https://example.org/path?query=1#part"};
constexpr std::size_t kMadeTexts = 1000, kTokensOfText = 6;

std::string text_of(const std::vector<TokenId>& ids) {
  std::string text;
  for (std::size_t i = 0; i < ids.size() && i < 12; ++i) text += (text.empty() ? "" : ", ") + std::to_string(ids[i]);
  return "[" + text + (ids.size() > 12 ? ", ...]" : "]");
}

Status check_text(const Tokenizer& a, const Tokenizer& b, std::string_view text) {
  // Special tokens are found by other rules: beside white space, or by their normalized spelling.
  const EncodeOptions options{.parse_special = false};
  WEFT_TRY(const std::vector<TokenId> ours, a.encode(text, options));
  WEFT_TRY(const std::vector<TokenId> theirs, b.encode(text, options));
  if (ours == theirs) return {};
  return fail(Errc::unsupported, "the tokenizer has no like there: of " + in_quotes(text) + " it makes " +
                                     text_of(ours) + ", the other " + text_of(theirs));
}

}  // namespace

Status check_same_ids(const Tokenizer& a, const Tokenizer& b) {
  for (const std::string_view sample : kSamples) WEFT_CHECK(check_text(a, b, sample));
  if (a.size() == 0) return {};
  RandomStream random(1, 0, RandomPurpose::shuffle);
  for (std::size_t i = 0; i < kMadeTexts; ++i) {
    std::vector<TokenId> ids;
    for (std::size_t t = 0; t < kTokensOfText; ++t) {
      const auto id = static_cast<TokenId>(random.next_below(static_cast<std::uint32_t>(a.size())));
      if (!a.is_special(id)) ids.push_back(id);
    }
    WEFT_CHECK(check_text(a, b, a.decode(ids, true)));
  }
  return {};
}

}  // namespace weft::text
