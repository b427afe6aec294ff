// SPDX-License-Identifier: Apache-2.0

#include "formats/gguf/gguf_metadata.hpp"
#include "text/tokenizer.hpp"
#include "text/unicode.hpp"

#include "core/assert.hpp"
#include "core/json.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace weft;
using namespace weft::text;

/// All bytes as letters, with a few merges and a split of the kind that language models have.
Tokenizer byte_level(const std::string& split) {
  Json vocabulary = Json::object();
  TokenId next = 0;
  for (char32_t c = 0; c < 0x144; ++c) {
    const bool is_letter = (c >= 0x21 && c <= 0x7E) || (c >= 0xA1 && c <= 0xAC) || c >= 0xAE;
    if (!is_letter) continue;
    std::string letter;
    append_utf8(letter, c);
    vocabulary[letter] = next++;
  }
  for (const char* const token : {"th", "the", "\u0120the", "aa", "aaaa", "\u0120\u0120"}) vocabulary[token] = next++;
  const Json merges = Json::array({"t h", "th e", "\u0120 the", "a a", "aa aa", "\u0120 \u0120"});
  Json steps = Json::array();
  if (!split.empty())
    steps.push_back(Json{{"type", "Split"}, {"pattern", Json{{"Regex", split}}}, {"behavior", "Isolated"}});
  steps.push_back(Json{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", split.empty()}});
  const Json file{{"model", Json{{"type", "BPE"}, {"vocab", vocabulary}, {"merges", merges}}},
                  {"pre_tokenizer", Json{{"type", "Sequence"}, {"pretokenizers", steps}}},
                  {"decoder", Json{{"type", "ByteLevel"}, {"use_regex", true}}}};
  return *Tokenizer::from_json(file.dump());
}

/// SentencePiece's kind, with a token for each byte.
Tokenizer scored() {
  std::vector<std::string> tokens{"<unk>", "<s>", "</s>", "\u2581", "a", "aa", "\u2581the", "th", "he", "t", "h", "e"};
  std::vector<std::int32_t> kinds(tokens.size(), 1);
  kinds[0] = 2, kinds[1] = kinds[2] = 3;
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  for (std::size_t i = 0; i < 256; ++i) {
    tokens.push_back(std::string("<0x") + kDigits[i / 16] + kDigits[i % 16] + ">");
    kinds.push_back(6);
  }
  std::vector<float> scores;
  for (std::size_t i = 0; i < tokens.size(); ++i) scores.push_back(-static_cast<float>(i));
  formats::GgufMetadata metadata;
  metadata.set("tokenizer.ggml.model", std::string("llama"));
  metadata.set("tokenizer.ggml.tokens", formats::GgufArray(std::move(tokens)));
  metadata.set("tokenizer.ggml.scores", formats::GgufArray(std::move(scores)));
  metadata.set("tokenizer.ggml.token_type", formats::GgufArray(std::move(kinds)));
  return *Tokenizer::from_gguf(metadata);
}

std::string valid(std::string_view text) { return replace_invalid(text); }

}  // namespace

// Any text comes back from its tokens.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Tokenizer gpt2 = byte_level("");
  static const Tokenizer llama3 = byte_level(
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)");
  static const Tokenizer sentence_piece = scored();
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const Tokenizer* const tokenizer : {&gpt2, &llama3}) {
    const auto ids = tokenizer->encode(text);
    WEFT_ASSERT(ids.has_value(), "a plain split takes too long: " + ids.error().text());
    WEFT_ASSERT(tokenizer->decode(*ids) == valid(text), "letters for bytes do not come back as the text");
  }
  const auto ids = sentence_piece.encode(text, {.parse_special = false});
  WEFT_ASSERT(ids.has_value(), "no expression, and yet it fails");
  std::string expected = valid(text);
  // U+2581 stands for a space.
  for (std::size_t at = expected.find("\u2581"); at != expected.npos; at = expected.find("\u2581", at))
    expected.replace(at, 3, " ");
  WEFT_ASSERT(sentence_piece.decode(*ids, true) == expected, "SentencePiece's tokens do not come back as the text");
  return 0;
}
