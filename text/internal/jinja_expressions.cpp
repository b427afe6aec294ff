// SPDX-License-Identifier: Apache-2.0

#include "text/internal/jinja_expressions.hpp"

#include "text/internal/jinja_library.hpp"
#include "text/internal/jinja_parser.hpp"

#include "core/printable.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace weft::text::jinja {
namespace {

using Form = Expression::Form;

/// Words that are no variables.
bool is_reserved(std::string_view name) noexcept {
  constexpr std::string_view kWords[] = {"and", "or", "not", "in", "is", "if", "else", "elif", "for"};
  return std::find(std::begin(kWords), std::end(kWords), name) != std::end(kWords);
}

std::string described(const Token& token) {
  switch (token.kind) {
    case TokenKind::end:
      return "the end of the template";
    case TokenKind::output_end:
      return "}}";
    case TokenKind::tag_end:
      return "%}";
    case TokenKind::text:
      return "text " + in_quotes(token.text);
    default:
      return in_quotes(token.text);
  }
}

}  // namespace

bool ExpressionParser::is_sign(std::string_view sign) const noexcept {
  return current().kind == TokenKind::sign && current().text == sign;
}
bool ExpressionParser::is_name(std::string_view name) const noexcept {
  return current().kind == TokenKind::name && current().text == name;
}
bool ExpressionParser::skip_sign(std::string_view sign) noexcept {
  const bool is_it = is_sign(sign);
  if (is_it) skip();
  return is_it;
}
bool ExpressionParser::skip_name(std::string_view name) noexcept {
  const bool is_it = is_name(name);
  if (is_it) skip();
  return is_it;
}
Stopped ExpressionParser::refuse_at(std::size_t at, const std::string& text, Errc code) {
  error_ = fail_at(source_, at, code, text).error;
  return {};
}
Stopped ExpressionParser::refuse(const std::string& text, Errc code) { return refuse_at(current().at, text, code); }
Stopped ExpressionParser::unexpected(std::string_view expected) {
  return refuse("found " + described(current()) + (expected.empty() ? "" : ", expected ") + std::string(expected));
}
Maybe<void> ExpressionParser::expect_sign(std::string_view sign) {
  if (!skip_sign(sign)) return unexpected("'" + std::string(sign) + "'");
  return {};
}
Maybe<void> ExpressionParser::expect(TokenKind kind, std::string_view what) {
  if (current().kind != kind) return unexpected(what);
  skip();
  return {};
}
Maybe<std::string> ExpressionParser::expect_name() {
  if (current().kind != TokenKind::name) return unexpected("a name");
  std::string name = current().text;
  skip();
  return name;
}
Maybe<void> ExpressionParser::enter() {
  if (levels_ >= kMostLevels) return refuse("more than 100 levels", Errc::too_large);
  ++levels_;
  return {};
}

ExpressionPtr ExpressionParser::make(Form form) const {
  auto made = std::make_unique<Expression>();
  made->form = form;
  made->at = current().at;
  return made;
}
Maybe<ExpressionPtr> ExpressionParser::finish(ExpressionPtr made) {
  for (const ExpressionPtr& part : made->parts)
    if (part) made->depth = std::max(made->depth, part->depth + 1);
  for (const auto& [name, part] : made->named) made->depth = std::max(made->depth, part->depth + 1);
  if (made->depth > kMostLevels) return refuse_at(made->at, "more than 100 levels", Errc::too_large);
  return made;
}

Maybe<ExpressionPtr> ExpressionParser::parse_tuple(bool conditional) {
  ExpressionPtr tuple = make(Form::tuple);
  bool is_tuple = false;
  for (;;) {
    const bool ends = current().kind == TokenKind::output_end || current().kind == TokenKind::tag_end || is_sign(")");
    if (ends) break;
    WEFT_TRY(ExpressionPtr part, parse_expression(conditional));
    tuple->parts.push_back(std::move(part));
    if (!skip_sign(",")) break;
    is_tuple = true;
  }
  if (is_tuple) return finish(std::move(tuple));
  if (tuple->parts.empty()) return unexpected("an expression");
  return std::move(tuple->parts[0]);
}

Maybe<ExpressionPtr> ExpressionParser::parse_expression(bool conditional) {
  WEFT_CHECK(enter());
  auto made = conditional ? parse_conditional() : parse_or();
  leave();
  return made;
}

