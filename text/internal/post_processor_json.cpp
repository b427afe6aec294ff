// SPDX-License-Identifier: Apache-2.0

#include "text/internal/tokenizer_parts.hpp"

#include "core/json_reader.hpp"
#include "core/printable.hpp"

#include <map>
#include <utility>

namespace weft::text {
namespace {

using Special = std::map<std::string, std::vector<TokenId>>;

Result<Special> read_special(JsonReader& reader) {
  Special special;
  const auto value = reader.find("special_tokens");
  if (!value || value->is_null()) return special;
  WEFT_TRY(JsonReader rows, value->object());
  for (const std::string& name : rows.keys()) {
    WEFT_TRY(JsonReader row, rows.object(name));
    (void)row.find("id");
    (void)row.find("tokens");
    WEFT_TRY(const auto ids, row.array("ids", 0, 64));
    for (const JsonValue& id : ids) {
      WEFT_TRY(const TokenId found, id.u32(0, kMaxTokenId));
      special[name].push_back(found);
    }
    WEFT_CHECK(row.finish());
  }
  return special;
}

/// {"SpecialToken": {...}} and {"Sequence": {"id": "A"}}, the text.
Status read_template(JsonReader& reader, Tokenizer::Parts& parts) {
  (void)reader.find("pair");
  WEFT_TRY(const Special special, read_special(reader));
  WEFT_TRY(const auto items, reader.array("single", 1, 64));
  bool has_text = false;
  for (const JsonValue& item : items) {
    WEFT_TRY(JsonReader one, item.object());
    if (one.find("Sequence")) {
      if (std::exchange(has_text, true)) return item.unexpected("one Sequence", Errc::unsupported);
      continue;
    }
    WEFT_TRY(JsonReader token, one.object("SpecialToken"));
    WEFT_TRY(const std::string name, token.string("id"));
    const auto found = special.find(name);
    if (found == special.end())
      return fail(Errc::not_found, token.path_of("id") + ": " + in_quotes(name) + " is not among the special_tokens");
    std::vector<TokenId>& ids = has_text ? parts.after : parts.before;
    ids.insert(ids.end(), found->second.begin(), found->second.end());
  }
  return {};
}

/// [token, id]
Result<TokenId> read_pair(JsonReader& reader, std::string_view key) {
  WEFT_TRY(const auto pair, reader.array(key, 2, 2));
  return pair[1].u32(0, kMaxTokenId);
}

}  // namespace

Status read_post_processor(const Json& json, const std::string& path, Tokenizer::Parts& parts) {
  if (json.is_null()) return {};
  WEFT_TRY(JsonReader reader, JsonReader::open(json, path));
  WEFT_TRY(const std::string type, reader.string("type"));
  if (type == "Sequence") {
    WEFT_TRY(const auto list, reader.array("processors", 0, 64));
    // Each wraps what the ones before it have made.
    for (const JsonValue& one : list) {
      Tokenizer::Parts inner;
      WEFT_CHECK(read_post_processor(one.raw(), one.path(), inner));
      parts.before.insert(parts.before.begin(), inner.before.begin(), inner.before.end());
      parts.after.insert(parts.after.end(), inner.after.begin(), inner.after.end());
    }
  } else if (type == "TemplateProcessing") {
    WEFT_CHECK(read_template(reader, parts));
  } else if (type == "BertProcessing" || type == "RobertaProcessing") {
    WEFT_TRY(const TokenId begin, read_pair(reader, "cls"));
    WEFT_TRY(const TokenId end, read_pair(reader, "sep"));
    parts.before.push_back(begin);
    parts.after.push_back(end);
    for (const char* const unused : {"trim_offsets", "add_prefix_space"}) (void)reader.find(unused);
  } else if (type == "ByteLevel") {  // offsets alone
    for (const char* const unused : {"add_prefix_space", "trim_offsets", "use_regex"}) (void)reader.find(unused);
  } else {
    return fail(Errc::unsupported, path + ": post-processor " + in_quotes(type) + " is not supported");
  }
  return reader.finish();
}

}  // namespace weft::text
