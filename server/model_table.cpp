// SPDX-License-Identifier: Apache-2.0

#include "server/model_table.hpp"

#include "formats/entity/entity.hpp"
#include "formats/gguf/gguf.hpp"
#include "storage/file_system.hpp"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <new>
#include <thread>
#include <utility>

namespace weft::server {
namespace {

constexpr std::size_t kLargestFile = std::size_t{1} << 44;

using Replicas = std::vector<std::shared_ptr<ServedModel>>;

/// Texts of a replica that are written or wait.
std::size_t load_of(const ServedModel& model) { return model.waiting() + model.statistics()->busy; }

std::shared_ptr<ServedModel> replica_for(const Replicas& replicas, std::string_view session) {
  const auto least = *std::min_element(replicas.begin(), replicas.end(),
                                       [](const auto& a, const auto& b) { return load_of(*a) < load_of(*b); });
  if (session.empty()) return least;
  const auto& usual = replicas[std::hash<std::string_view>{}(session) % replicas.size()];
  const auto slots = [](const auto& each) { return each->description().slots; };
  return load_of(*usual) < slots(usual) || load_of(*least) >= slots(least) ? usual : least;
}

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
  Replicas replicas;
  for (std::optional<NumaNode>& node : next_nodes()) {
    WEFT_TRY(auto made, make(files, name, path, std::move(node)));
    replicas.push_back(std::move(made));
  }
  const std::lock_guard hold(mutex_);
  const auto first = replicas.front();
  if (!models_.emplace(name, std::move(replicas)).second)
    return fail(Errc::duplicate_name, "model '" + name + "': one of this name is served already");
  return first;
}

/// Nodes of a model's replicas, or none for wherever the system has room.
std::vector<std::optional<NumaNode>> ModelTable::next_nodes() {
  const std::vector<NumaNode>& nodes = options_.numa.nodes;
  if (options_.numa.mode == NumaMode::replicas) return {nodes.begin(), nodes.end()};
  if (options_.numa.mode == NumaMode::off) return {std::nullopt};
  const std::lock_guard hold(mutex_);
  return {nodes[next_node_++ % nodes.size()]};
}

/// On a thread of its own, which stays on the node: memory lies where it is touched first.
Result<std::shared_ptr<ServedModel>> ModelTable::make(storage::FileSystem& files, const std::string& name,
                                                      const std::string& path, std::optional<NumaNode> node) const {
  const auto load = [&]() -> Result<std::shared_ptr<ServedModel>> {
    mesh::MeshOptions mesh;
    mesh.threads = options_.threads;
    mesh.device = options_.device;
    mesh.max_memory = options_.serving.engine.max_memory;
    if (node) mesh.machine = node->machine;
    WEFT_TRY(models::LanguageModel model, models::load_language_model(files, path, options_.tokenizer, mesh));
    if (options_.chat_template) {
      model.chat.chat = model.chat.tools = options_.chat_template;
      model.chat.refused.clear();
    }
    ServedModel::Loaded loaded{std::move(model)};
    if (!options_.draft.empty()) {
      WEFT_TRY(models::LanguageModel draft, models::load_language_model(files, options_.draft, {}, mesh));
      loaded.draft = std::make_unique<models::LanguageModel>(std::move(draft));
    }
    ServedModel::Options serving = options_.serving;
    serving.node = node;
    const std::string file = std::filesystem::path(path).filename().string();
    auto served = ServedModel::make(name, file, std::move(loaded), std::move(serving));
    if (!served) return fail(std::move(served).error().within(path));
    return *served;
  };
  const auto guarded = [&]() -> Result<std::shared_ptr<ServedModel>> {
    try {
      return load();
    } catch (const std::bad_alloc&) {
      return fail(Errc::too_large, "model '" + name + "': not enough memory");
    }
  };
  if (!node) return guarded();
  std::optional<Result<std::shared_ptr<ServedModel>>> made;
  std::thread([&] {
    const OnNode stays(node);
    made.emplace(guarded());
  }).join();
  return *std::move(made);
}

std::shared_ptr<ServedModel> ModelTable::find(std::string_view name) const {
  const std::lock_guard hold(mutex_);
  const auto found = models_.find(name);
  return found == models_.end() ? nullptr : found->second.front();
}

std::vector<std::shared_ptr<ServedModel>> ModelTable::replicas(std::string_view name) const {
  const std::lock_guard hold(mutex_);
  const auto found = models_.find(name);
  return found == models_.end() ? Replicas() : found->second;
}

Result<std::shared_ptr<ServedModel>> ModelTable::choose(std::string_view name, std::string_view session) const {
  const std::lock_guard hold(mutex_);
  if (const auto found = models_.find(name); found != models_.end()) return replica_for(found->second, session);
  const bool falls_back = options_.fallback == Fallback::always ||
                          (models_.size() == 1 && (name.empty() || options_.fallback == Fallback::automatic));
  if (falls_back && !models_.empty()) return replica_for(models_.begin()->second, session);
  if (models_.empty()) return fail(Errc::not_found, "model: no language model is served");
  if (name.empty()) return fail(Errc::not_found, "model: several are served, name one of them");
  return fail(Errc::not_found, "model '" + std::string(name.substr(0, 128)) + "': none of this name is served");
}

std::vector<std::shared_ptr<ServedModel>> ModelTable::all() const {
  std::vector<std::shared_ptr<ServedModel>> found;
  const std::lock_guard hold(mutex_);
  for (const auto& [_, each] : models_) found.push_back(each.front());
  return found;
}

std::vector<std::shared_ptr<ServedModel>> ModelTable::all_replicas() const {
  std::vector<std::shared_ptr<ServedModel>> found;
  const std::lock_guard hold(mutex_);
  for (const auto& [_, each] : models_) found.insert(found.end(), each.begin(), each.end());
  return found;
}

void ModelTable::stop_all() {
  for (const auto& each : all_replicas()) each->stop();
}

}  // namespace weft::server