Maybe<ExpressionPtr> ExpressionParser::parse_conditional() {
  WEFT_TRY(ExpressionPtr value, parse_or());
  while (is_name("if")) {
    ExpressionPtr made = make(Form::conditional);
    skip();
    made->parts.push_back(std::move(value));
    WEFT_TRY(ExpressionPtr condition, parse_or());
    made->parts.push_back(std::move(condition));
    made->parts.push_back(nullptr);
    if (skip_name("else")) {
      WEFT_TRY(made->parts[2], parse_expression());
    }
    WEFT_TRY(value, finish(std::move(made)));
  }
  return value;
}

Maybe<ExpressionPtr> ExpressionParser::parse_words(Form form, std::string_view word, Part part) {
  WEFT_TRY(ExpressionPtr first, (this->*part)());
  if (!is_name(word)) return first;
  ExpressionPtr made = make(form);
  made->parts.push_back(std::move(first));
  while (skip_name(word)) {
    WEFT_TRY(ExpressionPtr next, (this->*part)());
    made->parts.push_back(std::move(next));
  }
  return finish(std::move(made));
}
Maybe<ExpressionPtr> ExpressionParser::parse_or() {
  return parse_words(Form::any_of, "or", &ExpressionParser::parse_and);
}
Maybe<ExpressionPtr> ExpressionParser::parse_and() {
  return parse_words(Form::all_of, "and", &ExpressionParser::parse_not);
}

Maybe<ExpressionPtr> ExpressionParser::parse_not() {
  if (!is_name("not")) return parse_comparison();
  ExpressionPtr made = make(Form::negation);
  skip();
  WEFT_CHECK(enter());
  auto part = parse_not();
  leave();
  if (!part) return part;
  made->parts.push_back(*std::move(part));
  return finish(std::move(made));
}

Maybe<ExpressionPtr> ExpressionParser::parse_comparison() {
  constexpr std::pair<std::string_view, Operation> kSigns[] = {{"==", Operation::equal},  {"!=", Operation::not_equal},
                                                               {"<", Operation::less},    {"<=", Operation::at_most},
                                                               {">", Operation::greater}, {">=", Operation::at_least}};
  WEFT_TRY(ExpressionPtr first, parse_sum());
  ExpressionPtr made = make(Form::comparison);
  for (;;) {
    const auto sign =
        std::find_if(std::begin(kSigns), std::end(kSigns), [&](const auto& row) { return is_sign(row.first); });
    const bool is_not_in = is_name("not") && following().kind == TokenKind::name && following().text == "in";
    if (sign != std::end(kSigns))
      made->operations.push_back(sign->second);
    else if (is_name("in") || is_not_in)
      made->operations.push_back(is_not_in ? Operation::not_in : Operation::in);
    else
      break;
    skip();
    if (is_not_in) skip();
    WEFT_TRY(ExpressionPtr next, parse_sum());
    made->parts.push_back(std::move(next));
  }
  if (made->parts.empty()) return first;
  made->parts.insert(made->parts.begin(), std::move(first));
  return finish(std::move(made));
}

Maybe<ExpressionPtr> ExpressionParser::parse_signs(Form form, std::vector<std::pair<std::string_view, Operation>> signs,
                                                   Part part) {
  WEFT_TRY(ExpressionPtr first, (this->*part)());
  ExpressionPtr made = make(form);
  for (;;) {
    const auto sign = std::find_if(signs.begin(), signs.end(), [&](const auto& row) { return is_sign(row.first); });
    if (sign == signs.end()) break;
    made->operations.push_back(sign->second);
    skip();
    WEFT_TRY(ExpressionPtr next, (this->*part)());
    made->parts.push_back(std::move(next));
  }
  if (made->parts.empty()) return first;
  made->parts.insert(made->parts.begin(), std::move(first));
  return finish(std::move(made));
}
Maybe<ExpressionPtr> ExpressionParser::parse_sum() {
  return parse_signs(Form::arithmetic, {{"+", Operation::add}, {"-", Operation::subtract}},
                     &ExpressionParser::parse_concat);
}
Maybe<ExpressionPtr> ExpressionParser::parse_concat() {
  return parse_signs(Form::concat, {{"~", Operation::add}}, &ExpressionParser::parse_product);
}
Maybe<ExpressionPtr> ExpressionParser::parse_product() {
  return parse_signs(Form::arithmetic,
                     {{"*", Operation::multiply},
                      {"/", Operation::divide},
                      {"//", Operation::divide_whole},
                      {"%", Operation::remainder}},
                     &ExpressionParser::parse_power);
}
Maybe<ExpressionPtr> ExpressionParser::parse_power() {
  return parse_signs(Form::arithmetic, {{"**", Operation::power}}, &ExpressionParser::parse_signed);
}

