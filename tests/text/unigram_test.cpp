// SPDX-License-Identifier: Apache-2.0

// Unigram tokenizers with SentencePiece's table, beside libllama and the Rust library (tools/make_unigram_goldens.py).

#include "text/unigram.hpp"

#include "formats/gguf/gguf_metadata.hpp"
#include "text/tokenizer.hpp"
#include "text/tokenizer_conversion.hpp"

#include "core/base64.hpp"
#include "core/json.hpp"

#include <gtest/gtest.h>

#include "tests/support/shared_data.hpp"
#include "tests/text/golden_files.hpp"
#include <cstdint>
#include <string>
#include <vector>

namespace weft::text::unigram_test {
namespace {

using formats::GgufArray;
using formats::GgufMetadata;
using formats::GgufValue;
using Ids = std::vector<TokenId>;

const Json& goldens() {
  static const Json all = *parse_json(read_golden(source_path("tests/data/text/unigram.json")), "unigram.json");
  return all;
}
std::string table_bytes() { return *from_base64(goldens()["table"].text()); }

GgufMetadata keys_of(const Json& given) {
  GgufMetadata keys;
  const auto set = [&](const char* name, GgufValue value) {
    keys.set(std::string("tokenizer.ggml.") + name, std::move(value));
  };
  set("model", std::string("t5"));
  set("tokens", GgufArray(goldens()["tokens"].get<std::vector<std::string>>()));
  set("scores", GgufArray(goldens()["scores"].get<std::vector<float>>()));
  set("token_type", GgufArray(goldens()["kinds"].get<std::vector<std::int32_t>>()));
  if (given["has_table"].get<bool>()) {
    const std::string table = table_bytes();
    set("precompiled_charsmap", GgufArray(std::vector<std::uint8_t>(table.begin(), table.end())));
  }
  if (given["add_space_prefix"].is_null()) return keys;
  set("eos_token_id", std::uint32_t{1});
  set("unknown_token_id", std::uint32_t{2});
  set("padding_token_id", std::uint32_t{0});
  for (const char* const name : {"add_space_prefix", "remove_extra_whitespaces"}) set(name, given[name].get<bool>());
  return keys;
}

/// As tools/make_unigram_goldens.py makes it.
std::string json_of(const Json& given) {
  const bool merges = given["remove_extra_whitespaces"] == Json(true), adds = given["add_space_prefix"] == Json(true);
  Json splits = Json::array(), added = Json::array(), vocab = Json::array();
  if (merges) splits.push_back({{"type", "WhitespaceSplit"}});
  const Json metaspace = {{"type", "Metaspace"},
                          {"replacement", "\u2581"},
                          {"prepend_scheme", adds ? "always" : "never"},
                          {"split", false}};
  splits.push_back(metaspace);
  for (std::size_t i = 0; i < goldens()["tokens"].size(); ++i) {
    const Json &token = goldens()["tokens"][i], &kind = goldens()["kinds"][i];
    vocab.push_back(Json::array({token, goldens()["scores"][i]}));
    if (kind == Json(1)) continue;
    added.push_back({{"id", i}, {"content", token}, {"normalized", false}, {"special", kind != Json(4)}});
  }
  Json all = {{"added_tokens", std::move(added)},
              {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", std::move(splits)}}},
              {"decoder", metaspace},
              {"model", {{"type", "Unigram"}, {"unk_id", 2}, {"byte_fallback", false}, {"vocab", std::move(vocab)}}}};
  if (given["has_table"].get<bool>())
    all["normalizer"] = {{"type", "Precompiled"}, {"precompiled_charsmap", goldens()["table"]}};
  all["post_processor"] = *parse_json(
      R"({"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A", "type_id": 0}},
          {"SpecialToken": {"id": "</s>", "type_id": 0}}], "pair": [{"Sequence": {"id": "A", "type_id": 0}}],
          "special_tokens": {"</s>": {"id": "</s>", "ids": [1], "tokens": ["</s>"]}}})",
      "post_processor");
  return *write_json(all, 0, {});
}

void expect_ids(const Tokenizer& tokenizer, const Json& wanted, const std::string& what) {
  for (std::size_t i = 0; i < goldens()["texts"].size(); ++i) {
    const std::string& text = goldens()["texts"][i].text();
    const auto ids = tokenizer.encode(text);
    ASSERT_TRUE(ids) << ids.error().text();
    EXPECT_EQ(*ids, wanted[i].get<Ids>()) << what << ": '" << text << "'";
  }
}

