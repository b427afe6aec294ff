// SPDX-License-Identifier: Apache-2.0

#include "text/tokenizer.hpp"

#include "text/expression.hpp"

#include "core/json.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace weft::text::tokenizer_test {
namespace {

const std::string kModel = R"({"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]})";

/// A file with a model and other sections.
std::string file(const std::string& sections = "", const std::string& model = kModel) {
  return "{" + sections + (sections.empty() ? "" : ",") + "\"model\":" + model + "}";
}
std::string model(const std::string& body) { return file("", "{" + body + "}"); }

struct Refused {
  std::string text;
  Errc code;
  std::string names;  // a part of the message
};

TEST(Tokenizer, RefusesFilesThatAreNotAsDocumented) {
  const std::string bpe = R"("type":"BPE","vocab":{"a":0,"b":1,"ab":2})";
  const Refused rows[] = {
      {"", Errc::parse_failed, "t.json:1:"},
      {"[]", Errc::parse_failed, "t.json"},
      {"{}", Errc::not_found, "model"},
      {file() + "x", Errc::parse_failed, "t.json:1:"},
      {file(R"("normalizer":null,"normalizer":null)"), Errc::duplicate_name, "normalizer"},
      {std::string(40, '['), Errc::too_large, "t.json:1:"},
      {file(R"("extra":1)"), Errc::unknown_name, "extra"},
      // Models.
      {model(R"("type":"CTC")"), Errc::unsupported, "model: model \"CTC\""},
      {model(R"("type":"BPE","merges":[])"), Errc::not_found, "vocab"},
      {model(R"("type":"BPE","vocab":[],"merges":[])"), Errc::parse_failed, "model.vocab"},
      {model(R"("type":"BPE","vocab":{"a":-1},"merges":[])"), Errc::parse_failed, "found -1"},
      {model(R"("type":"BPE","vocab":{"a":1.5},"merges":[])"), Errc::parse_failed, "found 1.5"},
      {model(R"("type":"BPE","vocab":{"a":16777216},"merges":[])"), Errc::parse_failed, "below 2^24"},
      {model(R"("type":"BPE","vocab":{"a":0,"b":0},"merges":[])"), Errc::duplicate_name, "id 0 stands for"},
      {model(R"("type":"BPE","vocab":{"a":0,"a":1},"merges":[])"), Errc::duplicate_name, "a"},
      {model(R"("type":"BPE","vocab":{"\ud800":0},"merges":[])"), Errc::parse_failed, "t.json:1:"},
      {model(R"("type":"BPE","vocab":{")" + std::string(65'537, 'x') + R"(":0},"merges":[])"), Errc::too_large,
       "65537"},
      {model(bpe + R"(,"merges":["a b","ab"])"), Errc::parse_failed, "model.merges[1]"},
      {model(bpe + R"(,"merges":["a b c"])"), Errc::parse_failed, "model.merges[0]"},
      {model(bpe + R"(,"merges":[["a"]])"), Errc::parse_failed, "model.merges[0]"},
      {model(bpe + R"(,"merges":["a b","a c"])"), Errc::not_found, "merge 1: \"c\""},
      {model(bpe + R"(,"merges":["b a"])"), Errc::not_found, "merge 0: \"ba\""},
      {model(bpe + R"(,"merges":[],"unk_token":"u")"), Errc::not_found, "unk_token \"u\""},
      {model(bpe + R"(,"merges":[],"dropout":0.1)"), Errc::unsupported, "dropout"},
      {model(bpe + R"(,"merges":[],"ignore_merge":true)"), Errc::unknown_name, "ignore_merges"},
      {model(R"("type":"Unigram","vocab":[["a",-1]],"unk_id":1)"), Errc::out_of_range, "unk_id: found 1"},
      {model(R"("type":"Unigram","vocab":[["a","b"]])"), Errc::parse_failed, "model.vocab[0]"},
      {model(R"("type":"Unigram","vocab":[["a",-1],["a",-2]])"), Errc::duplicate_name, "\"a\""},
      {model(R"("type":"WordPiece","vocab":{"a":0})"), Errc::not_found, "[UNK]"},
      // Steps.
      {file(R"("normalizer":{"type":"Precompiled","precompiled_charsmap":""})"), Errc::corrupt, "precompiled_charsmap"},
      {file(R"("normalizer":{"type":"Nmt"})"), Errc::unsupported, "Nmt"},
      {file(R"("normalizer":{"type":"Nmt"})"), Errc::unsupported, "Nmt"},
      {file(R"("normalizer":{"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"Up"}]})"), Errc::unsupported,
       "normalizer.normalizers[1]: normalizer \"Up\""},
      {file(R"("normalizer":{"type":"Strip","strip_left":1})"), Errc::parse_failed, "normalizer.strip_left"},
      {file(R"("normalizer":{"type":"Replace","pattern":{"Regex":"("},"content":""})"), Errc::parse_failed,
       "normalizer.pattern"},
      {file(R"("normalizer":{"type":"Replace","pattern":{"Regexp":"a"},"content":""})"), Errc::not_found, "Regex"},
      {file(R"("pre_tokenizer":{"type":"UnicodeScripts"})"), Errc::unsupported, "UnicodeScripts"},
      {file(R"("pre_tokenizer":{"type":"FixedLength","length":5})"), Errc::unsupported, "FixedLength"},
      {file(R"("pre_tokenizer":{"type":"Split","pattern":{"String":"a"},"behavior":"Isolate"})"), Errc::unknown_name,
       "Isolated"},
      {file(R"("pre_tokenizer":{"type":"Split","pattern":{"Regex":"(a)\\1"},"behavior":"Isolated"})"),
       Errc::unsupported, "pre_tokenizer.pattern"},
      {file(R"("pre_tokenizer":{"type":"Metaspace","prepend_scheme":"last"})"), Errc::unknown_name, "always"},
      {file(R"("post_processor":{"type":"Template"})"), Errc::unsupported, "Template"},
      {file(R"("post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"B","type_id":0}}]})"),
       Errc::not_found, "\"B\" is not among"},
      {file(R"("decoder":{"type":"CTC"})"), Errc::unsupported, "CTC"},
      {file(R"("decoder":{"type":"Strip","content":"","start":1,"stop":0})"), Errc::parse_failed, "decoder.content"},
      // Added tokens.
      {file(R"("added_tokens":[{"id":1,"content":"a"}])"), Errc::corrupt, "in the vocabulary it has 0"},
      {file(R"("added_tokens":[{"id":0,"content":"x"}])"), Errc::corrupt, "in the vocabulary that is \"a\""},
      {file(R"("added_tokens":[{"id":9,"content":"x"},{"id":9,"content":"y"}])"), Errc::duplicate_name, "twice"},
      {file(R"("added_tokens":[{"id":9,"content":"x"},{"id":8,"content":"x"}])"), Errc::duplicate_name, "twice"},
      {file(R"("added_tokens":[{"id":16777216,"content":"x"}])"), Errc::out_of_range, "added_tokens[0].id"},
      {file(R"("added_tokens":[{"id":9,"content":""}])"), Errc::invalid_argument, "without content"},
  };
  for (const Refused& row : rows) {
    const auto found = Tokenizer::from_json(row.text, "t.json");
    const std::string shown = row.text.substr(0, 200);
    ASSERT_FALSE(found) << shown;
    EXPECT_EQ(found.error().code(), row.code) << found.error().text() << "\n" << shown;
    EXPECT_TRUE(found.error().text().starts_with("t.json")) << found.error().text();
    EXPECT_NE(found.error().text().find(row.names), std::string::npos) << found.error().text() << "\n" << shown;
  }
}

