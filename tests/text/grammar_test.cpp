// SPDX-License-Identifier: Apache-2.0

#include "text/grammar.hpp"

#include "text/unicode.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace weft::text::grammar_test {
namespace {

bool accepts(const Grammar& grammar, std::string_view text) {
  GrammarState state(grammar);
  return state.allows(text) && state.take(text) && state.is_complete();
}

TEST(Grammar, TakesWhatItsRulesSay) {
  struct Row {
    const char* grammar;
    std::vector<const char*> texts, others;
  };
  const Row kRows[] = {
      {"root ::= \"a\" | \"bc\"", {"a", "bc"}, {"", "b", "ab", "abc"}},
      {"root ::= [a-c]* [^a-c\\n]", {"x", "abcx", "\u00e9"}, {"", "abc", "x\n", "xx"}},
      {"root ::= \"x\"{2,4} # so many\n", {"xx", "xxx", "xxxx"}, {"x", "xxxxx"}},
      {"root ::= (\"a\" \"b\"?){3}", {"aaa", "abaab"}, {"aa", "aaaa"}},
      {"root ::= a{2,} b+\na ::= \"a\" \"-\"\nb ::= .", {"a-a-!", "a-a-a-\u00e9\n"}, {"a-x", "a-a-"}},
      {"root ::=\n  \"(\" root \")\" |\n  \"\"", {"", "()", "((()))"}, {"(", ")(", "(()"}},
      {"root ::= (\n \"a\"\n | [\\x62-\\u0064]\n)+ \"\\\"\"", {"abcd\"", "a\""}, {"a", "e\""}},
      {"root ::= (\"a\"?)* \"b\"", {"b", "aab"}, {"a"}},
      {"root ::= [\\U0001F600\\]\\-]", {"\U0001F600", "]", "-"}, {"\\"}},
      {"root ::= s s\ns ::= \"a\" s | ", {"", "a", "aaaa"}, {"b"}},
  };
  for (const Row& row : kRows) {
    const auto grammar = Grammar::parse(row.grammar);
    ASSERT_TRUE(grammar) << grammar.error().text();
    for (const char* text : row.texts) EXPECT_TRUE(accepts(*grammar, text)) << row.grammar << ": " << text;
    for (const char* text : row.others) EXPECT_FALSE(accepts(*grammar, text)) << row.grammar << ": " << text;
  }
}

TEST(Grammar, GoesOnByteByByte) {
  const auto grammar = Grammar::parse("root ::= [\u00e0-\u00ef] \"\u20ac\" [^\\x00-\u07ff]");
  ASSERT_TRUE(grammar) << grammar.error().text();
  GrammarState state(*grammar);
  EXPECT_FALSE(state.allows("\xC4")) << "begins U+0100";
  EXPECT_TRUE(state.allows("\xC3"));
  EXPECT_FALSE(state.allows("\xC3\xBF")) << "U+00FF";
  ASSERT_TRUE(state.take("\xC3"));
  EXPECT_FALSE(state.is_complete());
  ASSERT_TRUE(state.take("\xA9\xE2\x82"));
  EXPECT_FALSE(state.allows("\xAD"));
  ASSERT_TRUE(state.take("\xAC"));
  for (const char* bytes : {"a", "\xC2", "\xDF", "\xE0\x9F", "\xED\xA0", "\xF5", "\xFF", "\x80", "\xF4\x90"})
    EXPECT_FALSE(state.allows(bytes));
  for (const char* bytes : {"\xE0\xA0", "\xED\x9F", "\xF0\x90", "\xF4\x8F"}) EXPECT_TRUE(state.allows(bytes));
  ASSERT_TRUE(state.take("\xF4\x8F\xBF\xBF"));
  EXPECT_TRUE(state.is_complete() && state.is_closed());
  const Status more = state.take("x");
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().code(), Errc::invalid_argument);
}