TEST(Unigram, GivesTheIdsOfLibllamaFromKeysOfGguf) {
  for (const Json& given : goldens()["cases"]) {
    const auto tokenizer = Tokenizer::from_gguf(keys_of(given));
    ASSERT_TRUE(tokenizer) << tokenizer.error().text();
    expect_ids(*tokenizer, given["llama"], given["add_space_prefix"].dump() + given["remove_extra_whitespaces"].dump());
  }
}

TEST(Unigram, GivesTheIdsOfTheRustLibraryFromATokenizerJson) {
  for (const Json& given : goldens()["cases"]) {
    const auto tokenizer = Tokenizer::from_json(json_of(given));
    ASSERT_TRUE(tokenizer) << tokenizer.error().text();
    expect_ids(*tokenizer, given["rust"], given["add_space_prefix"].dump() + given["remove_extra_whitespaces"].dump());
    for (std::size_t i = 0; i < given["rust"].size(); ++i)
      EXPECT_EQ(tokenizer->decode(given["rust"][i].get<Ids>()), given["rust_decoded"][i].text());
  }
}

// One space before each word, as T5 and XLM-R have them, and none at all are what both forms can say.
TEST(Unigram, GoesFromOneFormToTheOtherAndBack) {
  for (const Json& given : goldens()["cases"]) {
    SpecialTokens special;
    const auto json = tokenizer_json_of(keys_of(given), special);
    if (given["remove_extra_whitespaces"] == Json(false) && given["add_space_prefix"] == Json(true)) {
      ASSERT_FALSE(json) << "a space before the first word, which a text of spaces does not get";
      EXPECT_NE(json.error().text().find("no like there"), std::string::npos);
      continue;
    }
    ASSERT_TRUE(json) << json.error().text();
    const auto tokenizer = Tokenizer::from_json(*json);
    ASSERT_TRUE(tokenizer) << tokenizer.error().text();
    expect_ids(*tokenizer, given["llama"], "tokenizer.json");
    GgufMetadata keys;
    const Status added = add_gguf_tokenizer(*json, special, 500, keys);
    ASSERT_TRUE(added) << added.error().text();
    EXPECT_EQ(*keys.text("tokenizer.ggml.model"), "t5");
    const auto again = Tokenizer::from_gguf(keys);
    ASSERT_TRUE(again) << again.error().text();
    expect_ids(*again, given["llama"], "keys again");
    // A carriage return separates words there, and this table says nothing of it.
    GgufMetadata of_words;
    const Status made = add_gguf_tokenizer(json_of(given), {}, 400, of_words);
    EXPECT_EQ(bool(made), given["remove_extra_whitespaces"] != Json(true));
    EXPECT_EQ(of_words.size() == 0, !made);
  }
}

TEST(Unigram, RefusesTablesThatAreNone) {
  const auto with_table = [](const std::string& table) {
    const std::string json = R"({"normalizer": {"type": "Precompiled", "precompiled_charsmap": ")" + base64(table) +
                             R"("}, "model": {"type": "Unigram", "vocab": [["a", -1]]}})";
    return Tokenizer::from_json(json);
  };
  const auto refusal = [&](const std::string& table) {
    const auto made = with_table(table);
    return made ? "" : made.error().text();
  };
  const std::string table = table_bytes();
  EXPECT_EQ(refusal(table), "");
  for (const std::size_t size : {0u, 3u, 4u, 100u}) EXPECT_NE(refusal(table.substr(0, size)), "") << size;
  for (std::size_t i = 0; i + 1 < table.size(); ++i) {
    std::string other = table;
    other[i] = static_cast<char>(other[i] ^ 0x40);
    const auto made = with_table(other);  // refused, or harmless: no place outside of the table is read
    for (const Json& text : goldens()["texts"])
      if (made) EXPECT_TRUE(made->encode(text.text())) << i;
  }
  EXPECT_NE(refusal(table.substr(0, table.size() - 20)).find("names none of its"), std::string::npos);
  const auto bad = Tokenizer::from_json(
      R"({"normalizer": {"type": "Precompiled", "precompiled_charsmap": "Zg="},
          "model": {"type": "Unigram", "vocab": []}})");
  ASSERT_FALSE(bad);
  EXPECT_NE(bad.error().text().find("normalizer.precompiled_charsmap: base64"), std::string::npos)
      << bad.error().text();
  GgufMetadata keys = keys_of(goldens()["cases"][0]);
  keys.set("tokenizer.ggml.precompiled_charsmap", GgufArray(std::vector<float>{1}));
  const auto wrong = Tokenizer::from_gguf(keys);
  ASSERT_FALSE(wrong);
  EXPECT_NE(wrong.error().text().find("precompiled_charsmap"), std::string::npos);
}

}  // namespace
}  // namespace weft::text::unigram_test