TEST(Tokenizer, ReadsNoFileAboveItsLimit) {
  const auto found = Tokenizer::from_json(std::string((std::size_t{128} << 20) + 1, ' '), "t.json");
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code(), Errc::too_large);
  const auto tokenizer = Tokenizer::from_json(file());
  const auto text = tokenizer->encode(std::string((std::size_t{64} << 20) + 1, 'a'));
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().code(), Errc::too_large);
}

TEST(Tokenizer, KeepsControlCharactersOutOfMessages) {
  for (const std::string& text :
       {file(R"("normalizer":{"type":"\u001b[31m\u202e"})"), file(R"("\u001b[31m":1)"),
        model(R"("type":"BPE","vocab":{"\u001b[31m":0,"b":0},"merges":[])"),
        model(R"("type":"BPE","vocab":{"a":0},"merges":["a \u001b[31m"])"),
        model(R"("type":"BPE","vocab":{"a":0},"merges":["\u001b[31m"])"),
        model(R"("type":"BPE","vocab":{"a":0},"merges":[],"unk_token":"\u001b[31m"})"),
        file(R"("added_tokens":[{"id":0,"content":"\u001b[31m"}])"),
        file(R"("pre_tokenizer":{"type":"Split","pattern":{"Regex":"\u001b[31m("},"behavior":"Isolated"})"),
        file(R"("post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"\u001b[31m"}}]})")}) {
    const auto found = Tokenizer::from_json(text);
    ASSERT_FALSE(found) << text;
    for (const char c : found.error().text())
      EXPECT_TRUE(static_cast<unsigned char>(c) >= 0x20) << "character " << int(c) << " for " << text;
    EXPECT_EQ(found.error().text().find("\u202e"), std::string::npos);
  }
}

TEST(Tokenizer, SaysWhatItsTokensAre) {
  const auto tokenizer = Tokenizer::from_json(file(R"("added_tokens":[{"id":7,"content":"<s>","special":true}])"));
  ASSERT_TRUE(tokenizer) << tokenizer.error().text();
  EXPECT_EQ(tokenizer->size(), 8u);
  EXPECT_EQ(tokenizer->find("ab"), 2u);
  EXPECT_EQ(tokenizer->find("<s>"), 7u);
  EXPECT_EQ(tokenizer->find("c"), std::nullopt);
  EXPECT_EQ(*tokenizer->token(7), "<s>");
  EXPECT_EQ(tokenizer->token(5), nullptr) << "a hole";
  EXPECT_EQ(tokenizer->token(99), nullptr);
  EXPECT_TRUE(tokenizer->is_special(7));
  EXPECT_FALSE(tokenizer->is_special(2));
  const std::vector<TokenId> ids{2, 5, 7, 99, 0};
  EXPECT_EQ(tokenizer->decode(ids), "ab <s> a") << "ids that stand for nothing are passed over";
  EXPECT_EQ(tokenizer->decode(ids, true), "ab a");
}

TEST(Tokenizer, LeavesSpecialTokensInStrangersTextAlone) {
  const auto tokenizer = Tokenizer::from_json(file(
      R"("added_tokens":[{"id":7,"content":"ba","special":true,"normalized":false},{"id":8,"content":"aa","normalized":false}])"));
  ASSERT_TRUE(tokenizer) << tokenizer.error().text();
  EXPECT_EQ(*tokenizer->encode("abaa"), (std::vector<TokenId>{0, 7, 0}));
  EXPECT_EQ(*tokenizer->encode("abaa", {.parse_special = false}), (std::vector<TokenId>{2, 8}));
}

TEST(Tokenizer, ReadsBytesThatAreNoUtf8AsReplacementCharacters) {
  const auto tokenizer = Tokenizer::from_json(model(R"("type":"BPE","vocab":{"a":0,"\ufffd":1},"merges":[])"));
  ASSERT_TRUE(tokenizer) << tokenizer.error().text();
  EXPECT_EQ(*tokenizer->encode("a\xFF\xF0\x9F"
                               "a"),
            (std::vector<TokenId>{0, 1, 1, 0}));
  EXPECT_TRUE(tokenizer->encode("")->empty());
}

/// Rows of a list of steps that replace "a" with `size` of them.
std::string growing_steps(std::size_t size, std::size_t count) {
  std::string rows;
  for (std::size_t i = 0; i < count; ++i)
    rows += (i == 0 ? "" : ",") + std::string(R"({"type":"Replace","pattern":{"String":"a"},"content":")") +
            std::string(size, 'a') + "\"}";
  return rows;
}

TEST(Tokenizer, RefusesTextsThatItsNormalizerMakesTooLong) {
  const auto tokenizer =
      Tokenizer::from_json(file(R"("normalizer":{"type":"Sequence","normalizers":[)" + growing_steps(512, 12) + "]}"));
  ASSERT_TRUE(tokenizer) << tokenizer.error().text();
  EXPECT_TRUE(tokenizer->encode("b"));
  const auto ids = tokenizer->encode("a");
  ASSERT_FALSE(ids);
  EXPECT_EQ(ids.error().code(), Errc::too_large);
  EXPECT_NE(ids.error().text().find("normalizer.normalizers[2]: makes more than 64 MiB"), std::string::npos)
      << ids.error().text();
}

// Letters for bytes are not ASCII: each such step doubles them.
TEST(Tokenizer, RefusesTextsThatItsPreTokenizerMakesTooLong) {
  std::string rows;
  for (std::size_t i = 0; i < 40; ++i)
    rows += (i == 0 ? "" : ",") + std::string(R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":false})");
  const auto tokenizer =
      Tokenizer::from_json(file(R"("pre_tokenizer":{"type":"Sequence","pretokenizers":[)" + rows + "]}"));
  ASSERT_TRUE(tokenizer) << tokenizer.error().text();
  const auto ids = tokenizer->encode("\u00e9");
  ASSERT_FALSE(ids);
  EXPECT_EQ(ids.error().code(), Errc::too_large);
  EXPECT_NE(ids.error().text().find("pre_tokenizer.pretokenizers[19]: makes more than 1 MiB"), std::string::npos)
      << ids.error().text();
}

TEST(Tokenizer, RefusesDecodersThatMakeTextsTooLong) {
  const auto refused =
      Tokenizer::from_json(file(R"("decoder":{"type":"Sequence","decoders":[)" + growing_steps(10, 12) + "]}"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Errc::too_large);
  EXPECT_NE(refused.error().text().find("decoder.decoders[2]: makes 1000 bytes of one"), std::string::npos)
      << refused.error().text();
  EXPECT_FALSE(Tokenizer::from_json(file(R"("decoder":)" + growing_steps(257, 1))));
  const auto usual =
      Tokenizer::from_json(file(R"("decoder":{"type":"Sequence","decoders":[)" + growing_steps(16, 2) + "]}"));
  ASSERT_TRUE(usual) << usual.error().text();
  EXPECT_EQ(usual->decode(std::vector<TokenId>{0, 1}), std::string(256, 'a') + "b");
}

TEST(Tokenizer, SaysWhichExpressionTakesTooLong) {
  const auto tokenizer = Tokenizer::from_json(
      file(R"("pre_tokenizer":{"type":"Split","pattern":{"Regex":"(a+)+$"},"behavior":"Isolated"})"));
  ASSERT_TRUE(tokenizer) << tokenizer.error().text();
  const auto ids = tokenizer->encode(std::string(200, 'a') + "b");
  ASSERT_FALSE(ids);
  EXPECT_EQ(ids.error().code(), Errc::too_large);
}

}  // namespace
}  // namespace weft::text::tokenizer_test