TEST(Grammar, RefusesWhatIsNone) {
  const auto why = [](const std::string& source) {
    const auto grammar = Grammar::parse(source, "g");
    return grammar ? "" : grammar.error().text();
  };
  EXPECT_EQ(why("root ::= \"a\nb\""), "g:1:12: a line that ends inside a literal or class");
  EXPECT_EQ(why("root ::= other"), "g: rule \"other\" is not there");
  EXPECT_EQ(why("top ::= \"a\""), "g: there is no rule \"root\"");
  EXPECT_EQ(why("root ::= \"a\"\nroot ::= \"b\""), "g:2:10: rule \"root\" is there twice");
  EXPECT_EQ(why("root ::= [b-a]"), "g:1:14: a range that ends before it begins");
  EXPECT_EQ(why("root ::= (\"a\""), "g:1:14: found the end, expected )");
  EXPECT_EQ(why("root ::= \"\\q\""), "g:1:13: the escape \\q is not known");
  EXPECT_EQ(why("root ::= \"a\"{3,2}"), "g:1:18: fewer repetitions at most than at least");
  EXPECT_EQ(why("root ::= \"a\"{9999}"), "g:1:18: more than 2000 repetitions");
  EXPECT_EQ(why("root = \"a\""), "g:1:6: found \"=\", expected ::=");
  EXPECT_EQ(why("root ::= \"a\" )"), "g:1:14: found \")\", expected the end of the line");
  EXPECT_NE(why("root ::= root \"a\" | \"b\"").find("left recursion"), std::string::npos);
  EXPECT_NE(why("root ::= a \"x\"\na ::= \"\"? root \"y\" | \"z\"").find("left recursion"), std::string::npos);
  EXPECT_NE(why("root ::= root1\nroot1 ::= root2\nroot2 ::= root1").find("left recursion"), std::string::npos);
  EXPECT_NE(why("root ::= \"a\" | a \"b\"\na ::= \"\"? a").find("\"a\" calls itself"), std::string::npos);
  EXPECT_EQ(why("root ::= \"a\" root"), "") << "a text without an end";
  EXPECT_EQ(why("root ::= (\"a\"?)* root2\nroot2 ::= \"b\"? root2 | \"c\""), "");
  EXPECT_EQ(why("root ::= \"b\" | ((\"a\"?){200}){100} \"c\""), "g: has more than 2^14 ways to begin");
  EXPECT_NE(why("root ::= <think>").find("tokens by name"), std::string::npos);
  std::string parts = "root ::= ";
  for (int i = 0; i < 200; ++i) parts += "\"a\"{2000} ";
  EXPECT_NE(why(parts).find("2^18 parts"), std::string::npos);
  EXPECT_NE(why("root ::= \"\xFF\"").find("is not UTF-8"), std::string::npos);
  EXPECT_NE(why("root ::= " + std::string(200, '(')).find("100 levels"), std::string::npos);
}

TEST(Grammar, KeepsItsLimits) {
  // Twice as many ways with each letter: refused instead of taking all memory.
  const auto grammar = Grammar::parse("root ::= s\ns ::= \"a\" s t | \"a\" s u | \"a\"\nt ::= \"a\"\nu ::= \"a\"");
  ASSERT_TRUE(grammar) << grammar.error().text();
  GrammarState state(*grammar);
  Status status;
  for (int i = 0; i < 100 && status; ++i) status = state.take("a");
  EXPECT_TRUE(!status && status.error().code() == Errc::too_large);
  EXPECT_TRUE(state.met_limit());
  const auto later = Grammar::parse("root ::= \"b\" (\"d\" | \"x\" ((\"a\"?){200}){100} \"c\")");
  ASSERT_TRUE(later) << later.error().text();
  GrammarState begun(*later);
  EXPECT_TRUE(begun.allows("bd") && !begun.met_limit());
  EXPECT_FALSE(begun.allows("bx"));
  EXPECT_TRUE(begun.met_limit());
  // Six thousand ways at each letter: what one token may cost is bounded, and the next one has as much again.
  const auto wide = Grammar::parse("root ::= ([a-z]? [a-z]? [a-z]?){2000}");
  ASSERT_TRUE(wide) << wide.error().text();
  GrammarState costly(*wide);
  for (int round = 0; round < 3; ++round) {
    std::size_t allowed = 0;
    for (char a = 'a'; a <= 'z'; ++a)
      for (char b = 'a'; b <= 'z'; ++b) allowed += costly.allows(std::string{a, b, a, b});
    EXPECT_GT(allowed, 0u);
    EXPECT_LT(allowed, 26u * 26u);
    EXPECT_TRUE(costly.met_limit());
    ASSERT_TRUE(costly.take("abab"));
  }
  // A long text under a grammar that is not ambiguous takes no more and more memory.
  const auto list = Grammar::parse("root ::= (\"[\" root \"]\" | \"a\")*");
  GrammarState long_state(*list);
  for (int i = 0; i < 200000; ++i) ASSERT_TRUE(long_state.take(i % 7 == 0 ? "[a]" : "a"));
}

