// SPDX-License-Identifier: Apache-2.0

#include "text/internal/jinja_parser.hpp"

#include "text/internal/jinja_expressions.hpp"

#include <algorithm>
#include <initializer_list>
#include <utility>

namespace weft::text::jinja {
namespace {

using Tag = Statement::Kind;

/// Text, outputs and tags of a template.
class BlockParser {
 public:
  BlockParser(std::string_view source, std::vector<Token> tokens) : at_(source, std::move(tokens)) {}

  /// Statements up to a tag of one of these names, which is skipped, its end not; `ends` empty: to the end.
  Maybe<Block> parse_block(std::initializer_list<std::string_view> ends, std::string* found = nullptr) {
    WEFT_CHECK(at_.enter());
    Block block;
    for (;;) {
      const Token& token = at_.current();
      if (token.kind == TokenKind::end) {
        if (ends.size() != 0) return at_.refuse("the end of the template, expected " + std::string(*(ends.end() - 1)));
        break;
      }
      Statement made;
      made.at = token.at;
      if (token.kind == TokenKind::data) {
        made.literal.add(token.text);
        at_.skip();
      } else if (token.kind == TokenKind::output_begin) {
        at_.skip();
        made.kind = Tag::output;
        WEFT_CHECK(add_part(made, at_.parse_tuple()));
        WEFT_CHECK(at_.expect(TokenKind::output_end, "}}"));
      } else {
        at_.skip();
        const std::string name = at_.current().kind == TokenKind::name ? at_.current().text : "";
        if (std::find(ends.begin(), ends.end(), name) != ends.end()) {
          at_.skip();
          if (found) *found = name;
          break;
        }
        WEFT_CHECK(parse_tag(made, name));
        WEFT_CHECK(at_.expect(TokenKind::tag_end, "%}"));
      }
      block.push_back(std::move(made));
    }
    at_.leave();
    return block;
  }

  Failure failure() { return at_.failure(); }

 private:
  static Maybe<void> add_part(Statement& to, Maybe<ExpressionPtr> part) {
    WEFT_TRY(ExpressionPtr made, std::move(part));
    to.parts.push_back(std::move(made));
    return {};
  }
  /// The end of a tag, then statements up to the tag `end`.
  Maybe<void> add_body(Statement& to, std::initializer_list<std::string_view> ends, std::string* found = nullptr) {
    WEFT_CHECK(at_.expect(TokenKind::tag_end, "%}"));
    WEFT_TRY(Block body, parse_block(ends, found));
    to.bodies.push_back(std::move(body));
    return {};
  }

  Maybe<void> parse_tag(Statement& made, const std::string& name) {
    struct Row {
      std::string_view name;
      Maybe<void> (BlockParser::*parse)(Statement&);
    };
    constexpr Row kRows[] = {
        {"if", &BlockParser::parse_if},       {"for", &BlockParser::parse_for},
        {"set", &BlockParser::parse_set},     {"macro", &BlockParser::parse_macro},
        {"call", &BlockParser::parse_call},   {"filter", &BlockParser::parse_filter},
        {"with", &BlockParser::parse_with},   {"generation", &BlockParser::parse_generation},
        {"break", &BlockParser::parse_break}, {"continue", &BlockParser::parse_continue},
    };
    const auto row =
        std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& each) { return each.name == name; });
    if (row == std::end(kRows))
      return name.empty() ? Maybe<void>(at_.unexpected("a tag"))
                          : Maybe<void>(at_.refuse("tag '" + name + "' is not known here", Errc::unsupported));
    at_.skip();
    return (this->*row->parse)(made);
  }

  Maybe<void> parse_if(Statement& made) {
    made.kind = Tag::condition;
    for (std::string end = "elif"; end == "elif";) {
      WEFT_CHECK(add_part(made, at_.parse_tuple(false)));
      WEFT_CHECK(add_body(made, {"elif", "else", "endif"}, &end));
      if (end == "else") WEFT_CHECK(add_body(made, {"endif"}));
      if (end == "endif") made.bodies.emplace_back();
    }
    return {};
  }

  Maybe<void> parse_for(Statement& made) {
    made.kind = Tag::loop;
    WEFT_CHECK(parse_target(made.target, false));
    if (!at_.skip_name("in")) return at_.unexpected("in");
    WEFT_CHECK(add_part(made, at_.parse_tuple(false)));
    made.parts.push_back(nullptr);
    if (at_.skip_name("if")) {
      WEFT_TRY(made.parts[1], at_.parse_expression());
    }
    if (at_.is_name("recursive")) return at_.refuse("recursive loops are not known here", Errc::unsupported);
    std::string end;
    ++loops_;
    WEFT_CHECK(add_body(made, {"else", "endfor"}, &end));
    --loops_;
    if (end == "else") return add_body(made, {"endfor"});
    made.bodies.emplace_back();
    return {};
  }
  Maybe<void> leave_loop(Statement& made, Tag kind) {
    made.kind = kind;
    if (loops_ == 0) return at_.refuse("break and continue stand in loops alone");
    return {};
  }
  Maybe<void> parse_break(Statement& made) { return leave_loop(made, Tag::leave); }
  Maybe<void> parse_continue(Statement& made) { return leave_loop(made, Tag::next); }

