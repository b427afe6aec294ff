// SPDX-License-Identifier: Apache-2.0

#include "cli/inspect_tokenizer.hpp"

#include "cli/json_line.hpp"
#include "cli/table.hpp"
#include "cli/terminal.hpp"
#include "cli/text_format.hpp"

#include "models/chat_format.hpp"
#include "models/generation_config.hpp"

#include "storage/file_system.hpp"
#include "text/tokenizer.hpp"

#include "core/json.hpp"
#include "core/printable.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

namespace weft::cli {
namespace {

constexpr std::size_t kMostTokenizer = std::size_t{128} << 20;
constexpr std::size_t kListedAdded = 64;   // tokens
constexpr std::size_t kLongestStep = 256;  // characters of a step
constexpr JsonLimits kTokenizerLimits{.max_bytes = kMostTokenizer, .max_depth = 32, .max_values = std::size_t{1} << 24};
constexpr std::pair<const char*, const char*> kSteps[] = {{"normalizer", "normalizers"},
                                                          {"pre_tokenizer", "pretokenizers"},
                                                          {"post_processor", "processors"},
                                                          {"decoder", "decoders"}};

/// The content of a file beside another; nothing: there is none.
std::optional<std::string> beside(const std::string& path, const char* name) {
  const std::string other = storage::parent_path(path) + "/" + name;
  std::error_code unknown;
  if (!std::filesystem::is_regular_file(other, unknown)) return std::nullopt;
  const auto bytes = storage::real_file_system().read(other, std::size_t{16} << 20);
  return bytes ? std::optional(std::string(as_text(*bytes))) : std::nullopt;
}

/// A step as it is, with long texts as their length.
Json shortened(const Json& value) {
  if (value.is_string() && value.text().size() > kLongestStep) return {{"characters", value.text().size()}};
  if (!value.is_object()) return value;
  Json made = Json::object();
  for (const auto* pair : value.members_as_set()) made[pair->first] = shortened(pair->second);
  return made;
}
/// Steps in order, those of sequences one after the other.
void add_steps(const Json& step, const char* inside, Json& to) {
  if (!step.is_object()) return;
  const Json* const inner = step.find(inside);
  if (inner && inner->is_array())
    for (const Json& one : *inner) add_steps(one, inside, to);
  else
    to.push_back(shortened(step));
}

/// Place of the conversations' template beside a file, and whether it is understood; null: there is none.
Json template_of(const std::string& path, const std::optional<text::Tokenizer>& tokenizer) {
  const auto own = beside(path, "chat_template.jinja"), config = beside(path, "tokenizer_config.json");
  const auto format = models::read_chat_format({own ? *own : std::string_view(), config ? *config : std::string_view()},
                                               tokenizer ? &*tokenizer : nullptr);
  if (!format || !format->is_found()) return {};
  return {{"file", own ? "chat_template.jinja" : "tokenizer_config.json"},
          {"tools", format->tools.has_value()},
          {"refused", format->refused.empty() ? Json() : Json(format->refused)}};
}

Result<Json> describe_tokenizer(const std::string& path) {
  WEFT_TRY(const ByteBuffer bytes, storage::real_file_system().read(path, kMostTokenizer));
  WEFT_TRY(const Json file, parse_json(as_text(bytes), path, kTokenizerLimits));
  const Json* const model = file.is_object() ? file.find("model") : nullptr;
  if (!model || !model->is_object()) return fail(Errc::parse_failed, path + ": a tokenizer without a model");
  const auto count = [&](const char* key) {
    const Json* const found = model->find(key);
    return found && (found->is_object() || found->is_array()) ? Json(found->size()) : Json();
  };
  const Json* const type = model->find("type");
  Json d{{"kind", "tokenizer"},
         {"file", path},
         {"file_bytes", bytes.size()},
         {"model", type && type->is_string() ? *type : Json(model->contains("merges") ? "BPE" : "")},
         {"vocabulary", count("vocab")},
         {"merges", count("merges")}};
  Json options = Json::object();
  for (const auto* pair : model->members_as_set())
    if (pair->first != "type" && pair->first != "vocab" && pair->first != "merges" && !pair->second.is_null())
      options[pair->first] = shortened(pair->second);
  d["options"] = std::move(options);
  for (const auto& [key, inside] : kSteps) {
    Json steps = Json::array();
    if (const Json* const step = file.find(key)) add_steps(*step, inside, steps);
    d[key] = std::move(steps);
  }
  const Json* const added = file.find("added_tokens");
  d["added_tokens"] = added && added->is_array() ? *added : Json::array();
  for (const char* const key : {"truncation", "padding"}) d[key] = file.contains(key) ? file[key] : Json();
  const auto made = text::Tokenizer::from_json(as_text(bytes), path);
  const std::optional<text::Tokenizer> tokenizer = made ? std::optional(*made) : std::nullopt;
  d["tokens"] = tokenizer ? Json(tokenizer->size()) : Json();
  Json around = Json::array();
  if (tokenizer)
    if (const auto ids = tokenizer->encode(""))
      for (const text::TokenId id : *ids)
        if (const std::string* const token = tokenizer->token(id)) around.push_back(*token);
  d["adds"] = std::move(around);
  d["template"] = template_of(path, tokenizer);
  const auto sampling = beside(path, "generation_config.json");
  const auto draw = parse_json(sampling ? *sampling : "null", "generation_config.json");
  d["sampling"] = draw ? models::described_sampling(*draw) : draw.error().text();
  d["warnings"] = Json::array();
  if (!made) d["warnings"].push_back("weft tokenize: " + made.error().text());
  return d;
}

void print_steps(const Json& d, const char* key, const char* title) {
  for (const Json& step : d[key]) {
    const Json* const type = step.find("type");
    std::string options;
    for (const auto* pair : step.members_as_set())
      if (pair->first != "type") options += (options.empty() ? "" : ", ") + pair->first + " " + pair->second.dump();
    std::printf("%-14s %s%s%s\n", title, type && type->is_string() ? printable(type->text()).c_str() : "?",
                options.empty() ? "" : ": ", printable(options, kLongestStep).c_str());
    title = "";
  }
  if (d[key].empty()) std::printf("%-14s none\n", title);
}

void print_tokenizer(const Json& d) {
  const Terminal terminal = Terminal::of(STDOUT_FILENO);
  std::printf("%s\ntokenizer\n\n", terminal.styled(escaped(d["file"].text()), "1").c_str());
  std::printf("%-14s %s, %s in the vocabulary%s\n", "model", printable(d["model"].text()).c_str(),
              d["vocabulary"].is_null() ? "none" : grouped(d["vocabulary"]).c_str(),
              d["merges"].is_null() ? "" : (", " + grouped(d["merges"]) + " merges").c_str());
  if (!d["tokens"].is_null()) std::printf("%-14s %s\n", "tokens", grouped(d["tokens"]).c_str());
  for (const auto* pair : d["options"].members_as_set())
    std::printf("%-14s %s %s\n", "option", printable(pair->first).c_str(),
                printable(pair->second.dump(), kLongestStep).c_str());
  for (const auto& [key, title] : {std::pair("normalizer", "normalizer"), std::pair("pre_tokenizer", "pre-tokenizer"),
                                   std::pair("post_processor", "post-processor"), std::pair("decoder", "decoder")})
    print_steps(d, key, title);
  std::string around;
  for (const Json& token : d["adds"]) around += (around.empty() ? "" : " ") + printable(token.text());
  std::printf("%-14s %s\n", "adds to a text", around.empty() ? "nothing" : around.c_str());
  if (d["template"].is_null())
    std::printf("%-14s none beside it\n", "template");
  else
    std::printf("%-14s %s%s%s%s\n", "template", d["template"]["file"].text().c_str(),
                d["template"]["tools"] == Json(true) ? ", and one for tools" : "",
                d["template"]["refused"].is_null() ? "" : ", not understood: ",
                d["template"]["refused"].is_null() ? "" : escaped(d["template"]["refused"].text()).c_str());
  if (!d["sampling"].text().empty()) std::printf("%-14s %s\n", "sampling", escaped(d["sampling"].text()).c_str());
  std::printf("\n");
  using Align = Table::Align;
  Table table({{"id", Align::right}, {"added token"}, {"kind"}});
  std::size_t listed = 0;
  for (const Json& token : d["added_tokens"]) {
    if (!token.is_object() || listed++ == kListedAdded) break;
    const Json* const content = token.find("content");
    table.add({token.contains("id") ? token["id"].dump() : "-",
               content && content->is_string() ? printable(content->text()) : "-",
               token.contains("special") && token["special"] == Json(true) ? "special" : ""});
  }
  if (!d["added_tokens"].empty()) std::printf("%s\n", table.text(terminal.columns()).c_str());
  if (d["added_tokens"].size() > kListedAdded)
    std::printf("and %s more added tokens\n\n", grouped(d["added_tokens"].size() - kListedAdded).c_str());
  for (const Json& warning : d["warnings"]) std::printf("warning        %s\n", escaped(warning.text()).c_str());
}

}  // namespace

bool is_tokenizer_file(const std::string& path) {
  std::error_code unknown;
  if (!std::filesystem::is_regular_file(path, unknown)) return false;
  if (std::filesystem::path(path).filename() == "tokenizer.json") return true;
  if (!path.ends_with(".json")) return false;
  const auto bytes = storage::real_file_system().read(path, kMostTokenizer);
  // Networks may be large, and have no such key.
  if (!bytes || as_text(*bytes).find("\"added_tokens\"") == std::string_view::npos) return false;
  const auto file = parse_json(as_text(*bytes), path, kTokenizerLimits);
  return file && file->is_object() && file->contains("added_tokens") && !file->contains("weft");
}

Status inspect_tokenizer(const std::string& path, bool json) {
  WEFT_TRY(const Json description, describe_tokenizer(path));
  if (json)
    print_json(description);
  else
    print_tokenizer(description);
  return {};
}

}  // namespace weft::cli