Maybe<ExpressionPtr> ExpressionParser::parse_unary(bool with_filters) {
  ExpressionPtr made;
  if (is_sign("-") || is_sign("+")) {
    made = make(is_sign("-") ? Form::negative : Form::positive);
    skip();
    WEFT_CHECK(enter());
    auto part = parse_unary(false);
    leave();
    if (!part) return part;
    made->parts.push_back(*std::move(part));
    WEFT_TRY(made, finish(std::move(made)));
  } else {
    WEFT_TRY(made, parse_primary());
  }
  WEFT_TRY(made, parse_members(std::move(made)));
  return with_filters ? parse_tests_and_filters(std::move(made)) : std::move(made);
}

Maybe<ExpressionPtr> ExpressionParser::parse_primary() {
  switch (current().kind) {
    case TokenKind::name: {
      if (is_reserved(current().text)) return unexpected("an expression");
      const std::string name = current().text;
      ExpressionPtr made = make(Form::constant);
      skip();
      if (name == "true" || name == "True" || name == "false" || name == "False")
        made->value = Value::of_bool(name[0] == 't' || name[0] == 'T');
      else if (name == "none" || name == "None")
        made->value = Value::none();
      else
        made->form = Form::name, made->text = name;
      return made;
    }
    case TokenKind::text:
    case TokenKind::integer:
    case TokenKind::real:
      return parse_constant();
    default:
      break;
  }
  if (is_sign("[")) return parse_list();
  if (is_sign("{")) return parse_dict();
  if (!is_sign("(")) return unexpected("an expression");
  ExpressionPtr empty = make(Form::tuple);
  skip();
  if (skip_sign(")")) return empty;
  WEFT_CHECK(enter());
  auto inside = parse_tuple();
  leave();
  if (!inside) return inside;
  WEFT_CHECK(expect_sign(")"));
  return inside;
}

Maybe<ExpressionPtr> ExpressionParser::parse_constant() {
  ExpressionPtr made = make(Form::constant);
  if (current().kind == TokenKind::integer) made->value = Value::of_integer(current().integer);
  if (current().kind == TokenKind::real) made->value = Value::of_real(current().real);
  const bool is_text = current().kind == TokenKind::text;
  if (is_text) made->value = Value(&made->literal);
  do made->literal.add(is_text ? std::string_view(current().text) : "");
  while (skip(), is_text && current().kind == TokenKind::text);
  return made;
}

Maybe<ExpressionPtr> ExpressionParser::parse_list() {
  ExpressionPtr made = make(Form::list);
  skip();
  while (!is_sign("]")) {
    WEFT_TRY(ExpressionPtr part, parse_expression());
    made->parts.push_back(std::move(part));
    if (!is_sign("]")) WEFT_CHECK(expect_sign(","));
  }
  skip();
  return finish(std::move(made));
}

Maybe<ExpressionPtr> ExpressionParser::parse_dict() {
  ExpressionPtr made = make(Form::dict);
  skip();
  while (!is_sign("}")) {
    WEFT_TRY(ExpressionPtr key, parse_expression());
    made->parts.push_back(std::move(key));
    WEFT_CHECK(expect_sign(":"));
    WEFT_TRY(ExpressionPtr value, parse_expression());
    made->parts.push_back(std::move(value));
    if (!is_sign("}")) WEFT_CHECK(expect_sign(","));
  }
  skip();
  return finish(std::move(made));
}

Maybe<ExpressionPtr> ExpressionParser::parse_members(ExpressionPtr of) {
  for (;;) {
    if (is_sign("[")) {
      WEFT_TRY(of, parse_subscript(std::move(of)));
      continue;
    }
    if (!is_sign(".") && !is_sign("(")) return of;
    const bool is_call = is_sign("(");
    ExpressionPtr made = make(is_call ? Form::call : Form::attribute);
    made->parts.push_back(std::move(of));
    if (is_call) {
      WEFT_CHECK(parse_arguments(*made));
    } else {
      skip();
      if (current().kind == TokenKind::integer) {
        made->form = Form::item;
        WEFT_TRY(ExpressionPtr index, parse_constant());
        made->parts.push_back(std::move(index));
      } else {
        WEFT_TRY(made->text, expect_name());
      }
    }
    WEFT_TRY(of, finish(std::move(made)));
  }
}