/// Random grammars, as a tree: printed for the reader, and matched by a recogniser of their own.
struct Tree {
  enum class Kind { literal, set, rule, sequence, choice, repeat };
  Kind kind = Kind::literal;
  std::string text{};                 // literal, characters of a set
  int rule = 0, least = 0, most = 0;  // most: -1 for no bound
  std::vector<Tree> parts{};
};

class RandomGrammar {
 public:
  explicit RandomGrammar(unsigned seed) : random_(seed) {
    for (int i = 0; i < 4; ++i) rules.push_back(choice(i, 2));
  }
  std::vector<Tree> rules;
  std::string printed() const {
    std::string all;
    for (std::size_t i = 0; i < rules.size(); ++i)
      all += (i == 0 ? "root" : "r" + std::to_string(i)) + " ::= " + print(rules[i]) + "\n";
    return all;
  }
  std::size_t below(std::size_t n) { return random_() % n; }

  /// Places where the tree may end, of all that it begins at.
  std::set<std::size_t> ends(const Tree& tree, const std::string& text, std::set<std::size_t> begins) const {
    std::set<std::size_t> made;
    switch (tree.kind) {
      case Tree::Kind::literal:
        for (const std::size_t at : begins)
          if (text.compare(at, tree.text.size(), tree.text) == 0) made.insert(at + tree.text.size());
        return made;
      case Tree::Kind::set:
        for (const std::size_t at : begins)
          if (at < text.size() && tree.text.find(text[at]) != std::string::npos) made.insert(at + 1);
        return made;
      case Tree::Kind::rule:
        return ends(rules[static_cast<std::size_t>(tree.rule)], text, begins);
      case Tree::Kind::sequence:
        for (const Tree& part : tree.parts) begins = ends(part, text, begins);
        return begins;
      case Tree::Kind::choice:
        for (const Tree& part : tree.parts) made.merge(ends(part, text, begins));
        return made;
      case Tree::Kind::repeat:
        break;
    }
    if (tree.least == 0) made = begins;
    for (int i = 1; !begins.empty() && (tree.most < 0 || i <= tree.most); ++i) {
      begins = ends(tree.parts[0], text, begins);
      const std::size_t before = made.size();
      if (i >= tree.least) made.insert(begins.begin(), begins.end());
      if (i > tree.least && made.size() == before) break;
    }
    return made;
  }
  bool matches(const std::string& text) const { return ends(rules[0], text, {0}).contains(text.size()); }

