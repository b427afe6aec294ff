// SPDX-License-Identifier: Apache-2.0

#include "text/tokenizer_conversion.hpp"

#include "formats/gguf/gguf.hpp"
#include "storage/file_system.hpp"
#include "text/tokenizer.hpp"

#include "core/json.hpp"

#include <gtest/gtest.h>

#include "tests/text/gguf_vocabularies.hpp"
#include <string>
#include <vector>

namespace weft::text::tokenizer_conversion_test {
namespace {

using formats::GgufMetadata;

/// Compares with the ids of the Rust library, and leaves out texts that spell special tokens where told so: they are
/// found before the normalizer here and after it there.
void compare(const Tokenizer& tokenizer, const std::string& name, bool without_special) {
  const std::string goldens = shared_data("language/tokenizer_goldens.json");
  const Json all = *parse_json(read_golden(goldens), goldens);
  int compared = 0;
  for (std::size_t i = 0; i < all["texts"].size(); ++i) {
    const std::string& text = all["texts"][i].text();
    if (without_special && (text.find("<") != text.npos)) continue;
    const auto ids = tokenizer.encode(text);
    ASSERT_TRUE(ids) << ids.error().text();
    EXPECT_EQ(*ids, all["tokenizers"][name]["ids"][i].get<std::vector<TokenId>>()) << name << ": " << text;
    ++compared;
  }
  EXPECT_GT(compared, 200);
}

struct Row {
  const char *name, *file, *model, *pre;
  std::size_t vocabulary;
};
const Row kRows[] = {
    {"gpt2", "tokenizers/gpt2/tokenizer.json", "gpt2", "gpt-2", 50260},
    {"qwen3", "language/tokenizers-more/qwen3.tokenizer.json.zst", "gpt2", "qwen2", 151936},
    {"tinystories-656k", "language/tinystories-656k/tokenizer.json", "llama", "default", 2048},
    {"mistral-v0.1", "language/tokenizers-more/mistral.tokenizer.json.zst", "llama", "default", 32000},
};

class Conversion : public ::testing::TestWithParam<Row> {};

TEST_P(Conversion, GivesTheIdsOfTheRustLibraryThereAndBack) {
  const Row row = GetParam();
  const std::string path = shared_data(row.file);
  if (path.empty()) GTEST_SKIP() << "no ../shared/data";
  GgufMetadata keys;
  const Status added = add_gguf_tokenizer(read_golden(path), {}, row.vocabulary, keys);
  ASSERT_TRUE(added) << added.error().text();
  EXPECT_EQ(*keys.text("tokenizer.ggml.model"), row.model);
  EXPECT_EQ(*keys.text("tokenizer.ggml.pre"), row.pre);
  const auto* const tokens = *keys.array<std::string>("tokenizer.ggml.tokens");
  EXPECT_EQ(tokens->size(), row.vocabulary);
  const auto there = Tokenizer::from_gguf(keys);
  ASSERT_TRUE(there) << there.error().text();
  compare(*there, row.name, std::string_view(row.model) == "llama");
  SpecialTokens special;
  const auto json = tokenizer_json_of(keys, special);
  ASSERT_TRUE(json) << json.error().text();
  const auto back = Tokenizer::from_json(*json);
  ASSERT_TRUE(back) << back.error().text();
  compare(*back, row.name, std::string_view(row.model) == "llama");
}

INSTANTIATE_TEST_SUITE_P(All, Conversion, ::testing::ValuesIn(kRows), [](const auto& test) {
  std::string name = test.param.name;
  for (char& c : name)
    if (c == '-' || c == '.') c = '_';
  return name;
});

TEST(ConversionOfGguf, GivesTheIdsOfHuggingFace) {
  for (const std::string name : {"gpt-2", "phi-3", "bert-bge"}) {
    SCOPED_TRACE(name);
    const std::string path = shared_data("language/ggml-vocab/ggml-vocab-" + name + ".gguf");
    if (path.empty()) GTEST_SKIP() << "no ../shared/data";
    SpecialTokens special;
    const auto json = tokenizer_json_of(metadata_of(path), special);
    ASSERT_TRUE(json) << json.error().text();
    const auto tokenizer = Tokenizer::from_json(*json);
    ASSERT_TRUE(tokenizer) << tokenizer.error().text();
    compare_vocabulary(name, *tokenizer);
    // And to keys again.
    GgufMetadata keys;
    const Status added = add_gguf_tokenizer(*json, special, tokenizer->size(), keys);
    ASSERT_TRUE(added) << added.error().text();
    const auto again = Tokenizer::from_gguf(keys);
    ASSERT_TRUE(again) << again.error().text();
    compare_vocabulary(name, *again);
  }
}

TEST(ConversionOfJson, RefusesWhatTheKeysCannotSay) {
  const auto refusal = [](const std::string& json, std::size_t vocabulary = 4) {
    GgufMetadata keys;
    const Status added = add_gguf_tokenizer(json, {}, vocabulary, keys);
    EXPECT_EQ(keys.size(), 0u) << "nothing is half written";
    return added ? "" : added.error().text();
  };
  const std::string words = R"({"model": {"type": "WordLevel", "unk_token": "a", "vocab": {"a": 0}}})";
  EXPECT_NE(refusal(words).find("BPE, Unigram, WordPiece"), std::string::npos) << refusal(words);
  const std::string unigram = R"({"normalizer": {"type": "Lowercase"},
      "model": {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0], ["a", -1], ["b", -2]]}})";
  EXPECT_NE(refusal(unigram).find("Lowercase"), std::string::npos) << refusal(unigram);
  const std::string bpe = R"("model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}})";
  EXPECT_NE(refusal("{" + bpe).find("U+2581"), std::string::npos) << refusal("{" + bpe);
  const std::string lower = R"({"normalizer": {"type": "Lowercase"}, )" + bpe;
  EXPECT_NE(refusal(lower).find("Lowercase"), std::string::npos) << refusal(lower);
  const std::string split = R"({"pre_tokenizer": {"type": "Sequence", "pretokenizers": [)"
                            R"({"type": "Digits", "individual_digits": false}, {"type": "ByteLevel"}]}, )" +
                            bpe;
  EXPECT_NE(refusal(split).find("tokenizer.ggml.pre"), std::string::npos) << refusal(split);
  const std::string spaces =
      R"({"normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}, )" + bpe;
  EXPECT_NE(refusal(spaces, 2).find("has 3 tokens"), std::string::npos) << refusal(spaces, 2);
}

}  // namespace
}  // namespace weft::text::tokenizer_conversion_test
