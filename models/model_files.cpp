// SPDX-License-Identifier: Apache-2.0

#include "models/model_files.hpp"

#include "models/internal/gguf_config.hpp"
#include "models/internal/loom_model.hpp"

#include "formats/entity/entity.hpp"
#include "formats/gguf/gguf_parts.hpp"
#include "formats/loom/loom_entity.hpp"
#include "formats/safetensors/safetensors_shards.hpp"
#include "storage/file_system.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>
#include <utility>
#include <variant>

namespace weft::models {
namespace {

constexpr std::size_t kLargestFile = std::size_t{1} << 44;
constexpr std::size_t kLargestText = std::size_t{128} << 20;
constexpr std::array<std::string_view, 4> kKeptFiles{"tokenizer.json", "tokenizer_config.json",
                                                     "generation_config.json", "chat_template.jinja"};

bool is_regular_file(const std::string& path) {
  std::error_code unknown;
  return std::filesystem::is_regular_file(path, unknown);
}

Failure unknown_family(const std::string& object, const std::string& found) {
  return fail(Errc::unknown_name,
              object + ": '" + found + "' is no family that is imported; expected one of " + family_names());
}

/// Words about a file that is none of a model, by its first bytes; empty: about any other.
std::string_view words_of_other(ByteSpan bytes) {
  const std::string_view begin = as_text(bytes);
  if (formats::is_entity(bytes)) return "is an .entity file, which weft import makes; it needs no import";
  if (begin.starts_with("version https://git-lfs"))
    return "is a Git LFS pointer, and not the file that it stands for; git lfs pull fetches that";
  if (begin.starts_with("PK\3\4") || begin.starts_with("\x80\2"))
    return "is a file of PyTorch (pickles), which is not read, since that may run any code; "
           "model.save_pretrained(FOLDER) of transformers writes model.safetensors";
  return {};
}

/// A folder whose weights are in files of PyTorch alone.
bool has_pickles_alone(const std::string& path) {
  for (const char* const name : {"/model.safetensors", "/model.safetensors.index.json"})
    if (is_regular_file(path + name)) return false;
  return is_regular_file(path + "/pytorch_model.bin") || is_regular_file(path + "/pytorch_model.bin.index.json");
}

/// The tokenizer of a GGUF file: its keys alone.
Result<KeptFile> tokenizer_of(const formats::GgufMetadata& all) {
  formats::GgufMetadata metadata;
  for (const auto& [key, value] : all.pairs())
    if (key.starts_with("tokenizer.") || key == "general.architecture") metadata.set(key, value);
  WEFT_TRY(const ByteSource source, formats::gguf_source(std::move(metadata), {}));
  WEFT_TRY(const ByteBuffer bytes, collect(source));
  return KeptFile{"tokenizer.gguf", std::make_shared<const std::string>(as_text(bytes))};
}

Result<ModelFiles> open_gguf(storage::FileSystem& files, const std::string& path) {
  WEFT_TRY(const formats::GgufModel model, formats::load_gguf_model(files, path));
  if (model.tensors->tensors().empty() && model.metadata().contains("tokenizer.ggml.tokens"))
    return fail(Errc::unsupported, path + ": holds a vocabulary and no weights; weft tokenize takes it");
  ModelFiles opened;
  opened.path = path;
  opened.is_gguf = true;
  auto config = internal::gguf_config(model.metadata(), *model.tensors);
  if (!config) return fail(std::move(config).error().within(path));
  opened.config = *std::move(config);
  WEFT_TRY(const std::string architecture, model.metadata().text("general.architecture"));
  if (!find_gguf_family(architecture)) return unknown_family(path + ": general.architecture", architecture);
  opened.family = find_family(opened.config["model_type"].text());
  opened.tensors = model.tensors;
  if (const auto* const tokens = model.metadata().find("tokenizer.ggml.tokens")) {
    const auto* const listed = std::get_if<formats::GgufArray>(tokens);
    const Json* const rows = opened.config.find("vocab_size");
    if (listed && rows && formats::size(*listed) != rows->get<std::uint64_t>())
      return fail(Errc::shape_mismatch, path + ": tokenizer.ggml.tokens: " + std::to_string(formats::size(*listed)) +
                                            " tokens, token_embd.weight has rows for " +
                                            std::to_string(rows->get<std::uint64_t>()) + "; both must be the same");
    WEFT_TRY(opened.kept.emplace_back(), tokenizer_of(model.metadata()));
  }
  return opened;
}

Result<ModelFiles> open_folder(storage::FileSystem& files, const std::string& path) {
  ModelFiles opened;
  opened.path = path;
  const std::string name = path + "/config.json";
  if (!is_regular_file(name))
    return fail(Errc::not_found, name + ": is not there; a model's folder has config.json and model.safetensors");
  WEFT_TRY(const ByteBuffer bytes, files.read(name, kLargestText));
  WEFT_TRY(opened.config, parse_json(as_text(bytes), name));
  const Json* const type = opened.config.find("model_type");
  if (!type || !type->is_string()) return fail(Errc::not_found, name + ".model_type: is not there, or no text");
  opened.family = find_family(type->text());
  if (!opened.family) return unknown_family(name + ".model_type", type->text());
  if (has_pickles_alone(path))
    return fail(Errc::unsupported, path +
                                       ": its weights are in files of PyTorch (pytorch_model.bin), which are not "
                                       "read, since that may run any code; model.save_pretrained(FOLDER) of "
                                       "transformers writes model.safetensors");
  WEFT_TRY(formats::SafetensorsModel model, formats::load_safetensors_folder(files, path));
  opened.tensors = std::move(model.tensors);
  opened.warnings = std::move(model.warnings);
  for (const auto& [key, value] : model.notes)
    if (opened.tensors->contains(value) && !opened.tensors->contains(key)) opened.aliases.emplace_back(key, value);
  WEFT_TRY(opened.kept, read_kept_files(files, path));
  return opened;
}

}  // namespace

std::string ModelFiles::find(std::string_view name) const {
  if (tensors->contains(name)) return std::string(name);
  for (const auto& [other, kept_name] : aliases)
    if (other == name) return kept_name;
  return {};
}

bool is_kept_file(std::string_view name) noexcept {
  return std::find(kKeptFiles.begin(), kKeptFiles.end(), name) != kKeptFiles.end();
}

Result<std::vector<KeptFile>> read_kept_files(storage::FileSystem& files, const std::string& folder) {
  std::vector<KeptFile> found;
  for (const std::string_view name : kKeptFiles) {
    const std::string file = folder + "/" + std::string(name);
    if (!is_regular_file(file)) continue;
    WEFT_TRY(const ByteBuffer text, files.read(file, kLargestText));
    found.push_back({std::string(name), std::make_shared<const std::string>(as_text(text))});
  }
  return found;
}

Result<ModelFiles> open_model_files(storage::FileSystem& files, const std::string& path) {
  std::error_code unknown;
  if (std::filesystem::is_directory(path, unknown)) return open_folder(files, path);
  if (path.ends_with(".json"))
    return fail(Errc::invalid_argument, path + ": is no model but a part of one; give the folder that it is in");
  WEFT_TRY(storage::MappedFile bytes, files.map(path, kLargestFile));
  // Loom's files begin as Weft's own do.
  if (!formats::is_loom_entity(bytes.bytes())) {
    if (const std::string_view what = words_of_other(bytes.bytes()); !what.empty())
      return fail(Errc::parse_failed, path + ": " + std::string(what));
    return open_gguf(files, path);
  }
  WEFT_TRY(const formats::LoomEntityFile file, formats::decode_loom_entity(std::move(bytes), path));
  return internal::loom_model(file, path);
}

}  // namespace weft::models
