// SPDX-License-Identifier: Apache-2.0

#include "models/chat_format.hpp"

#include "models/internal/tokenizer_config.hpp"

#include "formats/gguf/gguf_metadata.hpp"

#include "core/log.hpp"
#include "core/printable.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <span>
#include <utility>

namespace weft::models {
namespace {

void take_template(ChatFormat& format, std::optional<text::ChatTemplate>& place, std::string_view source,
                   std::string_view where) {
  auto parsed = text::ChatTemplate::parse(std::string(source));
  if (parsed)
    place = *std::move(parsed);
  else if (format.refused.empty())
    format.refused = std::string(where) + ": " + parsed.error().text();
}

Status read_tokenizer_config(std::string_view json, ChatFormat& format, bool has_template) {
  WEFT_TRY(const Json config, internal::parse_tokenizer_config(json));
  for (const auto& [key, value] : config.members()) {
    if (!key.ends_with("_token")) continue;
    const std::string text = internal::text_of_token(value);
    if (key == "bos_token")
      format.bos = text;
    else if (key == "eos_token")
      format.eos = text;
    else if (!text.empty())
      format.tokens[key] = text;
  }
  const Json* const found = config.is_object() ? config.find("chat_template") : nullptr;
  if (!found || has_template) return {};
  constexpr std::string_view kWhere = "tokenizer_config.json, chat_template";
  if (found->is_string()) take_template(format, format.chat, found->text(), kWhere);
  if (!found->is_array()) return {};
  for (const Json& row : *found) {
    const Json *const name = row.is_object() ? row.find("name") : nullptr, *const source = row.is_object()
                                                                                               ? row.find("template")
                                                                                               : nullptr;
    if (!name || !name->is_string() || !source || !source->is_string()) continue;
    if (name->text() == "tool_use")
      take_template(format, format.tools, source->text(), kWhere);
    else if (name->text() == "default" || found->size() == 1)
      take_template(format, format.chat, source->text(), kWhere);
  }
  return {};
}

Status read_gguf(const formats::GgufMetadata& metadata, const text::Tokenizer* tokenizer, ChatFormat& format) {
  WEFT_TRY(const std::string source, metadata.text_or("tokenizer.chat_template", ""));
  if (!source.empty()) take_template(format, format.chat, source, "tokenizer.chat_template");
  WEFT_TRY(const std::string tools, metadata.text_or("tokenizer.chat_template.tool_use", ""));
  if (!tools.empty()) take_template(format, format.tools, tools, "tokenizer.chat_template.tool_use");
  constexpr std::pair<const char*, const char*> kTokens[] = {{"bos_token", "tokenizer.ggml.bos_token_id"},
                                                             {"eos_token", "tokenizer.ggml.eos_token_id"},
                                                             {"unk_token", "tokenizer.ggml.unknown_token_id"},
                                                             {"pad_token", "tokenizer.ggml.padding_token_id"}};
  for (const auto& [name, key] : kTokens) {
    if (!tokenizer || !metadata.contains(key)) continue;
    WEFT_TRY(const std::uint64_t id, metadata.natural(key, UINT32_MAX));
    const std::string* const text = tokenizer->token(static_cast<text::TokenId>(id));
    if (!text) continue;
    if (std::string_view(name) == "bos_token")
      format.bos = *text;
    else if (std::string_view(name) == "eos_token")
      format.eos = *text;
    else
      format.tokens[name] = *text;
  }
  return {};
}

}  // namespace

Result<ChatFormat> read_chat_format(const ChatFiles& files, const text::Tokenizer* tokenizer) {
  ChatFormat format;
  if (files.gguf) WEFT_CHECK(read_gguf(*files.gguf, tokenizer, format));
  if (!files.chat_template.empty()) take_template(format, format.chat, files.chat_template, "chat_template.jinja");
  if (!files.tokenizer_config.empty())
    if (const Status read = read_tokenizer_config(files.tokenizer_config, format, !files.chat_template.empty()); !read)
      format.refused = read.error().text();
  if (!format.chat && format.tools) format.chat = format.tools;
  return format;
}

std::vector<text::TokenId> known_ends(const text::Tokenizer& tokenizer) {
  std::vector<text::TokenId> ends;
  for (const char* const text : {"<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<end_of_turn>", "<|endoftext|>",
                                 "<|end_of_text|>", "<|eom_id|>", "<EOT>", "<eos>", "</s>"})
    if (const auto id = tokenizer.find(text); id && tokenizer.is_special(*id)) ends.push_back(*id);
  return ends;
}

namespace {

/// Tells once in a process of a template that begins a text twice, which models were not taught.
void warn_of_two_begins(std::span<const text::TokenId> ids, const text::Tokenizer& tokenizer, const std::string& bos) {
  static std::atomic<bool> is_told = false;
  const auto begin = bos.empty() ? std::nullopt : tokenizer.find(bos);
  if (!begin || ids.size() < 2 || ids[0] != *begin || ids[1] != *begin || is_told.exchange(true)) return;
  log_warn("chat template: a conversation begins with two tokens " + in_quotes(bos) + "; one is usual");
}

}  // namespace

Result<std::vector<text::TokenId>> encode_chat(const ChatFormat& format, const text::Tokenizer& tokenizer,
                                               text::ChatInput input) {
  if (!format.chat) {
    if (!format.refused.empty()) return fail(Errc::unsupported, "the model's own chat template: " + format.refused);
    std::string names;
    for (const std::string_view name : text::ChatTemplate::built_in_names())
      names += (names.empty() ? "" : ", ") + std::string(name);
    return fail(Errc::not_found, "the model has no chat template; those that are built in: " + names);
  }
  if (input.bos.empty()) input.bos = format.bos;
  if (input.eos.empty()) input.eos = format.eos;
  for (const auto& [name, text] : format.tokens) input.tokens.emplace(name, text);
  const bool has_tools = input.tools.is_array() && !input.tools.empty();
  WEFT_TRY(const text::RenderedChat rendered,
           (has_tools && format.tools ? *format.tools : *format.chat).render_marked(input));
  // The template spells the tokens around a text.
  WEFT_TRY(auto ids,
           tokenizer.encode(rendered.text, {.add_special = false, .parse_special = true, .plain = rendered.given}));
  warn_of_two_begins(ids, tokenizer, input.bos);
  return ids;
}

}  // namespace weft::models
