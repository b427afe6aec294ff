// SPDX-License-Identifier: Apache-2.0

#include "models/internal/exported_tokenizer.hpp"

#include "models/internal/tokenizer_config.hpp"

#include "formats/gguf/gguf.hpp"
#include "text/tokenizer.hpp"
#include "text/tokenizer_conversion.hpp"

#include <algorithm>
#include <string_view>

namespace weft::models::internal {
namespace {

constexpr std::string_view kKept = "model/";

Result<std::string> kept_text(const formats::EntityFile& file, const std::string& name) {
  if (!file.contains(name)) return std::string();
  WEFT_TRY(const formats::Tensor kept, file.find(name));
  return std::string(as_text(kept.bytes));
}

Result<formats::GgufFile> kept_keys(const formats::EntityFile& file) {
  WEFT_TRY(const formats::Tensor kept, file.find("model/tokenizer.gguf"));
  ByteBuffer bytes(kept.bytes.size());
  std::copy(kept.bytes.begin(), kept.bytes.end(), bytes.begin());
  return formats::decode_gguf(storage::MappedFile(std::move(bytes)), "tokenizer");
}

/// The template of a tokenizer_config.json: the text, or the one named "default" of a list.
std::string template_of(const Json& config) {
  const Json* const found = config.is_object() ? config.find("chat_template") : nullptr;
  if (!found) return "";
  if (found->is_string()) return found->text();
  for (const Json& row : *found)
    if (row["name"] == Json("default") && row["template"].is_string()) return row["template"].text();
  return "";
}

/// Texts of the tokens that tokenizer_config.json names, else of the ids that the model's description does.
text::SpecialTokens special_tokens(const Json& tokenizer_config, const Json& config, std::string_view tokenizer) {
  text::SpecialTokens special;
  if (tokenizer_config.is_object()) {
    special.begin = text_of_token(tokenizer_config["bos_token"]);
    special.end = text_of_token(tokenizer_config["eos_token"]);
    special.unknown = text_of_token(tokenizer_config["unk_token"]);
    special.padding = text_of_token(tokenizer_config["pad_token"]);
  }
  const auto parsed = text::Tokenizer::from_json(tokenizer);
  const auto take = [&](const char* key, std::string& to) {
    const Json* id = config.is_object() ? config.find(key) : nullptr;
    if (id && id->is_array() && !id->empty()) id = &id->front();
    if (!to.empty() || !parsed || !id || !id->is_natural()) return;
    if (const std::string* const token = parsed->token(id->get<text::TokenId>())) to = *token;
  };
  take("bos_token_id", special.begin);
  take("eos_token_id", special.end);
  return special;
}

}  // namespace

Status add_tokenizer_keys(const formats::EntityFile& file, const Json& config, std::size_t vocabulary,
                          formats::GgufMetadata& to, std::vector<std::string>& notes) {
  if (file.contains("model/tokenizer.gguf")) {
    WEFT_TRY(const formats::GgufFile keys, kept_keys(file));
    for (const auto& [key, value] : keys.metadata().pairs())
      if (key.starts_with("tokenizer.")) to.set(key, value);
    return {};
  }
  const auto without = [&](const std::string& why) -> Status {
    to.set("tokenizer.ggml.model", std::string("no_vocab"));
    notes.push_back("the GGUF file has no tokenizer: " + why);
    return {};
  };
  WEFT_TRY(const std::string tokenizer, kept_text(file, "model/tokenizer.json"));
  if (tokenizer.empty()) return without("the model was imported without one");
  WEFT_TRY(const std::string config_text, kept_text(file, "model/tokenizer_config.json"));
  Json tokenizer_config;
  if (!config_text.empty()) {
    WEFT_TRY(tokenizer_config, parse_tokenizer_config(config_text));
  }
  const text::SpecialTokens special = special_tokens(tokenizer_config, config, tokenizer);
  if (const Status added = text::add_gguf_tokenizer(tokenizer, special, vocabulary, to); !added)
    return without(added.error().text());
  WEFT_TRY(std::string source, kept_text(file, "model/chat_template.jinja"));
  if (source.empty()) source = template_of(tokenizer_config);
  if (!source.empty()) to.set("tokenizer.chat_template", source);
  return {};
}

Result<std::vector<std::pair<std::string, std::string>>> tokenizer_files(const formats::EntityFile& file,
                                                                         std::vector<std::string>& notes) {
  std::vector<std::pair<std::string, std::string>> files;
  for (const formats::Tensor& tensor : file.tensors()) {
    if (!tensor.name.starts_with(kKept) || tensor.name.ends_with(".gguf")) continue;
    WEFT_TRY(std::string text, kept_text(file, tensor.name));
    files.emplace_back(tensor.name.substr(kKept.size()), std::move(text));
  }
  if (file.contains("model/tokenizer.json")) return files;
  if (!file.contains("model/tokenizer.gguf")) {
    notes.emplace_back("the folder has no tokenizer.json: the model was imported without a tokenizer");
    return files;
  }
  WEFT_TRY(const formats::GgufFile keys, kept_keys(file));
  text::SpecialTokens special;
  auto made = text::tokenizer_json_of(keys.metadata(), special);
  if (!made) {
    notes.push_back("the folder has no tokenizer.json: " + made.error().text());
    return files;
  }
  files.emplace_back("tokenizer.json", *std::move(made));
  Json config{{"tokenizer_class", "PreTrainedTokenizerFast"}, {"clean_up_tokenization_spaces", false}};
  const auto set = [&](const char* key, const std::string& text) {
    if (!text.empty()) config[key] = text;
  };
  set("bos_token", special.begin);
  set("eos_token", special.end);
  set("unk_token", special.unknown);
  set("pad_token", special.padding);
  WEFT_TRY(const std::string source, keys.metadata().text_or("tokenizer.chat_template", ""));
  set("chat_template", source);
  WEFT_TRY(std::string text, write_json(config, 2));
  files.emplace_back("tokenizer_config.json", std::move(text));
  return files;
}

}  // namespace weft::models::internal
