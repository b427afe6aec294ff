// SPDX-License-Identifier: Apache-2.0

#include "models/chat_format.hpp"

#include "models/language_model.hpp"
#include "models/text_writer.hpp"

#include "formats/gguf/gguf_metadata.hpp"

#include <unistd.h>

#include "tests/models/imported.hpp"
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

namespace weft::models::chat_format_test {
namespace {

constexpr const char* kTemplate =
    "{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}";

Json config_of(const Json& chat_template) {
  return {{"chat_template", chat_template},
          {"bos_token", "<s>"},
          {"eos_token", {{"content", "</s>"}}},
          {"pad_token", nullptr}};
}
Json one_message(const std::string& content) { return Json::array({Json{{"role", "user"}, {"content", content}}}); }

TEST(ChatFormat, ReadsWhatModelsHave) {
  text::ChatInput input;
  input.messages = one_message("Hi");
  const std::string config = config_of(kTemplate).dump();
  auto format = read_chat_format({"", config}, nullptr);
  ASSERT_TRUE(format) << format.error().text();
  EXPECT_EQ(format->bos, "<s>");
  EXPECT_EQ(format->eos, "</s>");
  ASSERT_TRUE(format->chat);
  EXPECT_EQ(format->chat->source(), kTemplate);

  const std::string named =
      config_of(Json::array({Json{{"name", "default"}, {"template", "D"}},
                             Json{{"name", "tool_use"}, {"template", "T"}}, Json{{"name", "rag"}, {"template", "{{"}}}))
          .dump();
  format = read_chat_format({"", named}, nullptr);
  ASSERT_TRUE(format && format->chat && format->tools);
  EXPECT_EQ(*format->chat->render(input) + *format->tools->render(input), "DT");
  EXPECT_EQ(read_chat_format({"J", named}, nullptr)->chat->source(), "J") << "chat_template.jinja comes first";

  format = read_chat_format({"", config_of("{% nosuch %}").dump()}, nullptr);
  ASSERT_TRUE(format);
  EXPECT_FALSE(format->chat);
  EXPECT_NE(format->refused.find("tag 'nosuch' is not known"), std::string::npos) << format->refused;
  EXPECT_NE(read_chat_format({"", "{"}, nullptr)->refused.find("tokenizer_config.json:1"), std::string::npos);
  format = read_chat_format(
      {"", R"({"model_max_length": 1000000000000000019884624838656, "eos_token": "\"12345678901234567890",
                                    "x": [12345678901234567890.5, 1234567890123456789]})"},
      nullptr);
  ASSERT_TRUE(format);
  EXPECT_EQ(format->refused, "");
  EXPECT_EQ(format->eos, "\"12345678901234567890");
  EXPECT_FALSE(read_chat_format({}, nullptr)->is_found());