  /// One name, a member of one, or several names with commas between, in parentheses or not.
  Maybe<void> parse_target(Target& target, bool takes_member) {
    const bool is_inside = at_.skip_sign("(");
    do {
      if (!target.names.empty()) target.is_tuple = true;
      if (at_.is_name("in") || at_.is_sign(")")) break;
      WEFT_TRY(std::string name, at_.expect_name());
      target.names.push_back(std::move(name));
      if (takes_member && target.names.size() == 1 && at_.skip_sign(".")) {
        WEFT_TRY(target.member, at_.expect_name());
        break;
      }
    } while (at_.skip_sign(","));
    if (target.names.empty()) return at_.unexpected("a name");
    return is_inside ? at_.expect_sign(")") : Maybe<void>();
  }

  Maybe<void> parse_set(Statement& made) {
    WEFT_CHECK(parse_target(made.target, true));
    if (at_.skip_sign("=")) {
      made.kind = Tag::set;
      return add_part(made, at_.parse_tuple());
    }
    made.kind = Tag::set_block;
    made.parts.push_back(nullptr);
    if (at_.skip_sign("|")) {
      WEFT_TRY(made.parts[0], at_.parse_filters(nullptr));
    }
    return add_scoped_body(made, "endset");
  }

  /// A body that no break or continue leaves.
  Maybe<void> add_scoped_body(Statement& made, std::string_view end) {
    const std::size_t loops = std::exchange(loops_, 0);
    WEFT_CHECK(add_body(made, {end}));
    loops_ = loops;
    return {};
  }
  Maybe<void> parse_parameters(Statement& made) {
    WEFT_CHECK(at_.expect_sign("("));
    while (!at_.is_sign(")")) {
      WEFT_TRY(std::string name, at_.expect_name());
      ExpressionPtr fallback;
      if (at_.skip_sign("=")) {
        WEFT_TRY(fallback, at_.parse_expression());
      } else if (!made.parameters.empty() && made.parameters.back().second) {
        return at_.refuse("a parameter without a default behind one with a default");
      }
      made.parameters.emplace_back(std::move(name), std::move(fallback));
      if (!at_.is_sign(")")) WEFT_CHECK(at_.expect_sign(","));
    }
    at_.skip();
    return {};
  }
  Maybe<void> parse_macro(Statement& made) {
    made.kind = Tag::macro;
    WEFT_TRY(made.text, at_.expect_name());
    WEFT_CHECK(parse_parameters(made));
    return add_scoped_body(made, "endmacro");
  }
  Maybe<void> parse_call(Statement& made) {
    made.kind = Tag::call_block;
    made.text = "caller";
    if (at_.is_sign("(")) WEFT_CHECK(parse_parameters(made));
    WEFT_CHECK(add_part(made, at_.parse_expression()));
    if (made.parts[0]->form != Expression::Form::call) return at_.refuse("call takes a call");
    return add_scoped_body(made, "endcall");
  }
  Maybe<void> parse_filter(Statement& made) {
    made.kind = Tag::filter_block;
    WEFT_CHECK(add_part(made, at_.parse_filters(nullptr)));
    return add_scoped_body(made, "endfilter");
  }
  Maybe<void> parse_with(Statement& made) {
    made.kind = Tag::with;
    while (at_.current().kind != TokenKind::tag_end) {
      if (!made.parameters.empty()) WEFT_CHECK(at_.expect_sign(","));
      WEFT_TRY(std::string name, at_.expect_name());
      WEFT_CHECK(at_.expect_sign("="));
      WEFT_TRY(ExpressionPtr value, at_.parse_expression());
      made.parameters.emplace_back(std::move(name), std::move(value));
    }
    return add_body(made, {"endwith"});
  }
  Maybe<void> parse_generation(Statement& made) {
    made.kind = Tag::plain;
    return add_body(made, {"endgeneration"});
  }

  ExpressionParser at_;
  std::size_t loops_ = 0;  // that a break may leave
};

}  // namespace

Result<Tree> parse(std::string source) {
  constexpr std::size_t kMostSource = std::size_t{1} << 20;
  if (source.size() > kMostSource)
    return fail(Errc::too_large, "chat template: " + std::to_string(source.size()) + " bytes, at most 1 MiB");
  Tree tree;
  tree.source = with_plain_line_ends(source);
  WEFT_TRY(std::vector<Token> tokens, read_tokens(tree.source));
  BlockParser parser(tree.source, std::move(tokens));
  auto body = parser.parse_block({});
  if (!body) return parser.failure();
  tree.body = *std::move(body);
  return tree;
}

}  // namespace weft::text::jinja
