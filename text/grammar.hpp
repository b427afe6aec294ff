// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/json.hpp"
#include "core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::text {

/// A grammar that texts follow, as llama.cpp writes it (GBNF, docs/grammars.md): rules of literals, character classes,
/// groups and repetitions; the text is `root`.
/// @thread any: immutable
class Grammar {
 public:
  /// @error parse_failed, unknown_name: a rule that is not there; unsupported: left recursion, tokens by name;
  ///        too_large: 1 MiB of source, 2^18 parts, 100 levels, 2^14 ways to begin
  static Result<Grammar> parse(std::string_view source, std::string_view source_name = "grammar");
  /// Texts of JSON that a schema takes; not all of them: members stand in the schema's order (docs/grammars.md).
  /// @error unsupported: a keyword that is not known, naming its place; parse_failed, out_of_range: a schema that is
  /// none
  static Result<Grammar> from_json_schema(const Json& schema, std::string_view source_name = "JSON schema");
  /// The rules, as `parse` takes them.
  const std::string& source() const noexcept;
  /// The name that it was read under.
  const std::string& name() const noexcept;

  struct Rules;

 private:
  friend class GrammarState;
  explicit Grammar(std::shared_ptr<const Rules> rules) : rules_(std::move(rules)) {}
  std::shared_ptr<const Rules> rules_;
};

/// The rules of a JSON schema as a grammar's source. @error as Grammar::from_json_schema
Result<std::string> grammar_of_schema(const Json& schema);

/// A text under a grammar, byte by byte. It may end inside a character where one that begins so may come.
/// @thread one at a time
class GrammarState {
 public:
  explicit GrammarState(const Grammar& grammar);
  GrammarState(GrammarState&&) noexcept;
  GrammarState& operator=(GrammarState&&) noexcept;
  ~GrammarState();

  /// True where the text may go on with these bytes. What is too ambiguous to say counts as false: `take` says why. So
  /// does what is asked after 2^20 places of the rules were looked at since the last `take`.
  bool allows(std::string_view bytes);
  /// Goes on with bytes. @error invalid_argument: bytes that may not come; too_large: more than 2^14 ways to go on at
  /// once, or 2^20 places to look at for one character
  Status take(std::string_view bytes);
  /// True where bytes were refused because of one of these limits.
  bool met_limit() const noexcept;
  /// The text so far is whole; is_closed: nothing may follow.
  bool is_complete() const noexcept;
  bool is_closed() const noexcept;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace weft::text
