// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "server/served_model.hpp"

#include "storage/fwd.hpp"
#include "text/chat_template.hpp"

#include "core/result.hpp"

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::server {

/// Language models of a server by name.
/// @thread any
class ModelTable {
 public:
  /// The model that answers a request which names none that is served.
  enum class Fallback { automatic, always, never };  ///< automatic: the only one there is
  struct Options {
    ServedModel::Options serving{};
    Fallback fallback = Fallback::automatic;
    std::string tokenizer{};                            ///< file or folder of the tokenizer; empty: the model's own
    std::string draft{};                                ///< file or folder of a model that guesses; empty: none
    std::optional<text::ChatTemplate> chat_template{};  ///< instead of the models' own
    NumaPlacement numa{};
    std::size_t threads = 1;  ///< of each engine; 0: all cores, of its node where it has one
    std::string device{};     ///< that computes the texts (mesh::MeshOptions::device); empty: the model's own
  };

  explicit ModelTable(Options options) : options_(std::move(options)) {}

  /// True of a path that `load` takes: a folder, a GGUF file, an .entity file that weft import made.
  /// @error as FileSystem::map, decode_entity
  static Result<bool> is_model(storage::FileSystem& files, const std::string& path);
  /// @error duplicate_name, invalid_argument: no plain name; as load_language_model, ServedModel::make
  Result<std::shared_ptr<ServedModel>> load(storage::FileSystem& files, const std::string& name,
                                            const std::string& path);
  /// The model of exactly this name, the first of its replicas. Null: there is none.
  std::shared_ptr<ServedModel> find(std::string_view name) const;
  /// One engine for each node that the model is on; empty: no model of exactly this name.
  std::vector<std::shared_ptr<ServedModel>> replicas(std::string_view name) const;
  /// The model that answers a request for `name` (empty: none is named): the replica with the least to do. Requests
  /// with the same `session` go to the same replica, while it has a free slot or no other has. @error not_found
  Result<std::shared_ptr<ServedModel>> choose(std::string_view name, std::string_view session = {}) const;
  /// By name, the first replica of each.
  std::vector<std::shared_ptr<ServedModel>> all() const;
  /// By name and node, every replica.
  std::vector<std::shared_ptr<ServedModel>> all_replicas() const;
  void stop_all();

 private:
  using Replicas = std::vector<std::shared_ptr<ServedModel>>;
  Result<std::shared_ptr<ServedModel>> make(storage::FileSystem& files, const std::string& name,
                                            const std::string& path, std::optional<NumaNode> node) const;
  std::vector<std::optional<NumaNode>> next_nodes();

  const Options options_;
  mutable std::mutex mutex_;  // of the two below
  std::map<std::string, Replicas, std::less<>> models_;
  std::size_t next_node_ = 0;
};

}  // namespace weft::server
