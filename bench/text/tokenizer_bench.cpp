// SPDX-License-Identifier: Apache-2.0
// Tokens of 1 MiB of one letter, the worst text for what joins neighbours or searches for the best way through, and of
// 1 MiB of English, for each kind of tokenizer. Vocabularies: 1, 2, 4, ... 64 of the letter (Unigram: 1 to 16); in the
// `real` rows those of ../shared/data.

#include "formats/gguf/gguf_metadata.hpp"
#include "storage/file_system.hpp"
#include "text/tokenizer.hpp"
#include "text/tokenizer_file.hpp"

#include "core/assert.hpp"
#include "core/bytes.hpp"

#include <benchmark/benchmark.h>

#include "tests/support/shared_data.hpp"
#include <string>
#include <vector>

namespace weft::text {
namespace {

constexpr std::size_t kSize = std::size_t{1} << 20;

/// "a", "aa", "aaaa" and so on.
std::vector<std::string> powers() {
  std::vector<std::string> tokens{"a"};
  while (tokens.back().size() < 64) tokens.push_back(tokens.back() + tokens.back());
  return tokens;
}
std::string model_json(const std::string& steps, const std::string& model) {
  return R"({"version": "1.0", "truncation": null, "padding": null, "added_tokens": [], )" + steps +
         R"(, "post_processor": null, "decoder": null, "model": {)" + model + "}}";
}
std::string vocabulary_json(const std::string& more) {
  std::string text = more;
  std::size_t id = 1;
  for (const std::string& token : powers()) text += ", \"" + token + "\": " + std::to_string(id++);
  return text;
}
std::string bpe_json(const std::string& steps) {
  std::string merges;
  for (const std::string& token : powers())
    if (token.size() < 64) merges += (merges.empty() ? "[\"" : ", [\"") + token + "\", \"" + token + "\"]";
  return model_json(steps, R"("type": "BPE", "dropout": null, "unk_token": "?", "continuing_subword_prefix": null,
      "end_of_word_suffix": null, "fuse_unk": true, "byte_fallback": false, "vocab": {)" +
                               vocabulary_json("\"?\": 0") + R"(}, "merges": [)" + merges + "]");
}
Tokenizer from_json(const std::string& json) {
  auto made = Tokenizer::from_json(json);
  WEFT_ASSERT(made.has_value(), made.error().text());
  return *std::move(made);
}
Tokenizer byte_level_bpe() {
  return from_json(bpe_json(R"("normalizer": null, "pre_tokenizer":
      {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true})"));
}
Tokenizer sentence_piece_bpe() {
  return from_json(bpe_json(R"("normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"},
      "pre_tokenizer": null)"));
}
Tokenizer scored_bpe() {
  formats::GgufMetadata keys;
  std::vector<std::string> tokens{"<unk>"};
  for (const std::string& token : powers()) tokens.push_back(token);
  std::vector<float> scores;
  for (std::size_t i = 0; i < tokens.size(); ++i) scores.push_back(-static_cast<float>(i));
  keys.set("tokenizer.ggml.model", std::string("llama"));
  keys.set("tokenizer.ggml.tokens", formats::GgufArray(tokens));
  keys.set("tokenizer.ggml.scores", formats::GgufArray(scores));
  keys.set("tokenizer.ggml.token_type", formats::GgufArray(std::vector<std::int32_t>(tokens.size(), 1)));
  keys.set("tokenizer.ggml.unknown_token_id", std::uint32_t{0});
  keys.set("tokenizer.ggml.add_bos_token", false);
  auto made = Tokenizer::from_gguf(keys);
  WEFT_ASSERT(made.has_value(), made.error().text());
  return *std::move(made);
}
/// Pieces of each length up to the longest that SentencePiece makes unless it is told otherwise.
Tokenizer unigram() {
  std::string vocabulary = R"(["<unk>", 0.0])";
  for (std::size_t size = 1; size <= 16; ++size)
    vocabulary += ", [\"" + std::string(size, 'a') + "\", " + std::to_string(-1.0 - static_cast<double>(size)) + "]";
  return from_json(
      model_json(R"("normalizer": null, "pre_tokenizer":
      {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": true})",
                 R"("type": "Unigram", "unk_id": 0, "byte_fallback": false, "vocab": [)" + vocabulary + "]"));
}
/// `longest`: characters of a word; 100 as the original has it.
Tokenizer word_piece(std::size_t longest) {
  std::string vocabulary = "\"[UNK]\": 0";
  std::size_t id = 1;
  for (const char* const before : {"", "##"})
    for (const std::string& token : powers()) vocabulary += ", \"" + (before + token) + "\": " + std::to_string(id++);
  return from_json(model_json(R"("normalizer": {"type": "BertNormalizer", "clean_text": true,
      "handle_chinese_chars": true, "strip_accents": null, "lowercase": true}, "pre_tokenizer":
      {"type": "BertPreTokenizer"})",
                              R"("type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
      "max_input_chars_per_word": )" +
                                  std::to_string(longest) + R"(, "vocab": {)" + vocabulary + "}"));
}

void encode(benchmark::State& state, const Tokenizer& tokenizer, const std::string& text) {
  std::size_t tokens = 0;
  for (auto _ : state) {
    const auto ids = tokenizer.encode(text, {.add_special = false});
    WEFT_ASSERT(ids.has_value(), ids.error().text());
    tokens = ids->size();
  }
  state.counters["tokens"] = static_cast<double>(tokens);
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(text.size()));
}
void one_letter(benchmark::State& state, const Tokenizer& tokenizer) {
  encode(state, tokenizer, std::string(kSize, 'a'));
}
BENCHMARK_CAPTURE(one_letter, byte_level_bpe, byte_level_bpe())->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(one_letter, sentence_piece_bpe, sentence_piece_bpe())->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(one_letter, scored_bpe, scored_bpe())->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(one_letter, unigram, unigram())->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(one_letter, word_piece, word_piece(100))->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(one_letter, word_piece_of_any_length, word_piece(kSize))->Unit(benchmark::kMillisecond);

/// A tokenizer of ../shared/data.
void real(benchmark::State& state, const std::string& file, bool is_english) {
  const std::string path = shared_data(file), english = shared_data("tinyshakespeare/input.txt");
  if (path.empty() || english.empty()) return state.SkipWithError("no ../shared/data");
  const auto tokenizer = load_tokenizer(storage::real_file_system(), path);
  WEFT_ASSERT(tokenizer.has_value(), tokenizer.error().text());
  const auto text = storage::real_file_system().read(english, std::size_t{1} << 24);
  encode(state, *tokenizer, is_english ? std::string(as_text(*text).substr(0, kSize)) : std::string(kSize, 'a'));
}
BENCHMARK_CAPTURE(real, gpt2_one_letter, "tokenizers/gpt2", false)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(real, gpt2_english, "tokenizers/gpt2", true)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(real, phi3_one_letter, "language/ggml-vocab/ggml-vocab-phi-3.gguf", false)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(real, phi3_english, "language/ggml-vocab/ggml-vocab-phi-3.gguf", true)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(real, tinystories_english, "language/tinystories-656k", true)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(real, bert_one_letter, "language/ggml-vocab/ggml-vocab-bert-bge.gguf", false)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(real, bert_english, "language/ggml-vocab/ggml-vocab-bert-bge.gguf", true)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace weft::text
