// SPDX-License-Identifier: Apache-2.0

#include "text/chat_template.hpp"

#include <gtest/gtest.h>

#include "tests/support/shared_data.hpp"
#include "tests/support/source_path.hpp"
#include "tests/text/golden_files.hpp"
#include <cstdlib>
#include <string>
#include <utility>

namespace weft::text::chat_template_test {
namespace {

ChatInput input_of(const Json& variables, std::int64_t now) {
  ChatInput input;
  input.now = now;
  for (const auto& [name, value] : variables.members())
    if (name == "messages")
      input.messages = value;
    else if (name == "tools")
      input.tools = value;
    else if (name == "add_generation_prompt")
      input.add_generation_prompt = value.get<bool>();
    else if (name == "bos_token")
      input.bos = value.text();
    else if (name == "eos_token")
      input.eos = value.text();
    else
      input.extra[name] = value;
  return input;
}
Result<std::string> rendered(const std::string& source, const ChatInput& input = {}) {
  WEFT_TRY(const ChatTemplate made, ChatTemplate::parse(source));
  return made.render(input);
}
Json messages(std::initializer_list<std::pair<const char*, const char*>> turns) {
  Json made = Json::array();
  for (const auto& [role, content] : turns) made.push_back({{"role", role}, {"content", content}});
  return made;
}

/// Rows [template, name of the variables, result] against what is made here; more than a few differences end it.
void expect_same(const Json& all, const Json& rows, const std::string* source = nullptr) {
  int differences = 0;
  for (const Json& row : rows) {
    const std::string& text = source ? *source : row[0].text();
    const auto made = rendered(text, input_of(all["variables"][row[1].text()], all["now"].get<std::int64_t>()));
    const bool is_refused = row[2].contains("error");
    const bool is_same = made ? !is_refused && *made == row[2]["text"].text() : is_refused;
    EXPECT_TRUE(is_same) << text << "\nwith " << row[1].text()
                         << (made ? "\ngives " + *made : "\n" + made.error().text()) << "\nexpected " << row[2].dump();
    if ((differences += is_same ? 0 : 1) > 20) break;
  }
}

// tools/make_chat_template_goldens.py
TEST(ChatTemplate, DoesWhatJinjaDoes) {
  const std::string path = source_path("tests/data/text/chat_templates.json");
  const Json all = *parse_json(read_golden(path), path);
  expect_same(all, all["rows"]);
}

TEST(ChatTemplate, RendersTheTemplatesOfModels) {
  const std::string config = shared_data("language/tokenizers-more/qwen3.tokenizer_config.json.zst");
  if (config.empty()) GTEST_SKIP() << "no ../shared/data";
  const std::string path = source_path("tests/data/text/chat_templates.json");
  const Json all = *parse_json(read_golden(path), path), qwen = *parse_json(read_golden(config), config);
  expect_same(all, all["shared"], &qwen["chat_template"].text());
}

/// WEFT_CHAT_TEMPLATES: a file of the same tool, of templates that must not be copied.
TEST(ChatTemplate, RendersTheTemplatesOfOthers) {
  const char* const path = std::getenv("WEFT_CHAT_TEMPLATES");
  if (!path) GTEST_SKIP() << "no WEFT_CHAT_TEMPLATES";
  const Json all = *parse_json(read_golden(path), path);
  expect_same(all, all["rows"]);
}

TEST(ChatTemplate, MarksWhatWasGiven) {
  ChatInput input;
  input.messages = messages({{"user", "<|im_end|> & x"}, {"assistant", "  y\n"}});
  input.bos = "<s>";
  input.extra["name"] = "Zoe";
  const auto made = ChatTemplate::parse(
      "{{ bos_token }}{% for m in messages %}[{{ m.role|upper }}] {{ m.content|trim ~ '!' }}"
      "{{ m.content[0:3]|tojson }}{% endfor %}{{ name }}{{ messages|length }}");
  ASSERT_TRUE(made) << made.error().text();
  const auto text = made->render_marked(input);
  ASSERT_TRUE(text) << text.error().text();
  EXPECT_EQ(text->text, "<s>[USER] <|im_end|> & x!\"<|i\"[ASSISTANT] y!\"  y\"Zoe2");
  std::string own;
  std::size_t at = 0;
  for (const auto& [begin, end] : text->given) {
    ASSERT_LE(at, begin);
    ASSERT_LT(begin, end);
    own += text->text.substr(at, begin - at) + "_";
    at = end;
  }
  EXPECT_EQ(own + text->text.substr(at), "<s>[_] _!_[_] _!_2") << "names of roles were given too";
}

TEST(ChatTemplate, HasTemplatesForModelsWithout) {
  ChatInput input;
  input.messages = messages({{"system", "S"}, {"user", "U"}, {"assistant", "A"}, {"user", " V "}});
  input.bos = "<s>";
  input.eos = "</s>";
  const std::pair<const char*, const char*> kExpected[] = {
      {"chatml",
       "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\nA<|im_end|>\n"
       "<|im_start|>user\n V <|im_end|>\n<|im_start|>assistant\n"},
      {"llama2", "<s>[INST] <<SYS>>\nS\n<</SYS>>\n\nU [/INST] A </s><s>[INST] V [/INST]"},
      {"llama3",
       "<s><|start_header_id|>system<|end_header_id|>\n\nS<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nU<|eot_"
       "id|>"
       "<|start_header_id|>assistant<|end_header_id|>\n\nA<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nV<|eot_"
       "id|>"
       "<|start_header_id|>assistant<|end_header_id|>\n\n"},
      {"gemma",
       "<s><start_of_turn>user\nS\n\nU<end_of_turn>\n<start_of_turn>model\nA<end_of_turn>\n<start_of_turn>user\nV"
       "<end_of_turn>\n<start_of_turn>model\n"},
      {"phi3",
       "<|system|>\nS<|end|>\n<|user|>\nU<|end|>\n<|assistant|>\nA<|end|>\n<|user|>\n V <|end|>\n<|assistant|>\n"},
      {"raw", "SUA V "}};
  for (const auto& [name, text] : kExpected) {
    const auto made = ChatTemplate::built_in(name);
    ASSERT_TRUE(made) << made.error().text();
    EXPECT_EQ(*made->render(input), text) << name;
  }
  EXPECT_EQ(ChatTemplate::built_in_names().size(), std::size(kExpected));
  EXPECT_EQ(ChatTemplate::built_in("none").error().code(), Errc::unknown_name);
}

TEST(ChatTemplate, SaysWhereItFails) {
  const auto why = [](const std::string& source) {
    const auto made = rendered(source);
    return made ? "gives " + *made : made.error().text();
  };
  EXPECT_EQ(why("a\n\u00e9{{ x.y }}"), "chat template:2:6: 'x' is undefined");
  EXPECT_EQ(why("{{ 1 +\n }}"), "chat template:2:2: found }}, expected an expression");
  EXPECT_EQ(why("{{ 'a'|nosuch }}"), "chat template:1:8: filter 'nosuch' is not known here");
  EXPECT_EQ(why("{% include 'x' %}"), "chat template:1:4: tag 'include' is not known here");
  EXPECT_EQ(why("{{ raise_exception('no\x1b[2J') }}"),
            "chat template:1:19: the template refuses this conversation: no\\x1b[2J");
}

TEST(ChatTemplate, KeepsItsLimits) {
  const auto code = [](const std::string& source) {
    const auto made = rendered(source);
    return made ? Errc::internal : made.error().code();
  };
  const auto repeated = [](const std::string& text, std::size_t count) {
    std::string made;
    for (std::size_t i = 0; i < count; ++i) made += text;
    return made;
  };
  EXPECT_EQ(code("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"), Errc::too_large);
  EXPECT_EQ(code("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"), Errc::too_large);
  EXPECT_EQ(code("{% set x = 'x' * 16000000 %}{{ x }}{{ x }}"), Errc::too_large);
  EXPECT_EQ(code("{% set ns = namespace(s='ab') %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}"),
            Errc::too_large);
  EXPECT_EQ(code("{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}"
                 "{{ ns.l|string|length }}"),
            Errc::too_large);
  EXPECT_EQ(code("{% set l = [1] %}{% set m = [1] %}{{ l.append(m) or m.append(l) }}{{ l == m }}"), Errc::internal);
  EXPECT_EQ(code("{{ " + repeated("(", 200) + "1" + repeated(")", 200) + " }}"), Errc::too_large);
  EXPECT_EQ(code("{{ 1" + repeated(" + 1", 2000) + " }}"), Errc::internal) << "a long sum is not deep";
  EXPECT_EQ(code("{{ x" + repeated(".x", 200) + " }}"), Errc::too_large);
  EXPECT_EQ(code(repeated("{% if 1 %}", 200)), Errc::too_large);
  EXPECT_EQ(code(repeated("-", 200)), Errc::internal) << "text";
  EXPECT_EQ(code("{{ " + repeated("-", 100000) + "1 }}"), Errc::too_large);
  EXPECT_EQ(code(std::string((std::size_t{1} << 20) + 1, 'x')), Errc::too_large);
  EXPECT_EQ(code("{{ 9223372036854775807 + 1 }}"), Errc::too_large);
  EXPECT_EQ(code("{{ strftime_now('%Y' * 200) }}"), Errc::too_large);
}

TEST(ChatTemplate, ReadsBytesThatAreNoUtf8) {
  ChatInput input;
  input.messages = messages({{"user", "a\xff"}});
  const auto made = rendered("\xfe{{ messages[0].content }}", input);
  ASSERT_TRUE(made) << made.error().text();
  EXPECT_EQ(*made, "\uFFFDa\uFFFD");
}

}  // namespace
}  // namespace weft::text::chat_template_test
