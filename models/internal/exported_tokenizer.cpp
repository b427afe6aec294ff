// SPDX-License-Identifier: Apache-2.0

#include "models/internal/exported_tokenizer.hpp"

#include "models/chat_format.hpp"
#include "models/internal/tokenizer_config.hpp"

#include "formats/gguf/gguf.hpp"
#include "text/tokenizer.hpp"
#include "text/tokenizer_conversion.hpp"

#include "core/printable.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

namespace weft::models::internal {
namespace {

constexpr std::string_view kKept = "model/";
constexpr std::string_view kTemplate = "tokenizer.chat_template";
constexpr std::array<const char*, 3> kEnds{"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                           "tokenizer.ggml.eom_token_id"};

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

/// A template's name as gguf-py spells it in a key.
std::string key_of(std::string name) {
  for (char& c : name)
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'))) c = '_';
  return name;
}

/// Templates of a tokenizer_config.json: a text, or a list of which one is named "default".
void set_templates(const Json& config, formats::GgufMetadata& to) {
  const Json* const found = config.is_object() ? config.find("chat_template") : nullptr;
  if (!found) return;
  if (found->is_string()) to.set(std::string(kTemplate), found->text());
  std::vector<std::string> names;
  for (const Json& row : *found) {
    if (!row["template"].is_string() || !row["name"].is_string()) continue;
    const std::string name = key_of(row["name"].text());
    const bool is_named = name != "default" && found->size() != 1;
    if (is_named) names.push_back(name);
    to.set(std::string(kTemplate) + (is_named ? "." + name : ""), row["template"].text());
  }
  if (!names.empty()) to.set("tokenizer.chat_templates", formats::GgufArray(std::move(names)));
}

/// The way back.
Result<Json> templates_of(const formats::GgufMetadata& keys) {
  WEFT_TRY(const std::string source, keys.text_or(kTemplate, ""));
  const std::string prefix = std::string(kTemplate) + ".";
  Json named = Json::array();
  if (!source.empty()) named.push_back(Json{{"name", "default"}, {"template", source}});
  const std::size_t first = named.size();
  for (const auto& [key, value] : keys.pairs())
    if (const auto* const text = key.starts_with(prefix) ? std::get_if<std::string>(&value) : nullptr)
      named.push_back(Json{{"name", key.substr(prefix.size())}, {"template", *text}});
  return named.size() == first ? (source.empty() ? Json() : Json(source)) : named;
}

/// Ids under `eos_token_id`, a number or a list.
void add_ids(const Json& config, std::vector<text::TokenId>& ids) {
  const Json* const found = config.is_object() ? config.find("eos_token_id") : nullptr;
  if (!found) return;
  const auto add = [&](const Json& id) {
    if (id.is_natural() && std::find(ids.begin(), ids.end(), id.get<text::TokenId>()) == ids.end())
      ids.push_back(id.get<text::TokenId>());
  };
  add(*found);
  for (const Json& id : *found) add(id);
}

/// Tokens that end a text: GGUF has three keys, and programs know some tokens by their text.
void set_ends(std::vector<text::TokenId> ends, std::string_view tokenizer, formats::GgufMetadata& to,
              std::vector<std::string>& notes) {
  const auto parsed = text::Tokenizer::from_json(tokenizer);
  if (!parsed) return;
  const auto is_known = [known = known_ends(*parsed)](text::TokenId id) {
    return std::find(known.begin(), known.end(), id) != known.end();
  };
  std::stable_partition(ends.begin(), ends.end(), [&](text::TokenId id) { return !is_known(id); });
  std::vector<const char*> free{kEnds.begin(), kEnds.end()};
  std::erase_if(free, [&](const char* key) { return to.contains(key); });
  for (const char* const key : kEnds)
    if (to.contains(key))
      std::erase_if(ends, [&](text::TokenId id) { return *to.find(key) == formats::GgufValue(std::uint32_t{id}); });
  std::string left;
  for (const text::TokenId id : ends) {
    if (!free.empty()) {
      to.set(free.front(), std::uint32_t{id});
      free.erase(free.begin());
    } else if (!is_known(id)) {
      const std::string* const token = parsed->token(id);
      left += (left.empty() ? "" : ", ") + std::to_string(id) + (token ? " " + in_quotes(*token) : "");
    }
  }
  if (!left.empty()) notes.push_back("GGUF has no more keys for tokens that end a text: " + left);
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
  WEFT_TRY(const std::string source, kept_text(file, "model/chat_template.jinja"));
  if (source.empty())
    set_templates(tokenizer_config, to);
  else
    to.set(std::string(kTemplate), source);
  WEFT_TRY(const std::string generation, kept_text(file, "model/generation_config.json"));
  std::vector<text::TokenId> ends;
  add_ids(config, ends);
  if (!generation.empty()) {
    WEFT_TRY(const Json defaults, parse_json(generation, "generation_config.json"));
    add_ids(defaults, ends);
  }
  set_ends(std::move(ends), tokenizer, to, notes);
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
  WEFT_TRY(const Json templates, templates_of(keys.metadata()));
  if (!templates.is_null()) config["chat_template"] = templates;
  WEFT_TRY(std::string text, write_json(config, 2));
  files.emplace_back("tokenizer_config.json", std::move(text));
  return files;
}

Result<Json> token_ids(const formats::EntityFile& file) {
  Json ids{{"bos_token_id", nullptr}, {"eos_token_id", nullptr}, {"pad_token_id", nullptr}};
  if (!file.contains("model/tokenizer.gguf")) return ids;
  WEFT_TRY(const formats::GgufFile keys, kept_keys(file));
  const auto* const tokens = keys.metadata().find("tokenizer.ggml.tokens");
  const auto* const listed = tokens ? std::get_if<formats::GgufArray>(tokens) : nullptr;
  // A number that is no token's ends and begins nothing, and no reader takes it.
  const auto read = [&](const char* key) -> Result<Json> {
    if (!keys.metadata().contains(key)) return Json();
    WEFT_TRY(const std::uint64_t id, keys.metadata().natural(key, UINT32_MAX));
    return listed && id >= formats::size(*listed) ? Json() : Json(id);
  };
  WEFT_TRY(ids["bos_token_id"], read("tokenizer.ggml.bos_token_id"));
  WEFT_TRY(ids["pad_token_id"], read("tokenizer.ggml.padding_token_id"));
  Json ends = Json::array();
  for (const char* const key : kEnds) {
    WEFT_TRY(Json id, read(key));
    if (!id.is_null() && std::find(ends.begin(), ends.end(), id) == ends.end()) ends.push_back(std::move(id));
  }
  if (!ends.empty()) ids["eos_token_id"] = ends.size() == 1 ? ends.front() : ends;
  return ids;
}

}  // namespace weft::models::internal
