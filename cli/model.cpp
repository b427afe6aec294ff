// SPDX-License-Identifier: Apache-2.0

#include "cli/model.hpp"

#include "agent/checkpointer.hpp"

#include "mesh/loom/loom_network.hpp"
#include "mesh/network/network_json.hpp"
#include "mesh/persistence/entity_model.hpp"

#include "formats/csv/gzip.hpp"
#include "formats/entity/entity.hpp"
#include "formats/loom/loom_entity.hpp"
#include "storage/checkpoint.hpp"
#include "storage/file_system.hpp"

#include "core/json.hpp"
#include "core/printable.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <utility>

namespace weft::cli {
namespace {
constexpr std::size_t kMaxFileBytes = std::size_t{1} << 40;

Status import(storage::MappedFile bytes, bool reads_weights, Model& model) {
  WEFT_TRY(const formats::LoomEntityFile file, formats::decode_loom_entity(std::move(bytes), model.path));
  model.is_imported = true;
  if (reads_weights) {
    auto imported = mesh::import_loom_entity(file);
    if (!imported) return fail(std::move(imported).error().within(model.path));
    model.spec = std::move(imported->spec);
    model.entity = std::move(imported->file);
    model.notes = std::move(imported->notes);
  } else {
    auto described = mesh::describe_loom_entity(file);
    if (!described) return fail(std::move(described).error().within(model.path));
    model.spec = std::move(described->spec);
    model.notes = std::move(described->notes);
  }
  for (const std::string& note : model.notes)
    std::fprintf(stderr, "weft: note: %s: %s\n", escaped(model.path).c_str(), escaped(note).c_str());
  return {};
}

/// True for what begins like a table, and not like JSON: a line of fields with separators between them.
bool is_table(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  if (formats::is_gzip(as_bytes(text))) return true;
  const std::string_view line = text.substr(0, text.find('\n'));
  const auto begin = line.find_first_not_of(" \t\r");
  if (begin == line.npos || line[begin] == '{' || line[begin] == '[') return false;
  return line.find('\0') == line.npos && line.find_first_of(",;|\t", begin) != line.npos;
}

/// Words about a file that others' models have, and that is no network; empty: about any other.
std::string_view words_of_foreign(std::string_view text) {
  if (text.starts_with("version https://git-lfs")) return "a Git LFS pointer; git lfs pull fetches the file itself";
  if (text.starts_with("GGUF")) return "a GGUF file; weft import makes an .entity file of it";
  if (text.size() > 8 && text[7] == '\0' && text[8] == '{')
    return "a safetensors file; weft import makes an .entity file of it";
  const auto json = parse_json(text, "", {.max_bytes = std::size_t{128} << 20});
  if (!json || !json->is_object()) return {};
  if (json->contains("model_type") || json->contains("weight_map"))
    return "a part of a model's folder; give the folder to weft inspect and weft import";
  if (json->contains("added_tokens")) return "a tokenizer; give it to weft tokenize";
  return {};
}
}  // namespace

Result<Model> read_model(const std::string& path, bool reads_weights) {
  storage::FileSystem& files = storage::real_file_system();
  std::error_code unknown;
  if (std::filesystem::is_directory(path, unknown))
    return fail(Errc::storage,
                path +
                    ": is a directory, and holds no model (config.json, model.safetensors); an agent's data directory "
                    "is for weft replay, weft diff and weft run --state");
  WEFT_TRY(storage::MappedFile bytes, files.map(path, kMaxFileBytes));
  Model model;
  model.path = path;
  model.folder = storage::parent_path(path);
  model.file_bytes = bytes.size();
  if (formats::is_loom_entity(bytes.bytes())) {
    WEFT_CHECK(import(std::move(bytes), reads_weights, model));
    return model;
  }
  if (!formats::is_entity(bytes.bytes())) {
    auto spec = mesh::read_network(as_text(bytes.bytes()), path);
    WEFT_CHECK(bytes.intact());
    if (!spec && is_table(as_text(bytes.bytes())))
      return fail(Errc::parse_failed,
                  path + ": is a table, and no network; write a network for it with weft new --from " + path);
    if (!spec)
      if (const std::string_view what = words_of_foreign(as_text(bytes.bytes())); !what.empty())
        return fail(Errc::parse_failed, path + ": is no network but " + std::string(what));
    // Syntax errors carry the file's name already.
    if (!spec && spec.error().text().starts_with(path)) return fail(std::move(spec).error());
    if (!spec) return fail(std::move(spec).error().within(path));
    model.spec = std::move(*spec);
    return model;
  }
  WEFT_TRY(model.entity, formats::decode_entity(std::move(bytes), path));
  auto spec = mesh::network_of(*model.entity);
  if (!spec) return fail(std::move(spec).error().within(path));
  model.spec = std::move(*spec);
  return model;
}

Result<Model> read_kept_model(const std::string& path) {
  std::error_code unknown;
  if (!std::filesystem::is_directory(path, unknown)) return read_model(path);
  storage::FileSystem& files = storage::real_file_system();
  std::optional<storage::Checkpoint> found;
  // A run that goes on removes old ones; then there is a newer one.
  for (int attempt = 0; !found; ++attempt) {
    WEFT_TRY(auto store, storage::CheckpointStore::look(files, path));
    auto latest = store.latest();
    if (!latest && attempt == 4) return fail(std::move(latest).error());
    if (!latest) continue;
    if (!*latest)
      return fail(Errc::not_found,
                  path + ": is a directory, and holds no checkpoint of weft run --state or --checkpoint");
    found = **std::move(latest);
  }
  Model model;
  model.path = path;
  model.folder = path;
  for (const char* const name : {agent::kAgentFile, kRunFile}) {
    auto bytes = found->file(name);
    if (!bytes) continue;
    model.file_bytes = bytes->size();
    WEFT_TRY(model.entity, formats::decode_entity(*std::move(bytes), found->path + "/" + name));
    WEFT_TRY(model.spec, mesh::network_of(*model.entity));
    std::fprintf(stderr, "weft: note: %s: asked as of %s, its newest checkpoint\n", escaped(path).c_str(),
                 storage::to_string(found->key).c_str());
    return model;
  }
  return fail(Errc::not_found, found->path + ": is no checkpoint of weft run");
}

Error blamed(Error error, const std::string& path, std::span<const std::string> others) {
  const auto names = [&](const std::string& file) { return !file.empty() && error.text().starts_with(file); };
  // topology::Machine is asked when a mesh is built; what is wrong with it is no fault of a file's.
  if (names(path) || names("hwloc") || names("device") || std::any_of(others.begin(), others.end(), names))
    return error;
  return std::move(error).within(path);
}

std::string path_within(const std::string& folder, const std::string& path) {
  return (std::filesystem::path(folder) / path).lexically_normal().string();
}

std::optional<std::string> path_from(const std::string& path, const std::string& found) {
  std::error_code unknown;
  const auto way = std::filesystem::proximate(found, std::filesystem::path(storage::parent_path(path)), unknown);
  if (unknown) return std::nullopt;
  return way.string();
}

}  // namespace weft::cli
