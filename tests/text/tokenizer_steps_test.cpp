// SPDX-License-Identifier: Apache-2.0

#include "text/tokenizer.hpp"

#include "core/json.hpp"

#include <gtest/gtest.h>

#include "tests/support/source_path.hpp"
#include "tests/text/golden_files.hpp"
#include <string>
#include <vector>

namespace weft::text::tokenizer_steps_test {
namespace {

// tests/data/text/steps.json: what the Rust tokenizers 0.23 made of each step (tools/make_tokenizer_goldens.js).
const Json& goldens() {
  static const Json all = [] {
    const std::string path = source_path("tests/data/text/steps.json");
    return *parse_json(read_golden(path), path);
  }();
  return all;
}

/// A tokenizer without its vocabulary.
std::string shown(Json tokenizer) {
  tokenizer["model"].erase("vocab");
  return tokenizer.dump();
}

TEST(TokenizerSteps, EncodeAsTheRustTokenizersDo) {
  const Json& texts = goldens()["texts"];
  ASSERT_GT(goldens()["encodings"].size(), 60u);
  for (const Json& row : goldens()["encodings"]) {
    const std::string file = row["tokenizer"].dump();
    const auto tokenizer = Tokenizer::from_json(file);
    ASSERT_TRUE(tokenizer) << tokenizer.error().text() << "\n" << file;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const auto ids = tokenizer->encode(texts[i].text());
      ASSERT_TRUE(ids) << ids.error().text();
      EXPECT_EQ(*ids, row["ids"][i].get<std::vector<TokenId>>()) << "text " << i << ": " << texts[i].dump() << "\n"
                                                                 << shown(row["tokenizer"]);
    }
  }
}

TEST(TokenizerSteps, DecodeAsTheRustTokenizersDo) {
  const Json& rows = goldens()["rows"];
  ASSERT_GT(goldens()["decodings"].size(), 12u);
  for (const Json& row : goldens()["decodings"]) {
    const auto tokenizer = Tokenizer::from_json(row["tokenizer"].dump());
    ASSERT_TRUE(tokenizer) << tokenizer.error().text();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto ids = rows[i].get<std::vector<TokenId>>();
      EXPECT_EQ(tokenizer->decode(ids), row["text"][i].text()) << i << " " << row["tokenizer"]["decoder"].dump();
      EXPECT_EQ(tokenizer->decode(ids, true), row["skipped"][i].text())
          << i << " " << row["tokenizer"]["decoder"].dump();
    }
  }
}

}  // namespace
}  // namespace weft::text::tokenizer_steps_test