 private:
  Tree choice(int rule, int depth) {
    Tree made{.kind = Tree::Kind::choice};
    for (std::size_t i = 1 + below(3); i > 0; --i) {
      Tree row{.kind = Tree::Kind::sequence};
      for (std::size_t j = 1 + below(3); j > 0; --j) row.parts.push_back(item(rule, depth));
      made.parts.push_back(std::move(row));
    }
    return made;
  }
  /// Calls go to later rules, so the recogniser comes to an end.
  Tree item(int rule, int depth) {
    const std::size_t kind = below(depth > 0 ? 6 : 2);
    if (kind == 0 || (kind == 2 && rule == 3))
      return {.kind = Tree::Kind::literal, .text = std::string(1 + below(2), static_cast<char>('a' + below(3)))};
    if (kind == 1) return {.kind = Tree::Kind::set, .text = below(2) == 0 ? "ab" : "bcd"};
    if (kind == 2)
      return {.kind = Tree::Kind::rule, .rule = rule + 1 + static_cast<int>(below(static_cast<std::size_t>(3 - rule)))};
    if (kind == 3) return choice(rule, depth - 1);
    Tree made{.kind = Tree::Kind::repeat};
    made.least = static_cast<int>(below(3));
    made.most = below(2) == 0 ? -1 : made.least + static_cast<int>(below(3));
    if (made.most == 0) made.most = 1;
    made.parts.push_back(choice(rule, depth - 1));
    return made;
  }
  std::string print(const Tree& tree) const {
    std::string all;
    switch (tree.kind) {
      case Tree::Kind::literal:
        return "\"" + tree.text + "\"";
      case Tree::Kind::set:
        return "[" + tree.text + "]";
      case Tree::Kind::rule:
        return "r" + std::to_string(tree.rule);
      case Tree::Kind::sequence:
        for (const Tree& part : tree.parts)
          all += (all.empty() ? "" : " ") + (part.kind == Tree::Kind::choice ? "(" + print(part) + ")" : print(part));
        return all;
      case Tree::Kind::choice:
        for (const Tree& part : tree.parts) all += (all.empty() ? "" : " | ") + print(part);
        return all;
      case Tree::Kind::repeat:
        break;
    }
    return "(" + print(tree.parts[0]) + "){" + std::to_string(tree.least) + "," +
           (tree.most < 0 ? "" : std::to_string(tree.most)) + "}";
  }
  std::mt19937 random_;
};

TEST(Grammar, DrawsTextsThatAnotherRecogniserTakes) {
  int whole = 0;
  for (unsigned seed = 0; seed < 150; ++seed) {
    RandomGrammar random(seed);
    const auto grammar = Grammar::parse(random.printed());
    ASSERT_TRUE(grammar) << grammar.error().text() << "\n" << random.printed();
    for (int text_number = 0; text_number < 4; ++text_number) {
      GrammarState state(*grammar);
      std::string text;
      for (int i = 0; i < 24; ++i) {
        std::vector<std::string> tokens;
        for (const char* token : {"a", "b", "c", "d", "ab", "bb", "cca", "ad"})
          if (state.allows(token)) tokens.emplace_back(token);
        ASSERT_EQ(state.is_complete(), random.matches(text)) << "'" << text << "' under\n" << random.printed();
        ASSERT_TRUE(tokens.empty() || !state.is_closed());
        if (tokens.empty() || (state.is_complete() && random.below(6) == 0)) break;
        const std::string token = tokens[random.below(tokens.size())];
        ASSERT_TRUE(state.take(token));
        text += token;
      }
      whole += state.is_complete() ? 1 : 0;
    }
    // And texts that were not drawn.
    for (int i = 0; i < 20; ++i) {
      std::string text;
      for (std::size_t n = random.below(9); n > 0; --n) text += static_cast<char>('a' + random.below(4));
      ASSERT_EQ(accepts(*grammar, text), random.matches(text)) << "'" << text << "' under\n" << random.printed();
    }
  }
  EXPECT_GT(whole, 150);
}

Json json_of(const std::string& text) { return *parse_json(text, "test"); }

