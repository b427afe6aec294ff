// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "text/internal/jinja_lexer.hpp"
#include "text/internal/jinja_maybe.hpp"
#include "text/internal/jinja_tree.hpp"

#include "core/result.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::text::jinja {

/// Expressions by precedence, lowest first: if-else, or, and, not, comparisons, + and -, ~, * / // %, **, unary signs,
/// members and calls, filters and tests (as Jinja 3.1 has it).
class ExpressionParser {
 public:
  ExpressionParser(std::string_view source, std::vector<Token> tokens) : source_(source), tokens_(std::move(tokens)) {}

  /// One value, or several with commas between as a tuple. `conditional` false: without if-else.
  Maybe<ExpressionPtr> parse_tuple(bool conditional = true);
  Maybe<ExpressionPtr> parse_expression(bool conditional = true);
  /// Filters with | between them, the first without one.
  Maybe<ExpressionPtr> parse_filters(ExpressionPtr input);

  const Token& current() const noexcept { return tokens_[next_]; }
  const Token& following() const noexcept { return tokens_[std::min(next_ + 1, tokens_.size() - 1)]; }
  bool is_sign(std::string_view sign) const noexcept;
  bool is_name(std::string_view name) const noexcept;
  void skip() noexcept { next_ += next_ + 1 < tokens_.size() ? 1 : 0; }
  bool skip_sign(std::string_view sign) noexcept;
  bool skip_name(std::string_view name) noexcept;
  Maybe<void> expect_sign(std::string_view sign);
  Maybe<void> expect(TokenKind kind, std::string_view what);
  Maybe<std::string> expect_name();
  Stopped refuse(const std::string& text, Errc code = Errc::parse_failed);
  Stopped unexpected(std::string_view expected = "");
  /// The failure, once something has returned Stopped.
  Failure failure() { return fail(std::move(*error_)); }

  /// Levels that are open; `enter` refuses one too many.
  Maybe<void> enter();
  void leave() noexcept { --levels_; }

 private:
  using Part = Maybe<ExpressionPtr> (ExpressionParser::*)();
  Maybe<ExpressionPtr> parse_conditional();
  Maybe<ExpressionPtr> parse_words(Expression::Form form, std::string_view word, Part part);
  Maybe<ExpressionPtr> parse_or();
  Maybe<ExpressionPtr> parse_and();
  Maybe<ExpressionPtr> parse_not();
  Maybe<ExpressionPtr> parse_comparison();
  Maybe<ExpressionPtr> parse_signs(Expression::Form form, std::vector<std::pair<std::string_view, Operation>> signs,
                                   Part part);
  Maybe<ExpressionPtr> parse_sum();
  Maybe<ExpressionPtr> parse_concat();
  Maybe<ExpressionPtr> parse_product();
  Maybe<ExpressionPtr> parse_power();
  Maybe<ExpressionPtr> parse_signed() { return parse_unary(true); }
  Maybe<ExpressionPtr> parse_unary(bool with_filters);
  Maybe<ExpressionPtr> parse_primary();
  Maybe<ExpressionPtr> parse_constant();
  Maybe<ExpressionPtr> parse_list();
  Maybe<ExpressionPtr> parse_dict();
  Maybe<ExpressionPtr> parse_members(ExpressionPtr of);
  Maybe<ExpressionPtr> parse_subscript(ExpressionPtr of);
  Maybe<ExpressionPtr> parse_tests_and_filters(ExpressionPtr of);
  Maybe<ExpressionPtr> parse_test(ExpressionPtr of);
  Maybe<void> parse_arguments(Expression& of);
  ExpressionPtr make(Expression::Form form) const;
  /// A level above its parts. @error too_large: more than 100
  Maybe<ExpressionPtr> finish(ExpressionPtr made);
  Stopped refuse_at(std::size_t at, const std::string& text, Errc code);

  std::string_view source_;
  std::vector<Token> tokens_;
  std::size_t next_ = 0, levels_ = 0;
  std::optional<Error> error_;
};

}  // namespace weft::text::jinja
