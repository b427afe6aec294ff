// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "core/json.hpp"
#include "core/result.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::text {

/// Variables of a chat template, named as transformers names them.
struct ChatInput {
  Json messages = Json::array();  ///< objects: role, content (a text or a list of parts), and what the template knows
  Json tools, documents;          ///< null: none
  bool add_generation_prompt = true;
  std::string bos, eos;                       ///< bos_token and eos_token; empty: not defined
  std::map<std::string, std::string> tokens;  ///< further names of the model's own, such as pad_token
  Json extra = Json::object();                ///< further variables, such as enable_thinking
  std::optional<std::int64_t> now;            ///< strftime_now's clock, seconds since 1970 in UTC; else the local time
};

/// A conversation as the text that a model goes on from.
struct RenderedChat {
  std::string text;
  /// Bytes [first, second) that come from messages, tools, documents or extra variables, ascending and apart. The rest
  /// is the template's own: it alone may spell special tokens (EncodeOptions::plain).
  std::vector<std::pair<std::size_t, std::size_t>> given;
};

/// A chat template: the part of Jinja that models' templates use, with the settings of transformers (docs/chat.md).
/// Limits: 1 MiB of source, 100 levels of nesting, 10^6 steps, 16 MiB of output. No files; a clock by strftime_now.
/// Error texts begin with "chat template:line:column: ".
/// @thread any: immutable
class ChatTemplate {
 public:
  /// @error parse_failed: what is no Jinja; unsupported: a tag, filter or test that is not known; too_large
  static Result<ChatTemplate> parse(std::string source);
  /// One of `built_in_names`. @error unknown_name
  static Result<ChatTemplate> built_in(std::string_view name);
  static std::vector<std::string_view> built_in_names();

  /// @error invalid_argument: what Jinja or Python would raise, raise_exception too; too_large: a limit
  Result<std::string> render(const ChatInput& input) const;
  /// The same text, and which of it was given.
  Result<RenderedChat> render_marked(const ChatInput& input) const;
  const std::string& source() const noexcept;

  struct Parts;

 private:
  explicit ChatTemplate(std::shared_ptr<const Parts> parts) : parts_(std::move(parts)) {}
  std::shared_ptr<const Parts> parts_;
};

}  // namespace weft::text
