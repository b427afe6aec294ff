// SPDX-License-Identifier: Apache-2.0

#include "storage/file_system.hpp"
#include "text/tokenizer.hpp"

#include "core/json.hpp"

#include <gtest/gtest.h>

#include "tests/support/shared_data.hpp"
#include "tests/text/golden_files.hpp"
#include <cstdlib>
#include <string>
#include <vector>

namespace weft::text::tokenizer_golden_test {
namespace {

/// The path of a tokenizer's file; WEFT_TOKENIZERS names a folder with NAME.json for those that must not be copied.
std::string find_file(const std::string& name, const char* shared) {
  if (shared) return shared_data(shared);
  const char* const folder = std::getenv("WEFT_TOKENIZERS");
  return folder ? std::string(folder) + "/" + name + ".json" : "";
}

struct Row {
  const char* name;
  const char* shared;  // null: not among the shared data
};
const Row kRows[] = {{"gpt2", "tokenizers/gpt2/tokenizer.json"},
                     {"neox-20b", "tokenizers/neox-20b/20B_tokenizer.json"},
                     {"tinystories-656k", "language/tinystories-656k/tokenizer.json"},
                     {"stories260K", "stories260K/derived/tokenizer.json"},
                     {"mistral-v0.1", "language/tokenizers-more/mistral.tokenizer.json.zst"},
                     {"qwen3", "language/tokenizers-more/qwen3.tokenizer.json.zst"},
                     {"llama3", nullptr},
                     {"gemma3", nullptr},
                     {"gpt-oss", nullptr}};

class Goldens : public ::testing::TestWithParam<Row> {};

TEST_P(Goldens, AreThoseOfTheRustTokenizers) {
  const Row row = GetParam();
  const std::string goldens = shared_data("language/tokenizer_goldens.json"), file = find_file(row.name, row.shared);
  if (goldens.empty() || file.empty()) GTEST_SKIP() << "no ../shared/data, or no WEFT_TOKENIZERS";
  const Json all = *parse_json(read_golden(goldens), goldens);
  const auto tokenizer = Tokenizer::from_json(read_golden(file), row.name);
  ASSERT_TRUE(tokenizer) << tokenizer.error().text();
  const Json& expected = all["tokenizers"][row.name];
  int differences = 0;
  for (std::size_t i = 0; i < all["texts"].size(); ++i) {
    const std::string& text = all["texts"][i].text();
    const auto ids = tokenizer->encode(text);
    ASSERT_TRUE(ids) << ids.error().text();
    const auto wanted = expected["ids"][i].get<std::vector<TokenId>>();
    EXPECT_EQ(*ids, wanted) << "text " << i << ": " << text;
    EXPECT_EQ(tokenizer->decode(wanted), expected["decoded"][i].text()) << "text " << i;
    if ((differences += *ids != wanted || tokenizer->decode(wanted) != expected["decoded"][i].text()) > 8) break;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Goldens, ::testing::ValuesIn(kRows), [](const auto& test) {
  std::string name = test.param.name;
  for (char& c : name)
    if (c == '-' || c == '.') c = '_';
  return name;
});

}  // namespace
}  // namespace weft::text::tokenizer_golden_test