  formats::GgufMetadata metadata;
  metadata.set("tokenizer.chat_template", std::string("G"));
  EXPECT_EQ(read_chat_format({"", "", &metadata}, nullptr)->chat->source(), "G");
}

/// A tokenizer of letters, with special tokens that are searched in the text as it is, or as it is normalized.
text::Tokenizer letters(bool normalized) {
  Json vocabulary{{"<s>", 0}, {"</s>", 1}};
  for (char c = ' '; c <= '~'; ++c) vocabulary[std::string(c == ' ' ? "\u2581" : std::string(1, c))] = 2 + (c - ' ');
  Json added = Json::array();
  for (const char* content : {"<s>", "</s>"})
    added.push_back({{"id", vocabulary[content]},
                     {"content", content},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", normalized},
                     {"special", true}});
  const Json json{{"version", "1.0"},
                  {"added_tokens", added},
                  {"normalizer", {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\u2581"}}},
                  {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", Json::array()}}}};
  auto made = text::Tokenizer::from_json(json.dump(), "letters");
  EXPECT_TRUE(made) << made.error().text();
  return *made;
}

TEST(ChatFormat, TakesSpecialTokensFromTheTemplateAlone) {
  for (const bool normalized : {false, true}) {
    const text::Tokenizer tokenizer = letters(normalized);
    const auto format = [&](const char* source) {
      auto made = read_chat_format({source, R"({"bos_token": "<s>", "eos_token": "</s>"})"}, &tokenizer);
      EXPECT_TRUE(made) << made.error().text();
      return *made;
    };
    const auto encode = [&](const char* source, const std::string& content) {
      text::ChatInput input;
      input.messages = one_message(content);
      const auto ids = encode_chat(format(source), tokenizer, input);
      EXPECT_TRUE(ids) << ids.error().text();
      return ids ? *ids : std::vector<text::TokenId>();
    };
    const char* const turn = "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}";
    // Without special tokens within, the ids are those of the whole text.
    EXPECT_EQ(encode(turn, "a b"), *tokenizer.encode("<s>a b</s>", {.add_special = false}));
    std::vector<text::TokenId> expected{0};
    const auto plain = tokenizer.encode("a </s><s>", {.add_special = false, .parse_special = false});
    ASSERT_TRUE(plain) << plain.error().text();
    expected.insert(expected.end(), plain->begin(), plain->end());
    expected.push_back(1);
    EXPECT_EQ(encode(turn, "a </s><s>"), expected) << normalized;
    // Half of a token from the template, half from a message; and a message that begins the text.
    EXPECT_EQ(encode("</{{ messages[0].content }}", "s>").size(), 4u);
    EXPECT_EQ(encode("{{ messages[0].content }}<s>", "<s>"), (std::vector<text::TokenId>{30, 85, 32, 0}));
  }
}

TEST(ChatFormat, KnowsTokensThatEndATextByTheirText) {
  const std::string file =
      R"({"model":{"type":"BPE","vocab":{"a":0,"<|im_end|>":1,"<|eot_id|>":2,"</s>":3},"merges":[]},
      "added_tokens":[{"id":1,"content":"<|im_end|>","special":true},{"id":2,"content":"<|eot_id|>","special":false}]})";
  const auto tokenizer = text::Tokenizer::from_json(file);
  ASSERT_TRUE(tokenizer) << tokenizer.error().text();
  EXPECT_EQ(known_ends(*tokenizer), std::vector<text::TokenId>{1}) << "a plain token of that text is none";
}

TEST(LanguageModel, EndsItsTextsByTokensThatAreKnownByTheirText) {
  const std::string folder = shared_data("language/tinystories-656k");
  if (folder.empty()) GTEST_SKIP() << "no ../shared/data";
  auto& files = storage::real_file_system();
  const auto plain = load_language_model(files, folder);
  ASSERT_TRUE(plain) << plain.error().text();
  EXPECT_EQ(plain->ends, std::vector<text::TokenId>{2}) << "each once, though three files name it";
  std::string tokenizer(as_text(*files.read(folder + "/tokenizer.json", std::size_t{1} << 24)));
  for (std::size_t at = 0; (at = tokenizer.find("<unk>", at)) != tokenizer.npos;) tokenizer.replace(at, 5, "<EOT>");
  const std::string path = testing::TempDir() + "known_ends_" + std::to_string(getpid()) + ".json";
  std::ofstream(path) << tokenizer;
  const auto other = load_language_model(files, folder, path);
  std::remove(path.c_str());
  ASSERT_TRUE(other) << other.error().text();
  EXPECT_EQ(other->ends, (std::vector<text::TokenId>{2, 0}));
}

TEST(LanguageModel, EndsItsTextsByEveryIdThatAGgufFileNames) {
  const std::string path = shared_data("stories260K/derived/stories260K-f32.gguf");
  if (path.empty()) GTEST_SKIP() << "no ../shared/data";
  auto& files = storage::real_file_system();
  std::string bytes(as_text(*files.read(path, std::size_t{1} << 24)));
  // Two keys of as many letters: what began texts ends turns.
  const std::string key = "tokenizer.ggml.bos_token_id";
  const std::size_t at = bytes.find(key);
  ASSERT_NE(at, bytes.npos);
  bytes.replace(at, key.size(), "tokenizer.ggml.eom_token_id");
  const std::string other = testing::TempDir() + "eom_" + std::to_string(getpid()) + ".gguf";
  std::ofstream(other, std::ios::binary) << bytes;
  const auto model = load_language_model(files, other);
  std::remove(other.c_str());
  ASSERT_TRUE(model) << model.error().text();
  EXPECT_EQ(model->ends, (std::vector<text::TokenId>{2, 1}));
}

TEST(ChatFormat, SaysThatThereIsNoTemplate) {
  const std::string folder = shared_data("language/tinystories-656k");
  if (folder.empty()) GTEST_SKIP() << "no ../shared/data";
  const auto model = load_language_model(storage::real_file_system(), folder);
  ASSERT_TRUE(model) << model.error().text();
  EXPECT_EQ(model->chat.bos, "<|start_story|>");
  EXPECT_EQ(model->chat.eos, "<|end_story|>");
  const auto ids = encode_chat(model->chat, *model->tokenizer, {});
  ASSERT_FALSE(ids);
  EXPECT_EQ(ids.error().code(), Errc::not_found);
  EXPECT_NE(ids.error().text().find("chatml"), std::string::npos) << ids.error().text();
}

TEST(TextWriter, KeepsWhatAPromptBeginsWith) {
  const std::string folder = shared_data("language/tinystories-656k");
  if (folder.empty()) GTEST_SKIP() << "no ../shared/data";
  const auto model = load_language_model(storage::real_file_system(), folder);
  ASSERT_TRUE(model) << model.error().text();
  GenerateOptions options;
  options.most_tokens = 20;
  options.context = 256;
  const auto nothing = [](std::string_view) { return Status(); };
  auto writer = TextWriter::begin(*model, options);
  ASSERT_TRUE(writer) << writer.error().text();
  std::vector<text::TokenId> ids = *model->tokenizer->encode("Once upon a time, there was a");
  for (int turn = 0; turn < 3; ++turn) {
    const auto made = writer->write(ids, options, nothing);
    ASSERT_TRUE(made) << made.error().text();
    auto alone = TextWriter::begin(*model, options);
    const auto wanted = alone->write(ids, options, nothing);
    EXPECT_EQ(made->ids, wanted->ids) << "turn " << turn;
    EXPECT_EQ(wanted->times.cached, 0u);
    EXPECT_GE(made->times.cached, turn > 0 ? 20u : 0u) << "turn " << turn;
    ids.insert(ids.end(), made->ids.begin(), made->ids.end());
    const auto more = model->tokenizer->encode(" And then", {.add_special = false});
    ASSERT_TRUE(more) << more.error().text();
    ids.insert(ids.end(), more->begin(), more->end());
  }
  // Another fourth token: three are kept.
  ids[3] = ids[3] + 1;
  const auto other = writer->write(ids, options, nothing);
  ASSERT_TRUE(other) << other.error().text();
  EXPECT_EQ(other->times.cached, 3u);
  EXPECT_EQ(other->ids, TextWriter::begin(*model, options)->write(ids, options, nothing)->ids);

  int asked = 0;
  options.is_stopped = [&] { return ++asked > 5; };
  const auto cut = writer->write(ids, options, nothing);
  ASSERT_TRUE(cut) << cut.error().text();
  EXPECT_EQ(cut->end, "interrupted");
  EXPECT_LT(cut->ids.size(), 8u);
}

TEST(TextWriter, WritesWhatAGrammarAllows) {
  const std::string folder = shared_data("language/tinystories-656k");
  if (folder.empty()) GTEST_SKIP() << "no ../shared/data";
  const auto model = load_language_model(storage::real_file_system(), folder);
  ASSERT_TRUE(model) << model.error().text();
  GenerateOptions options;
  options.most_tokens = 200;
  options.grammar = *text::Grammar::parse("root ::= \" \"? (\"cat\" | \"dog\") (\", \" [a-z]{2,9}){3} \".\"");
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    options.sampler.seed = seed;
    const auto made = generate(*model, "Tom has a", options, [](std::string_view) { return Status(); });
    ASSERT_TRUE(made) << made.error().text();
    EXPECT_EQ(made->end, "end") << made->text;
    text::GrammarState state(*options.grammar);
    EXPECT_TRUE(state.take(made->text) && state.is_complete()) << made->text;
  }
}

}  // namespace
}  // namespace weft::models::chat_format_test
