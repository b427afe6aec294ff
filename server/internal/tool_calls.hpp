// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "text/chat_template.hpp"
#include "text/grammar.hpp"

#include "core/json.hpp"
#include "core/json_reader.hpp"
#include "core/result.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::server::internal {

/// Functions that a client offers a model, and what of them it may call.
struct ChatTools {
  Json offered;                          ///< as a chat template gets them; null: none
  bool must_call = false;                ///< the text is a call, and nothing else
  std::optional<text::Grammar> grammar;  ///< of a text that must be a call
  bool is_on() const noexcept { return offered.is_array(); }
};

/// "tools", "tool_choice", "parallel_tool_calls". A model that may call but need not says so in its template's own
/// words: those templates that spell calls as <tool_call>JSON</tool_call>.
/// @error invalid_argument, parse_failed, not_found: no tool, or a choice that is none; unsupported: a template that
///        does not spell calls so
Result<ChatTools> read_tools(JsonReader& body, const text::ChatTemplate* chat);

/// A call that a model wrote.
struct ToolCall {
  std::string name, arguments;
};
/// Finds calls in a text as it comes.
class ToolCallReader {
 public:
  explicit ToolCallReader(bool must_call) : must_call_(must_call) {}
  /// Text that is no call for certain.
  std::string push(std::string_view text);
  /// The end: what is left that is no call. Then `calls` has all.
  std::string finish();
  const std::vector<ToolCall>& calls() const noexcept { return calls_; }

 private:
  const bool must_call_;
  std::string kept_;
  std::vector<ToolCall> calls_;
};

}  // namespace weft::server::internal
