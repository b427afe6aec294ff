// SPDX-License-Identifier: Apache-2.0

#include "models/kept_tokenizer.hpp"

#include "models/internal/tokenizer_config.hpp"

#include "formats/entity/entity.hpp"
#include "formats/gguf/gguf.hpp"

#include "core/json.hpp"
#include "core/printable.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

namespace weft::models {
namespace {

Result<text::Tokenizer> tokenizer_of_keys(ByteSpan kept) {
  ByteBuffer bytes(kept.size());
  std::copy(kept.begin(), kept.end(), bytes.begin());
  WEFT_TRY(const formats::GgufFile keys, formats::decode_gguf(storage::MappedFile(std::move(bytes)), "tokenizer"));
  return text::Tokenizer::from_gguf(keys.metadata());
}

/// Tokens that end a text: a number below `rows`, -1 for none, or a list of these.
Status check_ends(const Json& config, const std::string& object, std::size_t rows) {
  const Json* const found = config.is_object() ? config.find("eos_token_id") : nullptr;
  if (!found || found->is_null()) return {};
  const auto is_token = [&](const Json& id) {
    return (id.is_natural() && id.get<std::uint64_t>() < rows) || id == Json(-1);
  };
  if (found->is_array() ? std::all_of(found->begin(), found->end(), is_token) : is_token(*found)) return {};
  return fail(Errc::out_of_range, object + ".eos_token_id: found " + printable(found->dump(), 60) +
                                      ", expected the number of a token below " + std::to_string(rows) +
                                      ", the model's rows, or a list of them");
}

/// A text, or a list of texts with names.
Status check_template(const Json& config, const std::string& object) {
  const Json* const found = config.is_object() ? config.find("chat_template") : nullptr;
  const auto is_named = [](const Json& row) {
    return row.is_object() && row.contains("name") && row["name"].is_string() && row.contains("template") &&
           row["template"].is_string();
  };
  if (!found || found->is_null() || found->is_string() ||
      (found->is_array() && std::all_of(found->begin(), found->end(), is_named)))
    return {};
  return fail(Errc::parse_failed, object + ".chat_template: found " + printable(found->dump(), 60) +
                                      ", expected a text, or a list of {\"name\": text, \"template\": text}");
}

}  // namespace

Result<std::optional<text::Tokenizer>> kept_tokenizer(const formats::EntityFile& file) {
  std::optional<text::Tokenizer> tokenizer;
  if (file.contains("model/tokenizer.json")) {
    WEFT_TRY(const formats::Tensor kept, file.find("model/tokenizer.json"));
    WEFT_TRY(tokenizer, text::Tokenizer::from_json(as_text(kept.bytes)));
  } else if (file.contains("model/tokenizer.gguf")) {
    WEFT_TRY(const formats::Tensor kept, file.find("model/tokenizer.gguf"));
    WEFT_TRY(tokenizer, tokenizer_of_keys(kept.bytes));
  }
  return tokenizer;
}

Status check_tokenizer_fits(const text::Tokenizer& tokenizer, const std::string& tokenizer_path,
                            const std::string& model_path, std::size_t rows) {
  if (tokenizer.size() <= rows) return {};
  return fail(Errc::shape_mismatch, tokenizer_path + ": " + std::to_string(tokenizer.size()) + " tokens, " +
                                        model_path + " has rows for " + std::to_string(rows) +
                                        "; this is not the model's tokenizer");
}

Status check_kept_files(const ModelFiles& opened, const std::string& folder, std::size_t rows,
                        std::vector<std::string>& notes) {
  WEFT_CHECK(check_ends(opened.config, opened.is_gguf ? opened.path : opened.path + "/config.json", rows));
  bool has_tokenizer = false;
  for (const KeptFile& kept : opened.kept) {
    const std::string path = kept.name == "tokenizer.gguf" ? opened.path : folder + "/" + kept.name;
    if (kept.name == "tokenizer.json" || kept.name == "tokenizer.gguf") {
      has_tokenizer = true;
      const auto tokenizer = kept.name == "tokenizer.gguf" ? tokenizer_of_keys(as_bytes(*kept.bytes))
                                                           : text::Tokenizer::from_json(*kept.bytes, path);
      if (tokenizer)
        WEFT_CHECK(check_tokenizer_fits(*tokenizer, path, opened.path, rows));
      else if (tokenizer.error().code() == Errc::unsupported || kept.name == "tokenizer.gguf")
        notes.push_back("this tokenizer is not usable, --tokenizer gives another: " + tokenizer.error().text());
      else
        return fail(Error(tokenizer.error()));
    } else if (kept.name == "tokenizer_config.json") {
      WEFT_TRY(const Json config, internal::parse_tokenizer_config(*kept.bytes, path));
      WEFT_CHECK(check_template(config, path));
    } else if (kept.name == "generation_config.json") {
      WEFT_TRY(const Json config, parse_json(*kept.bytes, path));
      WEFT_CHECK(check_ends(config, path, rows));
    }
  }
  if (has_tokenizer) return {};
  std::error_code unknown;
  const bool is_other = std::filesystem::is_regular_file(folder + "/tokenizer.model", unknown);
  notes.push_back("there is no tokenizer" +
                  std::string(is_other ? ".json, and tokenizer.model (SentencePiece's) is not read; in transformers "
                                         "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER) writes one"
                                       : "; texts need --tokenizer"));
  return {};
}

}  // namespace weft::models