Maybe<ExpressionPtr> ExpressionParser::parse_subscript(ExpressionPtr of) {
  ExpressionPtr made = make(Form::item);
  skip();
  made->parts.push_back(std::move(of));
  for (std::size_t i = 0; i < 3; ++i) {
    if (!is_sign(":") && !is_sign("]")) {
      WEFT_TRY(ExpressionPtr part, parse_expression());
      made->parts.push_back(std::move(part));
    } else {
      made->parts.push_back(nullptr);
    }
    if (i == 2 || !skip_sign(":")) break;
    made->form = Form::slice;
  }
  if (made->form == Form::item && !made->parts[1]) return unexpected("an index");
  if (made->form == Form::slice) made->parts.resize(4);
  WEFT_CHECK(expect_sign("]"));
  return finish(std::move(made));
}

Maybe<void> ExpressionParser::parse_arguments(Expression& of) {
  WEFT_CHECK(expect_sign("("));
  while (!is_sign(")")) {
    if (is_sign("*") || is_sign("**")) return refuse("arguments by * and ** are not known here", Errc::unsupported);
    const bool is_named =
        current().kind == TokenKind::name && following().kind == TokenKind::sign && following().text == "=";
    if (is_named) {
      std::string name = current().text;
      skip();
      skip();
      WEFT_TRY(ExpressionPtr value, parse_expression());
      of.named.emplace_back(std::move(name), std::move(value));
    } else {
      if (!of.named.empty()) return refuse("an argument without a name behind one with a name");
      WEFT_TRY(ExpressionPtr value, parse_expression());
      of.parts.push_back(std::move(value));
    }
    if (!is_sign(")")) WEFT_CHECK(expect_sign(","));
  }
  skip();
  return {};
}

Maybe<ExpressionPtr> ExpressionParser::parse_filters(ExpressionPtr of) {
  do {
    ExpressionPtr made = make(Form::filter);
    WEFT_TRY(made->text, expect_name());
    made->routine = find_filter(made->text);
    if (!made->routine) return refuse_at(made->at, "filter '" + made->text + "' is not known here", Errc::unsupported);
    made->parts.push_back(std::move(of));
    if (is_sign("(")) WEFT_CHECK(parse_arguments(*made));
    WEFT_TRY(of, finish(std::move(made)));
  } while (skip_sign("|"));
  return of;
}

Maybe<ExpressionPtr> ExpressionParser::parse_tests_and_filters(ExpressionPtr of) {
  for (;;) {
    if (skip_sign("|")) {
      WEFT_TRY(of, parse_filters(std::move(of)));
    } else if (is_name("is")) {
      WEFT_TRY(of, parse_test(std::move(of)));
    } else if (is_sign("(")) {
      ExpressionPtr made = make(Form::call);
      made->parts.push_back(std::move(of));
      WEFT_CHECK(parse_arguments(*made));
      WEFT_TRY(of, finish(std::move(made)));
    } else {
      return of;
    }
  }
}

Maybe<ExpressionPtr> ExpressionParser::parse_test(ExpressionPtr of) {
  skip();
  ExpressionPtr negation = is_name("not") ? make(Form::negation) : nullptr;
  if (negation) skip();
  ExpressionPtr made = make(Form::test);
  WEFT_TRY(made->text, expect_name());
  made->routine = find_test(made->text);
  if (!made->routine) return refuse_at(made->at, "test '" + made->text + "' is not known here", Errc::unsupported);
  made->parts.push_back(std::move(of));
  const TokenKind kind = current().kind;
  const bool takes_one = kind == TokenKind::text || kind == TokenKind::integer || kind == TokenKind::real ||
                         is_sign("[") || is_sign("{") ||
                         (kind == TokenKind::name && !is_name("else") && !is_name("or") && !is_name("and") &&
                          !is_name("if") && !is_name("in") && !is_name("not"));
  if (is_sign("(")) {
    WEFT_CHECK(parse_arguments(*made));
  } else if (takes_one) {
    if (is_name("is")) return refuse("a test behind a test; use parentheses");
    WEFT_TRY(ExpressionPtr argument, parse_primary());
    WEFT_TRY(argument, parse_members(std::move(argument)));
    made->parts.push_back(std::move(argument));
  }
  WEFT_TRY(made, finish(std::move(made)));
  if (!negation) return made;
  negation->parts.push_back(std::move(made));
  return finish(std::move(negation));
}

}  // namespace weft::text::jinja
