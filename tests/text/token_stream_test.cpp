// SPDX-License-Identifier: Apache-2.0

#include "text/token_stream.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace weft::text::token_stream_test {
namespace {

/// A tokenizer of bytes: token i is byte i, as byte-level BPE spells it.
Tokenizer bytes() {
  std::string vocabulary;
  for (int i = 0; i < 256; ++i) {
    constexpr char kHex[] = "0123456789ABCDEF";
    vocabulary += (i ? ",\"<0x" : "\"<0x");
    vocabulary += kHex[i / 16];
    vocabulary += kHex[i % 16];
    vocabulary += ">\":" + std::to_string(i);
  }
  const auto made = Tokenizer::from_json(
      R"({"version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
          "pre_tokenizer": null, "post_processor": null,
          "decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]},
          "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
                    "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": true, "vocab": {)" +
      vocabulary + R"(}, "merges": []}})");
  EXPECT_TRUE(made) << made.error().text();
  return *made;
}

std::vector<std::string> parts(const std::string& text, const std::vector<std::string>& stops = {}) {
  const Tokenizer tokenizer = bytes();
  TokenStream stream(tokenizer, {'p', ' '}, stops);
  std::vector<std::string> given;
  for (const char c : text) given.push_back(stream.push(static_cast<unsigned char>(c)));
  given.push_back(stream.finish());
  return given;
}
std::string joined(const std::vector<std::string>& all) {
  std::string text;
  for (const std::string& part : all) text += part;
  return text;
}

TEST(TokenStream, GivesWholeCharacters) {
  EXPECT_EQ(parts("a\u00e9\u20ac!"), (std::vector<std::string>{"a", "", "\u00e9", "", "", "\u20ac", "!", ""}));
}

TEST(TokenStream, GivesWhatNeverBecomesACharacterAtTheEnd) {
  EXPECT_EQ(joined(parts("a\xE2\x82")), "a\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST(TokenStream, HoldsBackWhatMayBecomeAStopString) {
  EXPECT_EQ(parts("abcabd", {"abd"}), (std::vector<std::string>{"", "", "abc", "", "", "", ""}));
  EXPECT_EQ(joined(parts("abcab", {"abd"})), "abcab");
  EXPECT_EQ(joined(parts("aaab", {"aab"})), "a");
  EXPECT_EQ(joined(parts("one two", {"", "x"})), "one two");
}

}  // namespace
}  // namespace weft::text::token_stream_test
