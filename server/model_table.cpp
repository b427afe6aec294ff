// SPDX-License-Identifier: Apache-2.0

#include "server/model_table.hpp"

#include "formats/entity/entity.hpp"
#include "formats/gguf/gguf.hpp"
#include "storage/file_system.hpp"

#include <filesystem>
#include <new>
#include <utility>

namespace weft::server {
namespace {

constexpr std::size_t kLargestFile = std::size_t{1} << 44;

}  // namespace

Result<bool> ModelTable::is_model(storage::FileSystem& files, const std::string& path) {
  std::error_code unknown;
  if (std::filesystem::is_directory(path, unknown)) return true;
  WEFT_TRY(storage::MappedFile bytes, files.map(path, kLargestFile));
  if (formats::is_gguf(bytes.bytes())) return true;
  if (!formats::is_entity(bytes.bytes())) return false;
  WEFT_TRY(const formats::EntityFile file, formats::decode_entity(std::move(bytes), path));
  return file.meta().contains("model");
}

Result<std::shared_ptr<ServedModel>> ModelTable::load(storage::FileSystem& files, const std::string& name,
                                                      const std::string& path) {
  if (!is_plain_name(name))
    return fail(Errc::invalid_argument, "model '" + name.substr(0, 128) +
                                            "': a name has 1 to 128 letters, digits, dots, dashes and underscores; "
                                            "give another as NAME=" +
                                            path);
  if (find(name)) return fail(Errc::duplicate_name, "model '" + name + "': one of this name is served already");
  mesh::MeshOptions mesh;
  mesh.threads = 1;
  mesh.max_memory = options_.serving.engine.max_memory;
  try {
    WEFT_TRY(models::LanguageModel model, models::load_language_model(files, path, options_.tokenizer, mesh));
    if (options_.chat_template) {
      model.chat.chat = model.chat.tools = options_.chat_template;
      model.chat.refused.clear();
    }
    const std::string file = std::filesystem::path(path).filename().string();
    auto served = ServedModel::make(name, file, std::move(model), options_.serving);
    if (!served) return fail(std::move(served).error().within(path));
    const std::lock_guard hold(mutex_);
    if (!models_.emplace(name, *served).second)
      return fail(Errc::duplicate_name, "model '" + name + "': one of this name is served already");
    return *served;
  } catch (const std::bad_alloc&) {
    return fail(Errc::too_large, "model '" + name + "': not enough memory");
  }
}

std::shared_ptr<ServedModel> ModelTable::find(std::string_view name) const {
  const std::lock_guard hold(mutex_);
  const auto found = models_.find(name);
  return found == models_.end() ? nullptr : found->second;
}

Result<std::shared_ptr<ServedModel>> ModelTable::choose(std::string_view name) const {
  const std::lock_guard hold(mutex_);
  if (const auto found = models_.find(name); found != models_.end()) return found->second;
  const bool falls_back = options_.fallback == Fallback::always ||
                          (models_.size() == 1 && (name.empty() || options_.fallback == Fallback::automatic));
  if (falls_back && !models_.empty()) return models_.begin()->second;
  if (models_.empty()) return fail(Errc::not_found, "model: no language model is served");
  if (name.empty()) return fail(Errc::not_found, "model: several are served, name one of them");
  return fail(Errc::not_found, "model '" + std::string(name.substr(0, 128)) + "': none of this name is served");
}

std::vector<std::shared_ptr<ServedModel>> ModelTable::all() const {
  std::vector<std::shared_ptr<ServedModel>> found;
  const std::lock_guard hold(mutex_);
  for (const auto& [_, each] : models_) found.push_back(each);
  return found;
}

void ModelTable::stop_all() {
  for (const auto& each : all()) each->stop();
}

}  // namespace weft::server
