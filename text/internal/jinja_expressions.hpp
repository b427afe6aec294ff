// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "text/internal/jinja_lexer.hpp"
#include "text/internal/jinja_tree.hpp"

#include "core/result.hpp"

#include <cstddef>
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
  Result<ExpressionPtr> parse_tuple(bool conditional = true);
  Result<ExpressionPtr> parse_expression(bool conditional = true);
  /// Filters with | between them, the first without one.
  Result<ExpressionPtr> parse_filters(ExpressionPtr input);

  const Token& current() const noexcept { return tokens_[next_]; }
  const Token& following() const noexcept { return tokens_[std::min(next_ + 1, tokens_.size() - 1)]; }
  bool is_sign(std::string_view sign) const noexcept;
  bool is_name(std::string_view name) const noexcept;
  void skip() noexcept { next_ += next_ + 1 < tokens_.size() ? 1 : 0; }
  bool skip_sign(std::string_view sign) noexcept;
  bool skip_name(std::string_view name) noexcept;
  Status expect_sign(std::string_view sign);
  Status expect(TokenKind kind, std::string_view what);
  Result<std::string> expect_name();
  Failure refuse(const std::string& text, Errc code = Errc::parse_failed) const;
  Failure unexpected(std::string_view expected = "") const;

  /// Levels that are open; `enter` refuses one too many.
  Status enter();
  void leave() noexcept { --levels_; }

 private:
  using Part = Result<ExpressionPtr> (ExpressionParser::*)();
  Result<ExpressionPtr> parse_conditional();
  Result<ExpressionPtr> parse_words(Expression::Form form, std::string_view word, Part part);
  Result<ExpressionPtr> parse_or();
  Result<ExpressionPtr> parse_and();
  Result<ExpressionPtr> parse_not();
  Result<ExpressionPtr> parse_comparison();
  Result<ExpressionPtr> parse_signs(Expression::Form form, std::vector<std::pair<std::string_view, Operation>> signs,
                                    Part part);
  Result<ExpressionPtr> parse_sum();
  Result<ExpressionPtr> parse_concat();
  Result<ExpressionPtr> parse_product();
  Result<ExpressionPtr> parse_power();
  Result<ExpressionPtr> parse_signed() { return parse_unary(true); }
  Result<ExpressionPtr> parse_unary(bool with_filters);
  Result<ExpressionPtr> parse_primary();
  Result<ExpressionPtr> parse_constant();
  Result<ExpressionPtr> parse_list();
  Result<ExpressionPtr> parse_dict();
  Result<ExpressionPtr> parse_members(ExpressionPtr of);
  Result<ExpressionPtr> parse_subscript(ExpressionPtr of);
  Result<ExpressionPtr> parse_tests_and_filters(ExpressionPtr of);
  Result<ExpressionPtr> parse_test(ExpressionPtr of);
  Status parse_arguments(Expression& of);
  ExpressionPtr make(Expression::Form form) const;
  /// A level above its parts. @error too_large: more than 100
  Result<ExpressionPtr> finish(ExpressionPtr made) const;

  std::string_view source_;
  std::vector<Token> tokens_;
  std::size_t next_ = 0, levels_ = 0;
};

}  // namespace weft::text::jinja