TEST(GrammarOfSchema, TakesWhatTheSchemaTakes) {
  struct Row {
    const char* schema;
    std::vector<const char*> texts, others;
  };
  const Row kRows[] = {
      {R"({"type": "integer"})", {"0", "-12", "345"}, {"01", "1.5", "", "+1", "\"1\""}},
      {R"({"type": ["number", "null"]})", {"1", "-1.50", "2e9", "1.5E-3", "null"}, {"nul", "1.", ".5", "true"}},
      {R"({"type": "string", "minLength": 1, "maxLength": 2})",
       {R"("a")", R"("\n\u00e9")", "\"\u20ac\u20ac\""},
       {R"("")", R"("abc")", "\"\n\"", R"("\x")"}},
      {R"({"enum": ["a\"b", 1, null, {"k": [true]}]})", {R"("a\"b")", "1", "null", R"({"k":[true]})"}, {"2", "\"a\""}},
      {R"({"const": "x", "type": "string"})", {"\"x\""}, {"\"y\""}},
      {R"({"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 2})",
       {"[true]", "[ false, true]"},
       {"[]", "[true,true,true]", "[1]"}},
      {R"({"type": "array"})", {"[]", R"([1, [2, {"a": null}], "x"])"}, {"[1,]", "[1 2]"}},
      {R"({"type": "object", "properties": {"b": {"type": "integer"}, "a": {"type": "string"}}, "required": ["a"], "additionalProperties": false})",
       {R"({"b": 1, "a": "x"})", R"({"a":"x"})", "{\n  \"a\": \"\"}"},
       {"{}", R"({"b": 1})", R"({"a": "x", "b": 1})", R"({"a": 1})", R"({"a": "x",})"}},
      {R"({"properties": {"x": {"type": "null"}, "y": {"type": "null"}}})",
       {"{}", R"({"x":null})", R"({"y":null})", R"({"x":null,"y":null})"},
       {R"({"z":null})"}},
      {R"({"anyOf": [{"type": "integer"}, {"type": "array", "items": {"type": "integer"}, "maxItems": 0}]})",
       {"3", "[]"},
       {"[3]"}},
      {R"({"$ref": "#/$defs/n", "$defs": {"n": {"type": "object", "properties": {"next": {"$ref": "#/$defs/n"}}, "additionalProperties": false}}})",
       {"{}", R"({"next": {"next": {}}})"},
       {R"({"next": 1})"}},
      {"{}", {"1", "[]", "\"x\"", "{}", "true"}, {"x"}},
  };
  for (const Row& row : kRows) {
    const auto grammar = Grammar::from_json_schema(json_of(row.schema));
    ASSERT_TRUE(grammar) << grammar.error().text();
    for (const char* text : row.texts) EXPECT_TRUE(accepts(*grammar, text)) << row.schema << ": " << text;
    for (const char* text : row.others) EXPECT_FALSE(accepts(*grammar, text)) << row.schema << ": " << text;
  }
}

TEST(GrammarOfSchema, RefusesWhatItDoesNotKnow) {
  const auto why = [](const char* schema) {
    const auto grammar = Grammar::from_json_schema(json_of(schema));
    return grammar ? "" : grammar.error().text();
  };
  EXPECT_EQ(why(R"({"type": "string", "pattern": "a"})"), "schema.pattern: this keyword is not known here");
  EXPECT_EQ(why(R"({"properties": {"a": {"type": "int"}}})"),
            "schema.properties.a.type: found \"int\", expected a type of JSON");
  EXPECT_EQ(why(R"({"type": "string", "maxItems": 3})"), "schema.maxItems: the type is not array");
  EXPECT_EQ(why(R"({"type": "object", "additionalProperties": {"type": "string"}})"),
            "schema.additionalProperties: a schema is not known here; true or false");
  EXPECT_EQ(why(R"({"enum": [1], "type": "string"})"), "schema: no value is left that it could take");
  EXPECT_EQ(why(R"({"anyOf": [{}], "type": "string"})"), "schema.type: this keyword is not known here, beside anyOf");
  EXPECT_NE(why(R"({"$ref": "other.json"})").find("$defs"), std::string::npos);
  EXPECT_NE(why(R"({"minItems": 5, "maxItems": 2})").find("maxItems is below minItems"), std::string::npos);
  EXPECT_NE(why(R"({"minLength": 5000})").find("expected 0 to 2000"), std::string::npos);
  EXPECT_NE(why("false").find("expected a schema"), std::string::npos);
  EXPECT_NE(why(R"({"required": ["a"], "additionalProperties": false})").find("none of the properties"),
            std::string::npos);
}

}  // namespace
}  // namespace weft::text::grammar_test
