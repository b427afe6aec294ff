// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "formats/fwd.hpp"
#include "text/chat_template.hpp"
#include "text/tokenizer.hpp"

#include "core/json.hpp"
#include "core/result.hpp"

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::models {

/// A model's way to spell conversations: its own template, and the texts of tokens that stand in it.
struct ChatFormat {
  std::optional<text::ChatTemplate> chat;   ///< the one named "default", or the only one
  std::optional<text::ChatTemplate> tools;  ///< the one named "tool_use", for conversations with tools
  std::string refused;                      ///< of a template that is there and not understood: why
  std::string bos, eos;
  std::map<std::string, std::string> tokens;

  bool is_found() const noexcept { return chat.has_value() || !refused.empty(); }
};

/// Files of a model that say how conversations are spelled; empty: not there.
struct ChatFiles {
  std::string_view chat_template;     ///< chat_template.jinja
  std::string_view tokenizer_config;  ///< tokenizer_config.json
  const formats::GgufMetadata* gguf = nullptr;
};

/// chat_template.jinja comes before tokenizer_config.json's chat_template, a text or a list of {name, template}. A
/// template that is not understood, or a file that is no JSON, is no failure here: `refused` says why.
/// @error parse_failed: keys of a GGUF file of another kind
Result<ChatFormat> read_chat_format(const ChatFiles& files, const text::Tokenizer* tokenizer);

/// Special tokens whose text says that they end a text or a turn, as llama.cpp knows them: <|im_end|>, <|eot_id|>, ...
std::vector<text::TokenId> known_ends(const text::Tokenizer& tokenizer);

/// A conversation as the model's tokens. Special tokens are those that the template spells; the same characters within
/// messages, tools, documents or extra variables stay text.
/// @error not_found: no template, with those that are built in; unsupported: one that is not understood;
///        as ChatTemplate::render and Tokenizer::encode
Result<std::vector<text::TokenId>> encode_chat(const ChatFormat& format, const text::Tokenizer& tokenizer,
                                               text::ChatInput input);

}  // namespace weft::models
